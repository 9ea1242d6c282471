#include "runtime/generate/reply_text.h"

#include <utility>

namespace ibid {

ReplyText::ReplyText(const Tokenizer& tokenizer, StopDetector stops, TokenSpan shown, bool begins)
    : decoder_(tokenizer, shown, begins), stops_(std::move(stops)) {}

bool ReplyText::push(TokenId id) {
  ids_.push_back(id);
  const std::string piece = decoder_.push(id);
  n_decoded_ += piece.size();
  text_ends_.push_back(n_decoded_);
  leaves_open_.push_back(decoder_.is_open());
  return show(piece);
}

size_t ReplyText::n_certain_tokens(size_t n_known) const {
  for (size_t i = n_known; i < ids_.size() && text_ends_[i] <= text_.size(); ++i) {
    if (!leaves_open_[i]) n_known = i + 1;
  }
  return n_known;
}

void ReplyText::finish(Generation& out) {
  if (stops_.found().empty()) {
    const std::string rest = decoder_.finish();
    n_decoded_ += rest.size();
    if (!text_ends_.empty()) text_ends_.back() = n_decoded_;
    if (!show(rest)) text_ += stops_.finish();
  }
  out.stop_string = stops_.found();
  if (!out.stop_string.empty()) {
    out.finish_reason = FinishReason::kStopString;
    out.end_of_turn.reset();  // sampled after the stop string, so it is dropped too
    drop_tokens_after(text_.size());
  }
  out.ids = std::move(ids_);
  out.text_ends = std::move(text_ends_);
  out.text = text_;
}

bool ReplyText::show(std::string_view piece) {
  const StopDetector::Step step = stops_.push(piece);
  text_ += step.text;
  return step.stopped;
}

// Keeps only the tokens whose whole text stays. A token that leaves a character open is dropped too, because the rest
// of that character is dropped.
void ReplyText::drop_tokens_after(size_t n_bytes) {
  while (!ids_.empty() && (text_ends_.back() > n_bytes || leaves_open_.back())) {
    ids_.pop_back();
    text_ends_.pop_back();
    leaves_open_.pop_back();
  }
}

}  // namespace ibid
