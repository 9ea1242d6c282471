// The renders of a PromptPlanner, and how a template shows an answer that is not only text.
#include <algorithm>
#include <new>
#include <utility>

#include "base/check.h"
#include "runtime/prompt/prompt_planner.h"

namespace ibid {

Result<ConversationRenderer::Delta> PromptPlanner::render(const MessageList& messages) {
  const size_t n_unchanged = n_common_messages(rendered_, messages.stamps());
  TRY_ASSIGN(ConversationRenderer::Delta rendered, renderer_->render(messages.json(), n_unchanged, true));
  const size_t equal_bytes = std::min(rendered.keep_bytes, common_bytes_);
  MarkedText text;
  text.append(tail_, 0, rendered.keep_bytes - equal_bytes);
  text.append(rendered.text);
  tail_ = std::move(text);
  common_bytes_ = equal_bytes;
  rendered_.resize(n_unchanged);
  rendered_.insert(rendered_.end(), messages.stamps().begin() + static_cast<std::ptrdiff_t>(n_unchanged),
                   messages.stamps().end());
  return rendered;
}

std::optional<std::string> PromptPlanner::shown_answer(const MessageList& messages, const PromptDelta& delta,
                                                       const Transcript& transcript, std::string_view end_of_turn) try {
  CHECK_EQ(delta.number, n_plans_) << "another plan was made since";
  CHECK(!is_ahead_) << "the plan's prompt is not the last render";
  if (!renderer_) return std::nullopt;
  const size_t n_common = common_bytes_;
  const std::string prompt_tail = tail_.bytes();
  if (!render(messages).ok()) return std::nullopt;
  is_ahead_ = true;
  // The part of the prompt with which the new render's tail must begin.
  std::string prompt(transcript.bytes().substr(common_bytes_, n_common - common_bytes_));
  prompt += prompt_tail;
  const std::string_view text = tail_.view();
  if (!text.starts_with(prompt)) return std::nullopt;
  for (size_t end = text.find(end_of_turn, prompt.size()); end != text.npos; end = text.find(end_of_turn, end + 1)) {
    if (tail_.origin_at(end) != TextOrigin::kTemplate) continue;  // part of a message
    return std::string(text.substr(prompt.size(), end - prompt.size()));
  }
  return std::nullopt;
} catch (const std::bad_alloc&) {
  forget();
  throw;
}

}  // namespace ibid
