// Makes names and values from a file fit for an error message.
#pragma once

#include <string>
#include <string_view>

namespace ibid {

// `text` in single quotes: invalid UTF-8 and control characters replaced, cut after 100 bytes. A hostile file
// must not choose what a terminal or a log does.
std::string in_quotes(std::string_view text);

// A value that is listed beside its name: invalid UTF-8 replaced, cut after 200 bytes.
std::string shown_value(std::string_view text);

}  // namespace ibid
