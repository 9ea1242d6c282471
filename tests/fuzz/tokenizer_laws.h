// What holds of every tokenizer that was loaded, whatever file it came from.
#pragma once

#include <string_view>

#include "tests/fuzz/script.h"
#include "tokenizer/tokenizer.h"

namespace ibid::fuzz {

// Ids are in range, a text that grows in pieces has the ids of the whole, and what a stream shows is what
// decode() gives. The script says where the text is cut and whose words it is.
void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, Script& script);

}  // namespace ibid::fuzz
