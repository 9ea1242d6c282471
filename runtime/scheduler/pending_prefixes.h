// PendingPrefixes: the prompts that are being prefilled now. A prefix that several sessions need at the same time is
// computed once: the first session prefills it, the others wait and then find it in the store.
//
// A prefill waits only for earlier prefills, so there are no cycles. Prompts are compared by
// tokens, and only within one namespace. No call blocks: a prefill that has to wait polls. Thread-safe; must outlive
// its prefills.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <string_view>

#include "ibid/token.h"
#include "kernels/kernels.h"

namespace ibid {

class PendingPrefixes {
 public:
  // State of the earlier prefill for which a prefill waits.
  enum class Earlier {
    kNothing,     // no earlier prefill has enough of the prefix
    kPrefilling,  // the earlier prefill has not published the common prefix yet
    kPublished,   // the earlier prefill has published the common prefix
    kOver,        // the earlier prefill ended, perhaps before it published all; another prefill may publish the rest
  };

  // Registers a prompt as being prefilled, from construction to destruction. Used by one thread at a time.
  class PendingPrefill {
   public:
    // Announces that these tokens will be prefilled. The tokens must outlive the object.
    PendingPrefill(PendingPrefixes& pending, std::string_view name_space, TokenSpan ids);
    ~PendingPrefill();
    PendingPrefill(const PendingPrefill&) = delete;
    PendingPrefill& operator=(const PendingPrefill&) = delete;

    // True if a prefill that began later waits until this one has published n tokens, with begin <= n < end.
    bool is_awaited(size_t begin, size_t end) const;

    // Chooses a prefill that began earlier and has at least one page more of this prompt's tokens than the n_held that
    // this prefill has, and returns its state. After kPrefilling, call again until the result changes. After kPublished
    // and kOver, search the store again: it may have a longer prefix.
    Earlier earlier_state(size_t n_held);

    // Marks the first n tokens as published: the store has everything that prompts need to resume within them.
    void published(size_t n);

   private:
    friend class PendingPrefixes;
    bool choose_awaited(size_t n_held);

    PendingPrefixes& pending_;
    const std::string name_space_;
    const TokenSpan ids_;
    size_t n_published_ = 0;
    const PendingPrefill* awaited_ = nullptr;  // the earlier prefill for which this one waits, or null
    size_t n_awaited_ = 0;                     // number of tokens that awaited_ is expected to publish
    std::list<PendingPrefill*>::iterator place_;
  };

  // unit: published lengths are multiples of this number.
  explicit PendingPrefixes(size_t unit = kPagePositions) : unit_(unit) {}

  // Changes whenever tokens were published or a prefill ended. If it has changed since the last search of the store,
  // another search may find more.
  uint64_t n_changes() const { return n_changes_.load(std::memory_order_acquire); }

 private:
  const size_t unit_;
  std::mutex mutex_;                     // guards the list of prefills and their progress
  std::list<PendingPrefill*> prefills_;  // oldest first
  std::atomic<uint64_t> n_changes_{0};
};

}  // namespace ibid
