// The value of a string literal, as Python's unicode-escape codec gives it.
#pragma once

#include <string>
#include <string_view>

namespace ibid::jinja {

// `body` is what stands between the quotes. Throws Failure (kTemplateSyntax with `line`) for a broken \x, \u
// or \U, for \N{...}, and for escapes that name no character.
std::string unescape(std::string_view body, int line);

}  // namespace ibid::jinja
