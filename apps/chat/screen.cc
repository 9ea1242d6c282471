#include "apps/chat/screen.h"

#include <unistd.h>

#include <utility>

#include "apps/terminal/output.h"
#include "apps/terminal/terminal.h"

namespace ibid {

Screen::Screen(AnswerPlace place)
    : place_(place), notes_to_terminal_(isatty(STDERR_FILENO) == 1), waiting_(STDERR_FILENO) {}

void Screen::wait(std::string what) {
  if (answer_.at_line_start()) waiting_.show_step(std::move(what));
}

void Screen::show(const TurnEvent& event) {
  switch (event.kind) {
    case TurnEvent::Kind::kLeftOut: note(left_out_line(event.turn->left_out)); break;
    case TurnEvent::Kind::kPrefill: wait(reading_line(event)); break;
    case TurnEvent::Kind::kText:
      waiting_.end();
      answer_.write(event.text);
      break;
    case TurnEvent::Kind::kFinish: waiting_.end(); break;
    case TurnEvent::Kind::kLogprobs:
    case TurnEvent::Kind::kReasoning:
    case TurnEvent::Kind::kContent:
    case TurnEvent::Kind::kCallBegin:
    case TurnEvent::Kind::kArguments:
    case TurnEvent::Kind::kCallEnd:
    case TurnEvent::Kind::kCallBroken: break;  // emitted only to streams
  }
}

void Screen::finish(const Turn& turn, size_t turn_number, size_t max_tokens) {
  waiting_.end();
  // From a pipe, end even an empty answer with a newline.
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

AnswersOnScreen::AnswersOnScreen(Screen& screen, size_t n, const TurnOptions& options, size_t turn_number)
    : screen_(screen),
      seed_(*options.sampler.seed),
      max_tokens_(options.max_tokens),
      turn_number_(turn_number),
      answers_(n) {
  screen_.wait("reading");
}

void AnswersOnScreen::show_event(size_t answer, const TurnEvent& event) {
  if (event.kind == TurnEvent::Kind::kText) answers_[answer].waiting += event.text;
  if (event.kind == TurnEvent::Kind::kFinish) answers_[answer].turn = *event.turn;
  // Events about prefill and left-out messages are the same for all answers, so show them only once.
  const bool is_of_all = event.kind == TurnEvent::Kind::kPrefill || event.kind == TurnEvent::Kind::kLeftOut;
  if (is_of_all && answer == 0 && !has_begun_) screen_.show(event);
  while (shown_ < answers_.size() && (!answers_[shown_].waiting.empty() || answers_[shown_].turn)) {
    begin_answer();
    if (!answers_[shown_].turn) break;
    finish_answer();
  }
}

void AnswersOnScreen::begin_answer() {
  Answer& answer = answers_[shown_];
  if (!has_begun_) {
    screen_.note("--- answer " + std::to_string(shown_ + 1) + " of " + std::to_string(answers_.size()) + ", seed " +
                 std::to_string(seed_ + shown_));
  }
  has_begun_ = true;
  if (!answer.waiting.empty()) screen_.show({.kind = TurnEvent::Kind::kText, .text = answer.waiting});
  answer.waiting.clear();
}

void AnswersOnScreen::finish_answer() {
  screen_.finish(*answers_[shown_].turn, turn_number_, max_tokens_);
  ++shown_;
  has_begun_ = false;
}

void AnswersOnScreen::give_up() {
  if (has_begun_) screen_.finish({}, turn_number_, max_tokens_);
  shown_ = answers_.size();
}

}  // namespace ibid
