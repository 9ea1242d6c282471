// The classes of characters that regular expressions have names for.
#pragma once

#include <optional>
#include <string_view>

#include "grammar/code_point_set.h"

namespace ibid {

// \d, \w, \s by their letter, and \D, \W, \S. Nothing for other letters.
std::optional<CodePointSet> class_of_letter(char letter);

// Characters whose general category has this name or begins with it: "Lu", "L". Nothing for other names.
std::optional<CodePointSet> class_of_category(std::string_view name);

// What `.` matches: all but the ends of lines.
CodePointSet class_of_dot();

}  // namespace ibid
