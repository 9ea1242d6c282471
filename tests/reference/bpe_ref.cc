#include "tests/reference/bpe_ref.h"

#include <map>
#include <optional>
#include <utility>

namespace ibid {

Tokens bpe_by_definition(const BpeModel& model, std::string_view piece) {
  std::map<std::pair<TokenId, TokenId>, std::pair<size_t, TokenId>> ranked;
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const Merge& merge = model.merges[rank];
    ranked[{merge.left, merge.right}] = {rank, merge.result};
  }
  Tokens tokens;
  for (const char byte : piece) {
    const TokenId id = model.byte_ids[static_cast<unsigned char>(byte)];
    if (id != kNoToken) tokens.push_back(id);
  }
  while (true) {
    std::optional<size_t> best;
    size_t best_rank = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const auto merge = ranked.find({tokens[i], tokens[i + 1]});
      if (merge == ranked.end() || (best && merge->second.first >= best_rank)) continue;
      best = i;
      best_rank = merge->second.first;
    }
    if (!best) return tokens;
    tokens[*best] = ranked.at({tokens[*best], tokens[*best + 1]}).second;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(*best) + 1);
  }
}

}  // namespace ibid
