// The inside of a ChatSession: its state, and how a turn runs on it. Not for users of the library. Not thread-safe,
// except for `busy`, by which the session's calls exclude each other.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <stop_token>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/session/chat_session.h"
#include "runtime/session/session_branch.h"
#include "runtime/session/session_file.h"

namespace ibid {

// {"role": role, "content": text}. It is not built from a list in braces, because such a list loses what it held if
// the heap fails in the middle of it.
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

  // Gives n answers to the question, each from a branch of its own with seed + 0, 1, ...; the session goes on with
  // the first.
  Result<std::vector<Turn>> run_turns(size_t n, uint64_t seed, const TurnOptions& options,
                                      const AnswersCallback& on_event);
  Status choose(size_t answer);

  // Computes now what the next turn will need: the whole prompt, when a question waits for its answer, else what the
  // template will write up to the next user message's text. Changes nothing but `ahead`.
  // Errors: kCancelled, kOutOfMemory and others as of prefill(); what was read till then stays in the store.
  Result<Usage> read_ahead(Priority priority, std::stop_token stop);
  // Whether the template will rewrite what it wrote so far when the conversation goes on (it drops thinking, say).
  // False if there is no memory to find out.
  bool rewrites_history() noexcept;

  // session_resume.cc: as a file, and back.
  Status save(const std::string& path, bool with_kv, SaveReport& report) const;
  static Result<std::unique_ptr<State>> load(std::shared_ptr<Engine> engine, const std::string& path,
                                             const LoadOptions& load_options);

  // The first has the engine read ahead while it has nothing else to do, if there is memory for that; the second
  // ends this within a layer.
  void start_idle_work() noexcept;
  void stop_idle_work() noexcept;

  // Returns the conversation's keys and values that are in memory, shared. Error: kOutOfMemory (the heap).
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
  class RunningTurn;  // runtime/session/running_turn.h
  friend class TurnCall;
  Result<std::vector<Turn>> run_side_by_side(std::span<const std::unique_ptr<State>> branches, uint64_t seed,
                                             const TurnOptions& options, const AnswersCallback& on_event);

  // How a turn found the keys and values of its prompt, and what `kv` was before that.
  struct Arranged {
    size_t length_before = 0;
    std::optional<KvCacheEntry> before;               // set when `kv` lost rows
    Foreign foreign_before;
    PromptLogits logits;                              // set when the whole prompt is there
    bool searched = false;                            // elsewhere than in the session: the prompt was none that grew
    std::optional<SharedPrompt> shared;               // what others may wait for
  };
  // The messages as they were before a full context changed them.
  struct FullHistory {
    Json messages;
    std::set<size_t> pinned;
    size_t first_changed = 0;
  };

  // What a turn has to put back if it fails: the parts that are set.
  struct BeforeTurn {
    std::optional<PromptDelta> delta;  // planned
    std::optional<Arranged> arranged;
    std::optional<FullHistory> full;
  };

  // Makes messages, keys and values what they were. What was computed stays in the store.
  void take_back(BeforeTurn& before) noexcept;
  // Forgets the drafter's index and the history of penalties, which are then made from the transcript again when
  // needed.
  void forget_indexes() noexcept;

  // Plans the turn; when the context is full, after the session's policy was applied. n_answer: the most tokens
  // that the answer will have.
  Result<PromptDelta> plan_within_context(size_t n_answer, Turn& turn, std::optional<FullHistory>& full);

