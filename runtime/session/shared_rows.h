// SharedRows: where a session finds keys and values that it does not hold itself, and where it leaves its own so that
// others find them: the engine's store, and its cache directory, under the session's namespace.
//
// It keeps no rows and nothing about a conversation. Thread-safe, as the store and the directory are.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/store/store_handles.h"
#include "ibid/turn.h"
#include "runtime/engine/engine.h"
#include "runtime/generate/generate.h"

namespace ibid {

// The namespace of foreign rows: rows that came in a file, and rows that were computed on top of them. Whoever made
// the file may have made them up, so only the conversation that loaded it and its forks find them, and they are
// never written to disk. Null stands for rows that were computed here, which live in the session's namespace.
using Foreign = std::shared_ptr<const PrivateNamespace>;

class SharedRows {
 public:
  SharedRows(std::shared_ptr<Engine> engine, std::string name_space)
      : engine_(std::move(engine)), name_space_(std::move(name_space)) {}

  Engine& engine() const { return *engine_; }
  Foreign new_foreign() const { return std::make_shared<const PrivateNamespace>(engine_->store()); }

  // The longest stored prefix of the ids, from memory or from the tier, whose reading ends when it is told to stop.
  // own: whose foreign rows may be used. An empty entry: there is none.
  struct Found : PrefixHit {
    size_t n_in_memory = 0;  // of its length; the rest was read from disk
    Foreign foreign = {};
    size_t tokens_compared = 0;

    // Why its rows behind n are of no use. Nothing: there are none.
    std::optional<LostCause> missing_behind(size_t n) const {
      switch (misses.at(n)) {
        case PrefixMiss::kStateEvicted: return LostCause::kStateGone;
        case PrefixMiss::kWindowEvicted: return LostCause::kWindowGone;
        case PrefixMiss::kNotStored: break;
      }
      return std::nullopt;
    }
  };
  Found look_up(TokenSpan ids, const Foreign& own, std::stop_token stop = {}) const;

  // Makes the prompt known to others, who may wait for it and then find it. This object must outlive the answer,
  // which calls it on the compute thread.
  SharedPrompt announce() const;

  // Tells the store what `entry` holds, and the cache directory, unless it is foreign. rest: comes to mark it
  // (InsertOptions). A store without room is no error: its entries are a chance, not a promise.
  void leave(KvCacheEntry& entry, const Foreign& from, Extent extent = Extent::kAll,
             KvAtRest* rest = nullptr) const noexcept;
  // The pages of the entry become the store's, and `rest` has their ids. Without memory for that the entry keeps them.
  void put_to_rest(KvCacheEntry& entry, KvAtRest& rest, const Foreign& from) const noexcept;

  // What other conversations may want of a prompt that was searched for and read: the logits behind the first n_prompt
  // ids, where they are known, and the first n_opening ids, in front of what the user says. REQUIRES: not foreign.
  void leave_for_others(const KvCacheEntry& entry, size_t n_prompt, const PromptLogits& logits,
                        size_t n_opening) const noexcept;

 private:
  bool publish(KvCacheEntry& entry, bool whole) const noexcept;
  const std::string& namespace_of(const Foreign& from) const { return from != nullptr ? from->name() : name_space_; }

  std::shared_ptr<Engine> engine_;
  std::string name_space_;
};

}  // namespace ibid
