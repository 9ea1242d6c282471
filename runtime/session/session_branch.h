// SessionBranch: one line of a conversation, that is what a fork has of its own. Not for users of the library.
//
// While a turn computes, the branch holds keys and values in `kv`. At rest they belong to the store, which may
// evict them: the branch then has their ids and a mark (`at_rest`), and looks elsewhere for what is gone, or reads
// it again. Plain data. Copying copies text and ids, and no page.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/json_limits.h"
#include "cache/store/lru_kv_cache_store.h"
#include "cache/store/private_namespace.h"
#include "runtime/answer/generate.h"
#include "runtime/engine/engine.h"
#include "runtime/prompt/prompt_delta.h"
#include "runtime/prompt/transcript.h"
#include "runtime/stats.h"
#include "sampling/speculation.h"
#include "sampling/token_history.h"

namespace ibid {

struct SessionOptions;

// The namespace of foreign rows: rows that came in a file, and rows that were computed on top of them. Whoever made
// the file may have made them up, so only the conversation that loaded it and its forks find them, and they are
// never written to disk. Null stands for rows that were computed here, which live in the session's namespace.
using Foreign = std::shared_ptr<const PrivateNamespace>;

struct SessionBranch {
  SessionBranch(std::shared_ptr<Engine> engine, const SessionOptions& options);
  SessionBranch(const SessionBranch& other);
  SessionBranch(SessionBranch&&) = default;
  SessionBranch& operator=(SessionBranch&&) = default;

  // The start of the next prompt, read ahead of time. Its first n_transcript ids are the transcript's, as long as
  // no turn is committed.
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

  std::shared_ptr<Engine> engine;  // first: pages go before their pool
  Json messages = Json::array();
  std::set<size_t> pinned;     // numbers of messages that a full context does not take
  Transcript transcript;
  size_t n_numbered = 0;       // the first messages: replies in the transcript with these numbers are these messages'
  PromptPlanner planner;
  // The keys and values of the first ids of the transcript: `kv` while a turn runs, `at_rest` between turns. At
  // rest `kv` holds no pages, except when the store had no heap memory to take them.
  KvCacheEntry kv;
  KvAtRest at_rest;
  Foreign foreign;             // of both
  size_t n_read = 0;           // how many of these ids were read or said once: all, or all but the last
  PromptEnd prompt_end;        // of the last answer
  std::optional<ReadAhead> ahead;
  Drafter drafter;
  size_t n_indexed = 0;        // the drafter's first ids, which are the transcript's
  TokenHistory history;        // what penalties look back on; kept up only by turns that have some
  size_t n_counted = 0;        // its first ids, which are the transcript's
  Usage usage;
  Timings timings;
  bool rewound = false;        // what lies behind the messages in the transcript is not expected to stay
  bool search_store = true;    // the store may hold more of the next prompt than this branch
};

}  // namespace ibid
