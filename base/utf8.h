// UTF-8: decode, encode, validate (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace ibid {

inline constexpr uint32_t kReplacementCharacter = 0xFFFD;

struct DecodedChar {
  uint32_t code_point;  // kReplacementCharacter when !valid
  size_t length;        // bytes consumed, >= 1; for an invalid sequence its maximal valid prefix (Unicode 3.9)
  bool valid;
};

// The character at text[offset]. REQUIRES: offset < text.size().
DecodedChar utf8_decode(std::string_view text, size_t offset);

// Returns the start of the character that ends at text[end - 1]; an invalid byte counts as a character. REQUIRES: 0 <
// end <= text.size().
size_t utf8_previous(std::string_view text, size_t end);

// Appends the UTF-8 form of a scalar value. REQUIRES: code_point is a Unicode scalar value.
void utf8_append(std::string& out, uint32_t code_point);

bool utf8_is_valid(std::string_view text);

// Number of characters; an invalid sequence counts as one.
size_t utf8_length(std::string_view text);

// Returns the number of bytes (0 to 3) at the end of `text` that begin an incomplete character. Bytes that can never
// become a character do not count.
size_t utf8_incomplete_tail(std::string_view text);

// `text` with every invalid sequence replaced by U+FFFD.
std::string utf8_sanitize(std::string_view text);

}  // namespace ibid
