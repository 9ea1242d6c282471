// Reference implementation of tokenizer/bpe for tests: checks every pair again after every merge.
#pragma once

#include <string_view>

#include "ibid/token.h"
#include "tokenizer/models/bpe.h"

namespace ibid {

// The tokens of `piece` by the definition of byte pair encoding: while two neighbours have a merge, applies the merge
// with the lowest rank, the leftmost of equals.
Tokens bpe_by_definition(const BpeModel& model, std::string_view piece);

}  // namespace ibid
