// Unigram, as its definition reads: all tokens at all places, tried one by one.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"

namespace ibid {

struct UnigramRef {
  std::map<std::string, TokenId, std::less<>> pieces;
  std::vector<double> scores;  // by id
  TokenId unknown = 0;
  double unknown_score = 0;
  std::vector<TokenId> byte_ids;  // 256 of them, or none: no fallback to bytes

  Tokens encode(std::string_view text) const;
};

}  // namespace ibid
