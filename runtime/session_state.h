// The inside of a ChatSession: its state, and how a turn runs on it. Not for users of the library.
// Not thread-safe but for `busy`, which the session's calls take turns by.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <vector>

#include "cache/lru_kv_cache_store.h"
#include "runtime/chat_session.h"
#include "runtime/session_branch.h"
#include "runtime/session_file.h"

namespace ibid {

// {"role": role, "content": text}. Not from a list in braces: should the heap fail in one, what it held is lost.
Json text_message(const char* role, std::string text);

// The text of a system message at the beginning; empty: there is none.
std::string leading_system_text(const Json& messages);

class ReadingAhead;
class TurnCall;

struct ChatSession::State : SessionBranch {
  State(std::shared_ptr<Engine> engine, SessionOptions options);
  State(const State& other);  // a fork
  State& operator=(const State&) = delete;
  ~State();

  // n answers to the question, each from a branch of its own with seed + 0, 1, ...; goes on with the first.
  Result<std::vector<Turn>> run_turns(size_t n, uint64_t seed, const TurnOptions& options,
                                      const AnswersCallback& on_event);
  Status choose(size_t answer);

  // Computes now what the next turn will need: the whole prompt, when a question waits for its answer, else what the
  // template will write up to the next user message's text. Changes nothing but `ahead`.
  // Errors: kCancelled, kOutOfMemory and others as of prefill(); what was read till then stays in the store.
  Result<Usage> read_ahead(Priority priority, std::stop_token stop);
  // Whether the template rewrites what it held so far when the conversation goes on (it drops thinking, say). False
  // where there is no memory to see.
  bool rewrites_history() noexcept;

  // session_resume.cc: as a file, and back.
  Status save(const std::string& path, bool with_kv, SaveReport& report) const;
  static Result<std::unique_ptr<State>> load(std::shared_ptr<Engine> engine, const std::string& path,
                                             const LoadOptions& load_options);

  // Has the engine read ahead while it has nothing else to do, if there is memory for that / ends it within a layer.
  void start_idle_work() noexcept;
  void stop_idle_work() noexcept;

  // What is in memory of the conversation's keys and values, shared. Error: kOutOfMemory (the heap).
  Result<KvCacheEntry> held_kv() const;

  // Keeps the first n messages. REQUIRES: n <= messages.size().
  void cut_messages(size_t n);
  // Starts over with a system message alone (empty: none). std::bad_alloc: nothing has changed.
  void begin(std::string system);
  size_t n_system_messages() const { return options.system.empty() ? 0 : 1; }
  bool awaits_answer() const;

  SessionOptions options;
  SessionLosses losses;                     // of load()
  std::vector<SessionBranch> alternatives;  // the answers to the last question; [chosen] is this branch's place
  size_t chosen = 0;
  std::atomic<bool> busy{false};

 private:
  class RunningTurn;  // runtime/running_turn.h
  friend class TurnCall;
  Result<std::vector<Turn>> run_side_by_side(std::span<const std::unique_ptr<State>> branches, uint64_t seed,
                                             const TurnOptions& options, const AnswersCallback& on_event);

  // How a turn found the keys and values of its prompt, and what `kv` was before.
  struct Arranged {
    size_t length_before = 0;
    std::optional<KvCacheEntry> before;               // set when `kv` lost rows
    Foreign foreign_before;
    PromptLogits logits;                              // set when the whole prompt is there
    bool searched = false;                            // elsewhere than in the session: the prompt was none that grew
    std::optional<SharedPrompt> shared;               // what others may wait for
  };
  // The messages as they were, should a full context have changed them.
  struct FullHistory {
    Json messages;
    std::set<size_t> pinned;
    size_t first_changed = 0;
  };

  // What a turn that fails has to put back, as far as it came.
  struct BeforeTurn {
    std::optional<PromptDelta> delta;  // planned
    std::optional<Arranged> arranged;
    std::optional<FullHistory> full;
  };

  // Messages and keys and values are what they were; what was computed stays in the store.
  void take_back(BeforeTurn& before) noexcept;
  // The drafter and the history are made of the transcript again when they are needed.
  void forget_indexes() noexcept;

  // The plan of the turn, after the session's policy where the context is full. n_answer: the most tokens that the
  // answer will have.
  Result<PromptDelta> plan_within_context(size_t n_answer, Turn& turn, std::optional<FullHistory>& full);

