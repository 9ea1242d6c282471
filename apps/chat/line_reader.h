// Reads what a person types, line by line: with editing and history on a terminal (libedit), plainly from a pipe.
#pragma once

#include <memory>
#include <string>

namespace ibid {

class LineReader {
 public:
  // interactive: standard input is a terminal.
  explicit LineReader(bool interactive);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  enum class Outcome { kLine, kEnd, kInterrupted };
  // The next line without its end. On a terminal a line that ends in a backslash goes on in the next.
  // kInterrupted: Ctrl-C while typing; what was typed is gone.
  Outcome read(std::string& line);

 private:
  struct Terminal;
  std::unique_ptr<Terminal> terminal_;  // nullptr: a pipe
};

}  // namespace ibid
