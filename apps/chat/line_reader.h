// LineReader: reads messages. A terminal has editing, pastes and history; a terminal without escape sequences
// (TERM=dumb) has a plain prompt; a pipe is read line by line.
//
// On a terminal a message may have several lines: a paste is one message, a line that ends in a backslash continues on
// the next one, and """ begins a block that ends with """. Messages are saved in the history
// (apps/terminal/line_history.h).
#pragma once

#include <memory>
#include <string>

#include "apps/terminal/completion.h"

namespace ibid {

class LineReader {
 public:
  // interactive: standard input is a terminal. The object then controls the terminal until it is destroyed: text that
  // is typed outside of read() is not echoed, and the next read() returns it.
  explicit LineReader(bool interactive);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  void set_completion(CompletionWords words);

  enum class Outcome { kLine, kEnd, kInterrupted };
  // Reads the next message without its last newline; from a pipe, the next line. On a terminal the cursor is at the
  // start of a row before and after the call. kInterrupted: Ctrl-C was pressed, and all typed text is discarded. keep:
  // add the message to the history; false for answers to questions of the program ("y").
  Outcome read(std::string& message, bool keep = true);

 private:
  struct Terminal;
  struct PlainTerminal;

  std::unique_ptr<Terminal> terminal_;    // nullptr: input is a pipe, or a terminal without escape sequences
  std::unique_ptr<PlainTerminal> plain_;  // set for a terminal without escape sequences
};

}  // namespace ibid
