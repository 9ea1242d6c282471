// Unigram by definition: tries all tokens at all positions.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

struct UnigramRef {
  std::map<std::string, TokenId, std::less<>> pieces;
  std::vector<double> scores;  // by token id
  TokenId unknown = 0;
  double unknown_score = 0;
  std::vector<TokenId> byte_ids;  // 256 tokens, or empty: no byte fallback

  Tokens encode(std::string_view text) const;
};

}  // namespace ibid
