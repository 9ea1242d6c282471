// Vectors as text.
#pragma once

#include <span>
#include <string>

namespace ibid::serve {

// Appends "[0.25,-1]": the shortest numbers that are read as the same floats.
void append_numbers(std::string& out, std::span<const float> vector);
// Appends the floats' bytes, the least significant first, in base64 (RFC 4648) with quotes around it.
void append_base64(std::string& out, std::span<const float> vector);

}  // namespace ibid::serve
