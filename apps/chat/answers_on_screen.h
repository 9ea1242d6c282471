// Shows several answers that come at once, one behind the other: the first one that is not finished as it comes,
// the others when those before them are finished. Calls may come from any thread, one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/chat/screen.h"

namespace ibid {

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
