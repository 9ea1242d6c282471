// Output for people: answers on standard output; remarks (notes, help, errors) on standard error.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/terminal/word_wrap.h"

namespace ibid {

enum class RemarkStyle : uint8_t { kPlain, kDim };

// Writes the text and a newline to standard error. On a terminal, wraps it at words and removes control characters;
// kDim has an effect only if colours are shown.
void remark(std::string_view text, RemarkStyle style = RemarkStyle::kPlain);

// Writes an answer to standard output piece by piece. On a terminal, wraps it at words and removes control characters;
// otherwise writes it unchanged.
class AnswerWriter {
 public:
  AnswerWriter();

  void write(std::string_view text);
  // Writes a line for programs, without wrapping.
  void write_line(std::string_view line);
  // Ends the current line unless it is empty.
  void end_line();

  bool at_line_start() const { return at_line_start_; }
  // Returns errno of the first failed write, or 0. After a failed write, nothing more is written.
  int error() const { return error_; }

 private:
  void put(std::string_view bytes);

  const bool to_terminal_;
  WordWrap wrap_;
  bool at_line_start_ = true;
  int error_ = 0;
};

}  // namespace ibid
