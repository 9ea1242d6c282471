#include "apps/terminal/remark.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "apps/terminal/terminal_text.h"
#include "apps/terminal/terminal_traits.h"
#include "apps/terminal/word_wrap.h"

namespace ibid {

void remark(std::string_view text, RemarkStyle style) {
  std::string shown = without_controls(text);
  if (isatty(STDERR_FILENO) == 1) shown = wrapped(shown, terminal_width(STDERR_FILENO));
  const bool dim = style == RemarkStyle::kDim && shows_colours(STDERR_FILENO);
  std::fprintf(stderr, "%s%s%s\n", dim ? "\x1b[2m" : "", shown.c_str(), dim ? "\x1b[0m" : "");
}

}  // namespace ibid
