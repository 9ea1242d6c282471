// What a person sees of a turn: the answer as it comes (standard output), and around it, where standard error
// is a terminal, what is being waited for and a dim status line.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "apps/chat/turn_lines.h"
#include "apps/terminal/answer_writer.h"
#include "apps/terminal/sign_of_life.h"
#include "ibid/turn.h"

namespace ibid {

class Screen {
 public:
  explicit Screen(AnswerPlace place);

  bool writing_failed() const { return answer_.error() != 0; }

  // Something begins that may take a while: until the next call of any of these, a line says so.
  void wait(std::string what);
  // To be called with every event of a turn.
  void show(const TurnEvent& event);
  // Ends the answer and shows the status line, and what to do about an answer that was cut, which a pipe hears of as
  // well. max_tokens: the limit of the turn, as in TurnOptions.
  void finish(const Turn& turn, size_t turn_number, size_t max_tokens);
  // The answer ends here, for it failed.
  void break_off();
  // A remark of ours.
  void note(std::string_view text);

 private:
  const AnswerPlace place_;
  const bool notes_to_terminal_;
  AnswerWriter answer_;
  SignOfLife waiting_;
};

}  // namespace ibid
