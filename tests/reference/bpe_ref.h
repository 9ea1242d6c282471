// The readable twin of tokenizer/bpe: looks at every pair again after every merge. For tests.
#pragma once

#include <string_view>

#include "ibid/token.h"
#include "tokenizer/models/bpe.h"

namespace ibid {

// The ids of `piece` by the definition of byte pair encoding: while any two neighbours have a merge, the one
// with the lowest rank is done, the leftmost of equals.
Tokens bpe_by_definition(const BpeModel& model, std::string_view piece);

}  // namespace ibid
