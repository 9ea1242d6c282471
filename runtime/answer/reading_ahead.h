// ReadingAhead: reads the beginning of a session's next prompt while nobody waits for an answer. To destroy it ends
// it within a pass; its stop token ends it within a layer.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "base/types.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/store_handles.h"
#include "runtime/answer/feeding.h"
#include "runtime/engine/bell.h"
#include "runtime/engine/scheduler.h"
#include "runtime/session/session_branch.h"
#include "runtime/stats.h"

namespace ibid {

class ReadingAhead {
 public:
  // Reads the ids of `all` that `held` lacks. The first n_transcript ids of `all` are the transcript's. is_whole:
  // `all` is a whole prompt, whose last logits are wanted; then `held` lacks at least one id. foreign: where the
  // rows live (session_branch.h). leave(entry, rest) runs on the compute thread at the end, however the reading
  // ended, and leaves the rows to the store.
  template <typename Leave>
  ReadingAhead(KvCacheEntry held, Tokens all, size_t n_transcript, bool is_whole, const Usage& usage,
               Foreign foreign, Priority priority, std::stop_token stop, Leave leave)
      : entry_(std::move(held)),
        ids_(std::move(all)),
        n_transcript_(n_transcript),
        is_whole_(is_whole),
        usage_(usage),
        foreign_(std::move(foreign)),
        feeding_(entry_, TokenSpan(ids_).subspan(entry_.length()), is_whole ? WantLogits::kLast : WantLogits::kNone,
                 priority, std::move(stop), bell_,
                 [this, leave = std::move(leave)](KvCacheEntry& entry) { leave(entry, rows_); }) {}
  ~ReadingAhead() {
    feeding_.cancel();
    if (is_submitted_) wait();
  }
  ReadingAhead(const ReadingAhead&) = delete;
  ReadingAhead& operator=(const ReadingAhead&) = delete;

  // Errors: as Scheduler::submit().
  Status submit(Scheduler& scheduler) {
    TRY(scheduler.submit(feeding_));
    is_submitted_ = true;
    return {};
  }
  void wait() const {
    while (!feeding_.is_over()) bell_->wait();
  }

  // For after wait(). Errors: those of Feeding.
  Status take_status() { return feeding_.take_status(); }
  // The rows of all ids; of fewer if there was no memory for a mark.
  KvAtRest take_rows() { return std::move(rows_); }
  size_t n_transcript() const { return n_transcript_; }
  bool is_whole() const { return is_whole_; }
  Logits take_logits() { return feeding_.take_logits(); }
  const Usage& usage() const { return usage_; }
  const Foreign& foreign() const { return foreign_; }

 private:
  const std::shared_ptr<Bell> bell_ = std::make_shared<Bell>();
  KvCacheEntry entry_;
  KvAtRest rows_;
  const Tokens ids_;
  const size_t n_transcript_;
  const bool is_whole_;
  const Usage usage_;
  const Foreign foreign_;
  Feeding feeding_;
  bool is_submitted_ = false;
};

}  // namespace ibid
