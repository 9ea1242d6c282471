// SequenceCache: the keys and values of one line of a conversation, wherever they are: with the store while nobody
// computes, lent to a turn while one runs, partly evicted, or read ahead of time.
//
// What holds between turns, where "the ids" are those of the transcript:
//  - at_rest_ (or kv_, when the store had no heap memory to take the pages) has rows of the first ids, from foreign_;
//    they may be evicted, and are then found elsewhere or read again;
//  - n_read_ says how many of the ids were read or said once: all, or all but the last;
//  - prompt_end_ has the logits behind the first n_ids, if they are known;
//  - ahead_, if set, has rows of the start of the next prompt, as long as no turn is committed.
//
// A turn borrows the rows (lend()) and keeps what it made of them, or they are what they were. A copy, for a fork,
// copies ids and no page. Not thread-safe.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "base/result.h"
#include "cache/store/store_handles.h"
#include "ibid/usage.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/session/reading_ahead.h"
#include "runtime/session/shared_rows.h"

namespace ibid {

class SequenceCache {
 public:
  class Loan;

  SequenceCache(std::shared_ptr<Engine> engine, std::string name_space);
  SequenceCache(const SequenceCache& other);
  SequenceCache(SequenceCache&&) = default;
  SequenceCache& operator=(SequenceCache&&) = default;

  size_t n_read() const { return n_read_; }
  // Returns the rows that are in memory, shared. Error: kOutOfMemory (the heap).
  Result<KvCacheEntry> held() const;
  // The same of the ids, with what the store and the cache directory have beyond. REQUIRES: ids.size() >= n_read().
  Result<KvCacheEntry> find_all(TokenSpan ids) const;

  // Lends a turn the longest reusable part of its prompt: at most all of it if the logits behind it are known, else
  // all but one id. Reading from the tier ends when it is told to stop. One turn at a time; this object stays where it
  // is meanwhile. Error: kOutOfMemory, and the rows are what they were.
  Result<std::unique_ptr<Loan>> lend(const PromptIds& prompt, Priority priority, std::stop_token stop = {});

  // Drops foreign rows after a turn failed because they, or what was computed from them, were not finite. They are
  // then read anew.
  void forget_foreign_rows() noexcept;
  // Somebody else goes on from here as well, so either may read what the other will need: the next turn asks the
  // store.
  void expect_more_elsewhere() noexcept { may_be_elsewhere_ = true; }

  // Begins to read a prompt's beginning; the bell rings at the end. A null result means that there is nothing to read.
  // Errors: kContextFull; kOutOfMemory; those of Scheduler::submit().
  Result<std::unique_ptr<ReadingAhead>> begin_reading(AheadPrompt prompt, Priority priority, std::stop_token stop,
                                                      std::shared_ptr<Bell> bell);
  // Waits for the reading; what it read is used by the next turn. Errors: those of Feeding.
  Result<Usage> end_reading(ReadingAhead& reading);

  // For a conversation that was made of a file: finds rows of the ids in `entry` (the file's), in the store, on disk.
  // Returns of how many ids the entry had rows.
  size_t adopt(std::optional<KvCacheEntry> entry, TokenSpan ids);

 private:
  struct ReadAhead {
    KvAtRest rows;
    Foreign foreign;
    size_t n_transcript = 0;
    PromptLogits logits;  // of the last id, where the ids are a whole prompt
  };
  struct PromptEnd {
    size_t n_ids = 0;     // of the transcript
    PromptLogits logits;  // none: not known
  };

  SharedRows rows_;  // first: pages go before their pool
  KvCacheEntry kv_;
  KvAtRest at_rest_;
  Foreign foreign_;
  size_t n_read_ = 0;
  PromptEnd prompt_end_;
  std::optional<ReadAhead> ahead_;
  bool may_be_elsewhere_ = true;  // the store may hold more of the next prompt than this object
};

// What a turn computes on. Unless keep() is called, the destructor gives the rows back as they were; what was
// computed meanwhile is exact, and stays in the store for another attempt.
class SequenceCache::Loan {
 public:
  ~Loan();
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;

  // The first rows of the prompt; they grow. Stays where it is.
  KvCacheEntry& entry() { return entry_; }
  // How many positions it had at first.
  size_t n_found() const { return n_found_; }
  // Of the whole prompt, where all of it is there; else null.
  const PromptLogits& logits() const { return logits_; }
  // What others may wait for, if that is worth it. Once.
  std::optional<SharedPrompt> take_shared() { return std::exchange(shared_, std::nullopt); }
  size_t n_from_disk() const { return n_from_disk_; }    // of n_found()
  size_t n_read_again() const { return n_read_again_; }  // ids that were read once and are not there
  const WorkCounters& work() const { return work_; }     // of finding them
  // Pages that were copied because they were written.
  size_t n_pages_copied() const { return entry_.pages_copied() - n_copied_before_; }

  // The entry took the place of another, which is what is given back. Nothing: it did not.
  void replaced(std::optional<KvCacheEntry> before) noexcept;

  // The turn is committed.
  struct Kept {
    TokenSpan ids;        // of the transcript now
    size_t n_prompt = 0;  // the first ones
    PromptLogits logits;  // behind the prompt
    size_t n_opening = 0; // Dialogue::n_opening_ids()
  };
  void keep(Kept kept) noexcept;

 private:
  friend class SequenceCache;
  explicit Loan(SequenceCache& cache);

  Status arrange(const PromptIds& prompt, Priority priority, std::stop_token stop);
  // Takes what was read ahead, if that is more than n_keep. Returns whether all that was wanted was there.
  Result<bool> take_ahead(const PromptIds& prompt, size_t& n_keep);
  // Looks elsewhere for more than n_keep of the n_own ids that were read before.
  void search(const PromptIds& prompt, Priority priority, std::stop_token stop, size_t& n_keep);
  // Replaces the entry by the first `length` rows of another.
  void replace(KvCacheEntry entry, size_t length, Foreign from);
  bool is_same_prompt(const PromptIds& prompt) const;

  SequenceCache& cache_;
  KvCacheEntry entry_;
  Foreign foreign_;
  PromptLogits logits_;
  std::optional<SharedPrompt> shared_;
  bool searched_ = false;  // elsewhere than in the session: the prompt was none that grew
  size_t n_found_ = 0;
  size_t n_from_disk_ = 0;
  size_t n_read_again_ = 0;
  size_t n_copied_before_ = 0;
  WorkCounters work_;

  // How to give it back.
  bool is_kept_ = false;
  bool was_used_ = false;
  size_t length_before_ = 0;
  std::optional<KvCacheEntry> before_;  // set when the entry lost rows
};

}  // namespace ibid
