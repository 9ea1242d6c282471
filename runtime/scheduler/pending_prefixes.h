// PendingPrefixes: the prompts that are being read at this moment. With it a prefix that several sessions want at
// once is computed once: the first reads it, the others wait and then find it in the store.
//
// A reading only ever waits for one that was announced earlier, so no two wait for each other. Prompts are compared
// by their ids, and only within a namespace. No call blocks: a reading that has to wait asks again. Thread-safe;
// must outlive its readings.
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
  enum class Earlier {
    kNothing,    // nobody reads what is wanted
    kReads,      // somebody is about to hold it
    kPublished,  // it can be found
    kOver,       // that reading ended before it had all of it; perhaps another one goes on
  };

  // A prompt that is being read; over when destroyed. Used by one thread at a time.
  class Reading {
   public:
    // Announces that these ids will be read. They must outlive it.
    Reading(PendingPrefixes& pending, std::string_view name_space, TokenSpan ids);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    // Whether a later one waits for this one to hold more than begin - 1 and less than `end` of its ids.
    bool is_awaited(size_t begin, size_t end) const;

    // Says whether an earlier reading is going to hold at least a page more of these ids than n_held. After kReads,
    // ask again until the answer is another one. After any other answer than kNothing the store may know more.
    Earlier earlier(size_t n_held);

    // The first n ids can be found in the store from now on, as far as anybody will be able to go on from them.
    void published(size_t n);

   private:
    friend class PendingPrefixes;
    bool choose_awaited(size_t n_held);

    PendingPrefixes& pending_;
    const std::string name_space_;
    const TokenSpan ids_;
    size_t n_published_ = 0;
    const Reading* awaited_ = nullptr;     // an earlier one
    size_t n_awaited_ = 0;                 // ids of it
    std::list<Reading*>::iterator place_;
  };

  // unit: what is published is a multiple of it.
  explicit PendingPrefixes(size_t unit = kPagePositions) : unit_(unit) {}

  // Changes whenever something was published or a reading ended. If the number has changed since the store was
  // searched, another search may find more.
  uint64_t n_changes() const { return n_changes_.load(std::memory_order_acquire); }

 private:
  const size_t unit_;
  std::mutex mutex_;              // guards the readings, and how far they are
  std::list<Reading*> readings_;  // the earliest first
  std::atomic<uint64_t> n_changes_{0};
};

}  // namespace ibid
