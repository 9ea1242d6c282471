// The words that every layer shares.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ibid {

using TokenId = int32_t;                       // an index into the vocabulary
using TokenSpan = std::span<const TokenId>;
using Tokens = std::vector<TokenId>;

}  // namespace ibid
