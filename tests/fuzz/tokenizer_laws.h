// Laws that every loaded tokenizer must keep, whatever its file format.
#pragma once

#include <string_view>

#include "tests/fuzz/script.h"
#include "tokenizer/tokenizer.h"

namespace ibid::fuzz {

// Checks that token ids are in range, that a text appended in pieces has the tokens of the whole text, and that
// streamed output equals decode(). The script chooses where to cut the text, and its origins.
void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, Script& script);

}  // namespace ibid::fuzz
