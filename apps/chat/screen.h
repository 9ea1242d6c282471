// Screen: shows a turn. The answer is streamed to standard output. If standard error is a terminal, a progress
// indicator is shown before the answer, and a dim status line after it.
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

  // Shows a progress indicator until the next call of any member.
  void wait(std::string what);
  // Handles an event of a turn. Call it for each event.
  void show(const TurnEvent& event);
  // Ends the answer, shows the status line, and advice if the answer was cut off; from a pipe, the advice goes to
  // standard error too. max_tokens: the limit of the turn, as in TurnOptions.
  void finish(const Turn& turn, size_t turn_number, size_t max_tokens);
  // Ends the answer after a failure.
  void break_off();
  void note(std::string_view text);

 private:
  const AnswerPlace place_;
  const bool notes_to_terminal_;
  AnswerWriter answer_;
  ProgressIndicator waiting_;
};

// Shows several answers that are generated in parallel, one after the other: streams the first unfinished one and
// buffers the later ones. Calls may come from any thread, one at a time.
class AnswersOnScreen {
 public:
  // `options`: options of the first answer, with a seed; answer i uses seed + i.
  AnswersOnScreen(Screen& screen, size_t n, const TurnOptions& options, size_t turn_number);

  void show_event(size_t answer, const TurnEvent& event);
  // Ends the current line after a failure; no more events follow.
  void give_up();

 private:
  struct Answer {
    std::string waiting;       // text received but not shown yet
    std::optional<Turn> turn;  // set when the answer has finished
  };
  void begin_answer();
  void finish_answer();

  Screen& screen_;
  const uint64_t seed_;
  const size_t max_tokens_;
  const size_t turn_number_;
  std::vector<Answer> answers_;
  size_t shown_ = 0;        // index of the answer that is shown now
  bool has_begun_ = false;  // the title of answer shown_ was shown
};

}  // namespace ibid
