// PendingPrefixes: the prompts that are being read at this moment, so that a prefix which several sessions want at once
// is computed once: the first reads it, the others wait for it and then find it in the store.
//
// Nobody waits for somebody who announced later, so no two wait for each other. Ids are compared, and only
// within a namespace. Thread-safe; must outlive its readings.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <list>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "base/types.h"

namespace ibid {

class PendingPrefixes {
 public:
  enum class Waited {
    kNothing,    // nobody reads what is wanted
    kPublished,  // it can be found
    kOver,       // that reading ended before it had all of it; perhaps another one goes on
    kStopped,
  };

  // A prompt that is being read; over when destroyed. Used by one thread at a time.
  class Reading {
   public:
    // Announces that these ids will be read. Copies them: O(ids).
    Reading(PendingPrefixes& pending, std::string_view name_space, TokenSpan ids);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;

    // While an earlier reading is going to hold at least a page more of these ids than n_held: waits until it does, or
    // is over, or `stop` fires. Returns what came first; but for kNothing the store may know more.
    Waited wait_for_earlier(size_t n_held, std::stop_token stop);

    // The first n ids can be found in the store from now on.
    void published(size_t n);

   private:
    friend class PendingPrefixes;
    PendingPrefixes& pending_;
    const std::string name_space_;
    const Tokens ids_;
    size_t n_published_ = 0;               // guarded by the mutex
    std::list<Reading*>::iterator place_;  // likewise
  };

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable_any moved_;
  std::list<Reading*> readings_;  // the earliest first
};

}  // namespace ibid
