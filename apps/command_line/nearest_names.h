// "Did you mean": names that are near to a mistyped one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ibid {

// ASCII letters in lower case.
std::string lower_case(std::string_view text);

// Those of `names` that a person may have meant by `typed`, nearest first: few letters apart (Levenshtein), or one
// within the other. Case does not count.
std::vector<std::string> nearest_names(std::string_view typed, const std::vector<std::string>& names);

}  // namespace ibid
