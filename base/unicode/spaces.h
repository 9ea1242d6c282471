// Where white space begins and ends in UTF-8 text. Invalid bytes are no white space.
#pragma once

#include <cstddef>
#include <string_view>

namespace ibid {

// Where the white space that ends at text[end - 1] begins; not looked for before `floor`. REQUIRES: floor <= end.
size_t spaces_begin(std::string_view text, size_t end, size_t floor = 0);

// Where the white space from text[begin] on ends.
size_t spaces_end(std::string_view text, size_t begin);

}  // namespace ibid
