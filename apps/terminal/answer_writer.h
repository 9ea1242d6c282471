// Writes an answer to standard output as it comes: on a terminal wrapped at words and without control characters,
// anywhere else byte by byte as it is.
#pragma once

#include <string>
#include <string_view>

#include "apps/terminal/word_wrap.h"

namespace ibid {

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
