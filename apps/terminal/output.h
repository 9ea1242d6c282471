// The output of the program for people: answers on standard output, and beside them, on standard error, remarks: notes,
// help, errors.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "apps/terminal/word_wrap.h"

namespace ibid {

enum class RemarkStyle : uint8_t { kPlain, kDim };

// The text and a newline. On a terminal its lines are broken at words to the terminal's width, and what a
// terminal would obey is left out; dim where colours are shown.
void remark(std::string_view text, RemarkStyle style = RemarkStyle::kPlain);

// Writes an answer to standard output as it comes: on a terminal wrapped at words and without control characters,
// anywhere else byte by byte as it is.
class AnswerWriter {
 public:
  AnswerWriter();

  void write(std::string_view text);
  // A line for programs: nothing is broken.
  void write_line(std::string_view line);
  // Ends the line that was begun, if one was.
  void end_line();

  bool at_line_start() const { return at_line_start_; }
  // The errno of the first write that failed, else 0. After it nothing is written.
  int error() const { return error_; }

 private:
  void put(std::string_view bytes);

  const bool to_terminal_;
  WordWrap wrap_;
  bool at_line_start_ = true;
  int error_ = 0;
};

}  // namespace ibid