  // Makes `kv` hold the longest reusable part of the prompt: at most all of it if the logits behind it are known,
  // else all but one id.
  // Error: kOutOfMemory; `arranged` says what is to be put back.
  Status arrange_kv(const PromptDelta& delta, Priority priority, Turn& turn, Arranged& arranged);
  // How many ids of the prompt `ahead` holds.
  size_t n_read_ahead(const PromptDelta& delta) const;
  // Replaces `kv` by the first `length` rows of the entry.
  void replace_kv(KvCacheEntry entry, size_t length, Foreign from, Turn& turn, Arranged& arranged);
  // Takes what was read ahead, if that is more than n_keep. Returns whether all that was wanted was there.
  Result<bool> take_ahead(const PromptDelta& delta, size_t& n_keep, Turn& turn, Arranged& arranged);
  // The longest stored prefix of the ids, from memory or from disk. An empty entry: there is none.
  struct Found : PrefixHit {
    size_t n_in_memory = 0;  // of its length; the rest was read from disk
    Foreign foreign;
  };
  Found look_up(TokenSpan ids, WorkCounters& work) const;
  // Makes the prompt known to others, who may wait for it and then find it.
  SharedPrompt shared_prompt();

  // Before a turn: `kv` holds what is still in memory. Error: kOutOfMemory (the heap), and nothing has changed.
  Status wake_kv();
  // After it: the pages of `kv` are the store's.
  void rest_kv() noexcept;

  // Makes the drafter hold the ids of the prompt.
  void index_prompt(const PromptDelta& delta, Turn& turn);
  // Gives the sampler the history, with the ids of the prompt. Costs what is new of them.
  void count_prompt(const PromptDelta& delta, Sampler& sampler);
  // Makes the whole answer a part of the conversation; or throws std::bad_alloc, and nothing has changed.
  void commit(PromptDelta& delta, Generation generation, bool indexed, bool counted, Turn& turn);
  void settle(PromptDelta& delta, bool indexed, bool counted, Turn& turn) noexcept;
  // After a turn: gives the replies of the transcript the numbers of their messages, where these are not known yet.
  // At most the first n_known messages stand where they stood.
  void number_replies(size_t n_known) noexcept;
  void finish_turn(const Turn& turn, const TurnCallback& on_event) noexcept;
  // Tells the store what `entry` holds, and the cache directory, unless it is foreign. rest: comes to mark it
  // (InsertOptions).
  void register_entry(KvCacheEntry& entry, const Foreign& from, Extent extent = Extent::kAll,
                      KvAtRest* rest = nullptr) noexcept;
  const std::string& namespace_of(const Foreign& from) const;
  // Drops foreign rows after a turn failed because they, or what was computed from them, were not finite. They are
  // then read anew.
  void forget_foreign_rows() noexcept;
  // Leaves to the store what other conversations may want of a first prompt: the logits behind the whole, and its
  // beginning up to what the user says.
  void tell_what_others_may_want() noexcept;
  // The ids in front of what the first message of the user says.
  size_t n_opening_ids() const;
  // Begins to read what the next turn will need. A null result means that there is nothing to read. Errors: as
  // read_ahead().
  Result<std::unique_ptr<ReadingAhead>> begin_reading_ahead(Priority priority, std::stop_token stop);
  Result<std::unique_ptr<ReadingAhead>> begin_reading(const PromptDelta& delta, Tokens ids, bool is_whole,
                                                      Priority priority, std::stop_token stop);
  // Waits for the reading; what it read becomes `ahead`. Errors: those of Feeding.
  Result<Usage> end_reading(ReadingAhead& reading);
  // The prompt's ids from `begin` on.
  Tokens prompt_ids(const PromptDelta& delta, size_t begin) const;
  void finish_timings(Turn& turn, int64_t start_ns) const;

  SavedSession to_saved() const;
  // Makes messages and transcript those of the file. Replies whose ids this model does not have, or whose prompt the
  // template refuses, and those behind them are left to be text, and counted as lost. REQUIRES: nothing was said yet.
  Status replay(const SavedSession& saved);
  // Finds the transcript's keys and values: in `entry`, in the store, on disk.
  void resume_kv(std::optional<KvCacheEntry> entry);

  std::stop_source idle_stop_{std::nostopstate};
  std::unique_ptr<ReadingAhead> idle_;  // last: it ends before anything that it reads
};

}  // namespace ibid
