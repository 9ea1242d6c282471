#include "apps/chat/answers_on_screen.h"

namespace ibid {

AnswersOnScreen::AnswersOnScreen(Screen& screen, size_t n, const TurnOptions& options, size_t turn_number)
    : screen_(screen),
      seed_(*options.sampler.seed),
      max_tokens_(options.max_tokens),
      turn_number_(turn_number),
      answers_(n) {
  screen_.wait("reading");
}

void AnswersOnScreen::hear(size_t answer, const TurnEvent& event) {
  if (event.kind == TurnEvent::Kind::kText) answers_[answer].waiting += event.text;
  if (event.kind == TurnEvent::Kind::kFinish) answers_[answer].turn = *event.turn;
  // The question is read once, and what a full context leaves out is the same for all.
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
