#include "apps/chat/screen.h"

#include <unistd.h>

#include <utility>

#include "apps/terminal/remark.h"
#include "apps/terminal/terminal_traits.h"

namespace ibid {

Screen::Screen(AnswerPlace place)
    : place_(place), notes_to_terminal_(isatty(STDERR_FILENO) == 1), waiting_(STDERR_FILENO) {}

void Screen::wait(std::string what) {
  if (answer_.at_line_start()) waiting_.say(std::move(what));
}

void Screen::show(const TurnEvent& event) {
  switch (event.kind) {
    case TurnEvent::Kind::kLeftOut:
      note(left_out_line(event.turn->left_out));
      break;
    case TurnEvent::Kind::kPrefill:
      wait(reading_line(event));
      break;
    case TurnEvent::Kind::kText:
      waiting_.end();
      answer_.write(event.text);
      break;
    case TurnEvent::Kind::kFinish:
      waiting_.end();
      break;
  }
}

void Screen::finish(const Turn& turn, size_t turn_number, size_t max_tokens) {
  waiting_.end();
  // One message a line from a pipe: an answer ends its line.
  if (turn.text.empty()) answer_.write("\n");
  answer_.end_line();
  if (notes_to_terminal_) note(status_line(turn, turn_number, terminal_width(STDERR_FILENO) - 1));
  const std::string ending = ending_line(turn, max_tokens, place_);
  if (ending.empty()) return;
  note(place_ == AnswerPlace::kPipe ? "ibid: message " + std::to_string(turn_number) + ": " + ending : ending);
}

void Screen::break_off() {
  waiting_.end();
  answer_.end_line();
}

void Screen::note(std::string_view text) {
  waiting_.end();
  if (notes_to_terminal_) answer_.end_line();
  remark(text, RemarkStyle::kDim);
}

}  // namespace ibid
