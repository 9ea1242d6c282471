#include "apps/terminal/output.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <string>

#include "apps/terminal/terminal.h"
#include "apps/terminal/terminal_text.h"
#include "apps/terminal/word_wrap.h"

namespace ibid {

void remark(std::string_view text, RemarkStyle style) {
  std::string shown = without_controls(text);
  if (isatty(STDERR_FILENO) == 1) shown = wrapped(shown, terminal_width(STDERR_FILENO));
  const bool dim = style == RemarkStyle::kDim && shows_colours(STDERR_FILENO);
  std::fprintf(stderr, "%s%s%s\n", dim ? "\x1b[2m" : "", shown.c_str(), dim ? "\x1b[0m" : "");
}

AnswerWriter::AnswerWriter() : to_terminal_(isatty(STDOUT_FILENO) == 1), wrap_(supports_escapes(STDOUT_FILENO)) {}

void AnswerWriter::put(std::string_view bytes) {
  if (bytes.empty() || error_ != 0) return;
  if (std::fwrite(bytes.data(), 1, bytes.size(), stdout) != bytes.size() || std::fflush(stdout) != 0) error_ = errno;
}

void AnswerWriter::write(std::string_view text) {
  const std::string clean = to_terminal_ ? without_controls(text) : std::string();
  const std::string_view shown = to_terminal_ ? std::string_view(clean) : text;
  if (shown.empty()) return;
  at_line_start_ = shown.back() == '\n';
  put(to_terminal_ ? wrap_.push(shown, terminal_width(STDOUT_FILENO)) : shown);
}

void AnswerWriter::write_line(std::string_view line) {
  end_line();
  put((to_terminal_ ? without_controls(line) : std::string(line)) + "\n");
}

void AnswerWriter::end_line() {
  if (at_line_start_) return;
  put(to_terminal_ ? wrap_.finish() + wrap_.push("\n", terminal_width(STDOUT_FILENO)) : "\n");
  at_line_start_ = true;
}

}  // namespace ibid