  // Makes `kv` hold the longest reusable part of the prompt: all of it where its logits are known, else all but one id.
  // Error: kOutOfMemory; `arranged` says what is to be put back.
  Status arrange_kv(const PromptDelta& delta, Priority priority, Turn& turn, Arranged& arranged);
  // How many ids of the prompt `ahead` holds.
  size_t n_read_ahead(const PromptDelta& delta) const;
  // Replaces `kv` by the first `length` rows of the entry.
  void replace_kv(KvCacheEntry entry, size_t length, Foreign from, Turn& turn, Arranged& arranged);
  // Takes what was read ahead, where that is more than n_keep. Whether all of it that was wanted was there.
  Result<bool> take_ahead(const PromptDelta& delta, size_t& n_keep, Turn& turn, Arranged& arranged);
  // The longest stored prefix of the ids, from memory or from disk. An empty entry: there is none.
  struct Found : PrefixHit {
    size_t n_in_memory = 0;  // of its length; the rest was read from disk
    Foreign foreign;
  };
  Found look_up(TokenSpan ids, WorkCounters& work) const;
  // Announced to others, who wait for it and find it.
  SharedPrompt shared_prompt();

  // Before a turn: `kv` holds what is still in memory. Error: kOutOfMemory (the heap), and nothing has changed.
  Status wake_kv();
  // After it: the pages of `kv` are the store's.
  void rest_kv() noexcept;

  // Makes the drafter hold the ids of the prompt.
  void index_prompt(const PromptDelta& delta, Turn& turn);
  // Gives the sampler the history, with the ids of the prompt. Costs what is new of them.
  void count_prompt(const PromptDelta& delta, Sampler& sampler);
  // Makes the answer a part of the conversation: all of it, or it throws std::bad_alloc and nothing has changed.
  void commit(PromptDelta& delta, Generation generation, bool indexed, bool counted, Turn& turn);
  void settle(PromptDelta& delta, bool indexed, bool counted, Turn& turn) noexcept;
  // Behind a turn: the replies of the transcript get their messages' numbers, as far as they are not known. At most the
  // first n_known messages stand where they stood.
  void number_replies(size_t n_known) noexcept;
  void finish_turn(const Turn& turn, const TurnCallback& on_event) noexcept;
  // Tells the store what `entry` holds, and the cache directory, unless it is foreign. rest: comes to mark it
  // (InsertOptions).
  void register_entry(KvCacheEntry& entry, const Foreign& from, Extent extent = Extent::kAll,
                      KvAtRest* rest = nullptr) noexcept;
  const std::string& namespace_of(const Foreign& from) const;
  // After a turn that failed over rows that are no numbers, or make none: they are read anew.
  void forget_foreign_rows() noexcept;
  // Of a conversation's first prompt others may want the whole, and the system message in front of it.
  void tell_what_others_may_want() noexcept;
  // The ids in front of what the first message of the user says.
  size_t n_opening_ids() const;
  // Begins to read what the next turn will need; nothing: there is nothing to read. Errors: as read_ahead().
  Result<std::unique_ptr<ReadingAhead>> begin_reading_ahead(Priority priority, std::stop_token stop);
  Result<std::unique_ptr<ReadingAhead>> begin_reading(const PromptDelta& delta, Tokens ids, bool is_whole,
                                                      Priority priority, std::stop_token stop);
  // Waits for it; what it read is `ahead` then. Errors: those of Feeding.
  Result<Usage> end_reading(ReadingAhead& reading);
  // The prompt's ids from `begin` on.
  Tokens prompt_ids(const PromptDelta& delta, size_t begin) const;
  void finish_timings(Turn& turn, int64_t start_ns) const;

  SavedSession to_saved() const;
  // Makes messages and transcript those of the file. Replies whose ids this model does not have, or whose prompt the
  // template refuses, and those behind them are left to be text, and counted as lost. REQUIRES: nothing was said yet.
  Status replay(const SavedSession& saved);
  // Finds what there is of the transcript: in `entry`, in the store, on disk.
  void resume_kv(std::optional<KvCacheEntry> entry);

  std::stop_source idle_stop_{std::nostopstate};
  std::unique_ptr<ReadingAhead> idle_;  // last: it ends before anything that it reads
};

}  // namespace ibid
