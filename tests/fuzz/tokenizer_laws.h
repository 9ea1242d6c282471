// Properties of every loaded tokenizer, whatever its file format.
#pragma once

#include <string_view>

#include "tests/fuzz/script.h"
#include "tokenizer/tokenizer.h"

namespace ibid::fuzz {

// Checks that token ids are in range, that a text appended in pieces has the tokens of the whole, and that streamed
// output equals decode(). The script selects the cuts and origins of the text.
void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, Script& script);

}  // namespace ibid::fuzz
