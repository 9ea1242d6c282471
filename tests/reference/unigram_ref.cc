#include "tests/reference/unigram_ref.h"

#include <limits>

#include "base/utf8.h"

namespace ibid {

Tokens UnigramRef::encode(std::string_view text) const {
  struct Way {
    double score = -std::numeric_limits<double>::infinity();
    size_t begin = 0;
    TokenId token = -1;
  };
  std::vector<Way> best(text.size() + 1);
  best[0].score = 0;
  size_t character = 0;
  for (size_t begin = 0; begin < text.size(); begin += character) {
    character = utf8_decode(text, begin).length;
    const auto offer = [&](size_t end, TokenId token, double score) {
      if (best[begin].score + score > best[end].score) best[end] = {best[begin].score + score, begin, token};
    };
    for (size_t end = begin + 1; end <= text.size(); ++end) {
      const auto found = pieces.find(text.substr(begin, end - begin));
      if (found != pieces.end()) offer(end, found->second, scores[static_cast<size_t>(found->second)]);
    }
    if (!pieces.contains(text.substr(begin, character))) offer(begin + character, unknown, unknown_score);
  }
  Tokens reversed;
  for (size_t end = text.size(); end > 0;) {
    size_t begin = best[end].begin;
    if (best[end].token != unknown) {
      reversed.push_back(best[end].token);
      end = begin;
      continue;
    }
    while (begin > 0 && best[begin].token == unknown) begin = best[begin].begin;
    const std::string_view run = text.substr(begin, end - begin);
    if (const auto found = pieces.find(run); found != pieces.end()) {
      reversed.push_back(found->second);
    } else if (byte_ids.empty()) {
      reversed.push_back(unknown);
    } else {
      for (size_t i = run.size(); i-- > 0;) reversed.push_back(byte_ids[static_cast<unsigned char>(run[i])]);
    }
    end = begin;
  }
  return {reversed.rbegin(), reversed.rend()};
}

}  // namespace ibid
