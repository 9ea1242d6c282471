// Text of strangers (answers, metadata, templates' own errors) on its way to a terminal, which would obey the control
// characters in it: move the cursor, set the title, answer questions as if the user typed.
#pragma once

#include <string>
#include <string_view>

namespace ibid {

// `text` without control characters but newline and tab.
std::string without_controls(std::string_view text);

// The same in one line: newlines and tabs as \n and \t.
std::string one_line(std::string_view text);

}  // namespace ibid
