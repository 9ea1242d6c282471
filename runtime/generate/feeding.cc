#include "runtime/generate/feeding.h"

#include <new>
#include <utility>

#include "base/result.h"

namespace ibid {

Feeding::Feeding(KvCacheEntry& entry, Part part, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker,
                 Publish publish)
    : Task(priority, std::move(stop), std::move(waker)),
      entry_(entry),
      unfed_tokens_(part.ids),
      want_(part.want),
      checkpoints_(std::move(part.checkpoints)),
      publish_(std::move(publish)) {}

Task::Action Feeding::next(SequenceChunk& chunk) noexcept {
  if (!unfed_tokens_.empty() && status_.ok() && is_cancelled()) status_ = {ErrorCode::kCancelled, "cancelled"};
  if (unfed_tokens_.empty() || !status_.ok()) {
    if (publish_) publish_(entry_);
    return Action::kOver;
  }
  const size_t n = checkpoints_.next(entry_.length(), entry_.length() + unfed_tokens_.size()) - entry_.length();
  chunk = {&entry_, unfed_tokens_.first(n), n == unfed_tokens_.size() ? want_ : WantLogits::kNone};
  return Action::kFeed;
}

void Feeding::computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept {
  status_ = std::move(status);
  if (!status_.ok()) return;
  try {
    if (n_rows == unfed_tokens_.size() && want_ != WantLogits::kNone) {
      logits_.copy_rows(rows.logits, rows.first, want_ == WantLogits::kLast ? 1 : n_rows);
    }
    checkpoints_.keep(entry_, n_rows == unfed_tokens_.size());
    unfed_tokens_ = unfed_tokens_.subspan(n_rows);
  } catch (const std::bad_alloc&) {
    // No memory for the logits or the state of the last part, so that part counts as not computed. Slicing within the
    // last pass loses nothing else.
    entry_.slice_to_length(entry_.length() - n_rows);
    status_ = out_of_heap();
  }
}

Status feed(Scheduler& scheduler, KvCacheEntry& entry, TokenSpan ids, WantLogits want, std::stop_token stop,
            Logits& logits, Priority priority) {
  return guarded([&]() -> Status {
    const auto waker = std::make_shared<Waker>();
    Feeding feeding(entry, {ids, want}, priority, std::move(stop), waker);
    TRY(scheduler.submit(feeding));
    while (!feeding.is_over()) waker->wait();
    TRY(feeding.take_status());
    if (want != WantLogits::kNone) logits = feeding.take_logits();
    return {};
  });
}

}  // namespace ibid
