// What a person sees of a turn: the answer as it comes (standard output), and around it, where standard error
// is a terminal, the progress of reading and a dim status line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "runtime/chat_session.h"

namespace ibid {

class Screen {
 public:
  Screen();

  bool writing_failed() const { return writing_failed_; }

  // To be called with every event of a turn.
  void show(const TurnEvent& event);
  // Ends the answer and shows the status line.
  void finish(const Turn& turn, size_t turn_number);
  // A remark of ours.
  void note(std::string_view text);

 private:
  void write_answer(std::string_view text);
  void clear_progress();

  bool answer_to_terminal_;
  bool notes_to_terminal_;
  bool dim_;
  bool progress_shown_ = false;
  bool at_line_start_ = true;
  bool writing_failed_ = false;
};

// "turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s", cut to whole parts that fit in `width`.
std::string status_line(const Turn& turn, size_t turn_number, size_t width);

}  // namespace ibid
