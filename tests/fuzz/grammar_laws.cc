#include "tests/fuzz/grammar_laws.h"

#include <array>
#include <cstddef>
#include <numeric>
#include <vector>

#include "base/check.h"
#include "grammar/byte_automaton.h"
#include "grammar/configurations.h"
#include "ibid/token.h"

namespace ibid::fuzz {

std::optional<std::string> check_grammar(const Result<Grammar>& grammar, uint8_t seed) {
  if (!grammar.ok()) {
    CHECK(!grammar.status().message().empty());
    return std::nullopt;
  }
  Configurations configs(grammar->parts().automaton, {.max_bytes = 1u << 20, .max_items = 500, .max_work = 200'000});
  // Any distinct numbers will do as token ids; the last one is of a token that the grammar does not name.
  std::vector<TokenId> tokens(grammar->parts().automaton.tokens().size());
  std::iota(tokens.begin(), tokens.end(), TokenId{0});
  const auto n_ids = tokens.empty() ? TokenId{0} : static_cast<TokenId>(tokens.size() + 1);
  ConfigId at = configs.start();
  uint32_t choice = seed;
  std::string text;
  std::optional<std::string> whole;
  bool bytes_only = true;
  const auto limited = [&] { return configs.limit_reached() != Configurations::LimitReached::kNone; };
  for (int i = 0; i < 300 && !limited(); ++i) {
    if (!whole && bytes_only && configs.may_end(at)) whole = text;
    std::array<bool, 256> next{};
    configs.next_bytes(at, next);
    std::vector<uint8_t> bytes;
    for (size_t byte = 0; byte < next.size(); ++byte) {
      if (next[byte]) bytes.push_back(static_cast<uint8_t>(byte));
    }
    std::vector<ConfigId> after_tokens;
    for (TokenId id = 0; id < n_ids; ++id) {
      const ConfigId after = configs.step_token(at, id, tokens);
      if (after != Configurations::kDead) after_tokens.push_back(after);
    }
    const auto n = static_cast<uint32_t>(bytes.size() + after_tokens.size());
    CHECK(n > 0 || configs.may_end(at) || limited()) << "a dead end after " << i << " steps";
    if (n == 0) break;
    choice = choice * 1664525 + 1013904223;
    const uint32_t chosen = (choice >> 16) % n;
    if (chosen < bytes.size()) {
      at = configs.step(at, bytes[chosen]);
      text += static_cast<char>(bytes[chosen]);
    } else {
      at = after_tokens[chosen - bytes.size()];
      bytes_only = false;
    }
    CHECK(at != Configurations::kDead || limited()) << "edge to a dead state";
  }
  return whole;
}

}  // namespace ibid::fuzz
