// The hand-written scanners of the frequent families (see pretokenizer.h): one pass over the characters, no
// backtracking.
#pragma once

#include <cstddef>
#include <string_view>

#include "tokenizer/splitting/pretokenizer.h"

namespace ibid {

Piece scan_gpt2(std::string_view text, size_t begin);
Piece scan_digits_gpt2(std::string_view text, size_t begin);  // every \p{N} alone, gpt2 between them
Piece scan_llama3(std::string_view text, size_t begin);
Piece scan_qwen2(std::string_view text, size_t begin);
Piece scan_qwen35(std::string_view text, size_t begin);
Piece scan_o200k(std::string_view text, size_t begin);
Piece scan_tekken(std::string_view text, size_t begin);
Piece scan_deepseek_v3(std::string_view text, size_t begin);

// Runs of digits and what stands between them, where a file puts Digits behind ByteLevel: there it sees the letters of
// the byte alphabet, of which some are numbers, so that it cuts characters.
Piece scan_alphabet_digits(std::string_view text, size_t begin);

}  // namespace ibid
