// The name of a kept conversation, and how it stands in the name of a file: letters of any script and blanks are
// allowed, and whatever is not an ASCII letter, a digit, _ or - is written as %XX, byte by byte.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

inline constexpr size_t kMaxNameCharacters = 64;

// Error: kInvalidArgument saying what a name is.
Status check_session_name(std::string_view name);

// "my talk" -> "my%20talk". REQUIRES: check_session_name().
std::string escape_session_name(std::string_view name);
// The name that escape_session_name() gave this; nullopt when it gives this for none.
std::optional<std::string> unescape_session_name(std::string_view escaped);

}  // namespace ibid
