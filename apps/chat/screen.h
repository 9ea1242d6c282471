// A turn on the screen: the answer as it comes (standard output), and around it, where standard error is a terminal,
// the line of SignOfLife and a dim status line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/turn_report.h"
#include "apps/terminal/output.h"
#include "apps/terminal/progress.h"
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

// Shows several answers that come at once, one behind the other: the first one that is not finished as it comes,
// the others when those before them are finished. Calls may come from any thread, one at a time.
class AnswersOnScreen {
 public:
  // options: of the first answer, with a seed; the others have the seeds behind it.
  AnswersOnScreen(Screen& screen, size_t n, const TurnOptions& options, size_t turn_number);

  void hear(size_t answer, const TurnEvent& event);
  // There will be no more; ends the line that is being written.
  void give_up();

 private:
  struct Answer {
    std::string waiting;        // heard and not shown
    std::optional<Turn> turn;   // finished
  };
  void begin_answer();
  void finish_answer();

  Screen& screen_;
  const uint64_t seed_;
  const size_t max_tokens_;
  const size_t turn_number_;
  std::vector<Answer> answers_;
  size_t shown_ = 0;        // the answer that is being shown
  bool has_begun_ = false;  // its title is there
};

}  // namespace ibid
