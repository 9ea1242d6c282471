// Reads what a person types, message by message: with editing, pastes and history on a terminal, with a
// prompt alone on one that understands no sequences (TERM=dumb), plainly from a pipe.
//
// On a terminal a message may have several lines: a paste is one message, a line that ends in a backslash
// goes on in the next, and """ begins a block that ends with """. Messages are kept for the next time
// (apps/terminal/line_history.h).
#pragma once

#include <memory>
#include <string>

#include "apps/terminal/completion.h"

namespace ibid {

class LineReader {
 public:
  // interactive: standard input is a terminal. Then that terminal is ours as long as this lives: outside of read() it
  // shows nothing of what is typed, and keeps it for the next.
  explicit LineReader(bool interactive);
  ~LineReader();
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  // What Tab knows of commands.
  void set_completion(CompletionWords words);

  enum class Outcome { kLine, kEnd, kInterrupted };
  // The next message, without the end of its last line; from a pipe the next line. On a terminal the cursor
  // stands at the beginning of a row before and after. kInterrupted: Ctrl-C; what was typed and what waited
  // is gone. keep: for the history; an answer to a question of ours ("y") is nothing to come back to.
  Outcome read(std::string& message, bool keep = true);

 private:
  struct Terminal;
  struct PlainTerminal;

  std::unique_ptr<Terminal> terminal_;    // nullptr: a pipe, or a terminal without sequences
  std::unique_ptr<PlainTerminal> plain_;  // for the latter
};

}  // namespace ibid
