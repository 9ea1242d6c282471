#pragma once

#include <span>
#include <string>

namespace ibid::serve {

// Appends a vector as "[0.25,-1]", with the shortest numbers that parse as the same floats.
void append_numbers(std::string& out, std::span<const float> vector);
// Appends the bytes of the floats, little-endian, as base64 (RFC 4648) in quotes.
void append_base64(std::string& out, std::span<const float> vector);

}  // namespace ibid::serve
