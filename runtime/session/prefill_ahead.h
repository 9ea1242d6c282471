// PrefillAhead: prefills the beginning of a session's next prompt while no answer runs. The destructor cancels the
// prefill within a pass, the stop token within a layer.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <utility>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/store/lru_kv_cache_store.h"
#include "ibid/token.h"
#include "ibid/usage.h"
#include "ibid/waker.h"
#include "runtime/generate/feeding.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/scheduler/scheduler.h"
#include "runtime/session/prefix_publisher.h"

namespace ibid {

class PrefillAhead {
 public:
  struct Start {
    KvCacheEntry held;   // KV of the prompt's first tokens; never of the last token of a whole prompt
    AheadPrompt prompt;  // if prompt.is_whole, the logits after the prompt are computed, too
    Usage usage;
    Foreign foreign;    // namespace of the KV
    StateShare states;  // the engine's limits for recurrent states
  };
  // waker: rung at the end. publish(entry, rest) runs on the compute thread at the end, also after an error, and moves
  // the KV to the store.
  template <typename Publish>
  PrefillAhead(Start start, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker, Publish publish)
      : waker_(std::move(waker)),
        entry_(std::move(start.held)),
        prompt_(std::move(start.prompt)),
        usage_(start.usage),
        foreign_(std::move(start.foreign)),
        feeding_(entry_,
                 {.ids = TokenSpan(prompt_.ids).subspan(entry_.length()),
                  .want = prompt_.is_whole ? WantLogits::kLast : WantLogits::kNone,
                  .checkpoints =
                      CheckpointPositions(entry_.length(), prompt_.ids.size(), prompt_.branch_points, start.states)},
                 priority, std::move(stop), waker_,
                 [this, publish = std::move(publish)](KvCacheEntry& entry) { publish(entry, idle_); }) {}
  ~PrefillAhead() {
    feeding_.cancel();
    if (is_submitted_) wait();
  }
  PrefillAhead(const PrefillAhead&) = delete;
  PrefillAhead& operator=(const PrefillAhead&) = delete;

  // Starts the prefill. Errors: those of Scheduler::submit().
  Status submit(Scheduler& scheduler) {
    TRY(scheduler.submit(feeding_));
    is_submitted_ = true;
    return {};
  }
  bool is_over() const { return feeding_.is_over(); }
  void wait() const {
    while (!feeding_.is_over()) waker_->wait();
  }

  // Returns the result of the prefill. Call after wait() only. Errors: those of Feeding.
  Status take_status() { return feeding_.take_status(); }
  // Returns the KV of the prefilled tokens; of fewer if there was no memory for the handle (IdleSequence).
  IdleSequence take_idle() { return std::move(idle_); }
  size_t n_transcript() const { return prompt_.n_transcript; }
  bool is_whole() const { return prompt_.is_whole; }
  Logits take_logits() { return feeding_.take_logits(); }
  const Usage& usage() const { return usage_; }
  const Foreign& foreign() const { return foreign_; }

 private:
  const std::shared_ptr<Waker> waker_;
  KvCacheEntry entry_;
  IdleSequence idle_;
  const AheadPrompt prompt_;
  const Usage usage_;
  const Foreign foreign_;
  Feeding feeding_;
  bool is_submitted_ = false;
};

}  // namespace ibid
