// PrefixPublisher: finds cached keys and values for a session and publishes the session's own: in the engine's store
// and its cache directory, under the session's namespace.
//
// It owns no KV and has no state of a conversation. Thread-safe, as the store and the directory are.
#pragma once

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/engine/engine_state.h"
#include "runtime/generate/generate.h"

namespace ibid {

// The namespace of imported KV: loaded from a file, or computed from such KV. The file's author may have made it up, so
// only the conversation that loaded it and its forks find it, and it is never written to disk. Null: KV that was
// computed here, in the session's namespace.
using Foreign = std::shared_ptr<const PrivateNamespace>;

class PrefixPublisher {
 public:
  PrefixPublisher(std::shared_ptr<Engine> engine, std::string name_space)
      : engine_(std::move(engine)), name_space_(std::move(name_space)) {}

  Engine& engine() const { return *engine_; }
  LruKvCacheStore& store() const { return engine_->state().store(); }
  Foreign new_foreign() const { return std::make_shared<const PrivateNamespace>(engine_->state().store()); }

  struct Found : PrefixHit {
    size_t n_in_memory = 0;  // length of the part that was in memory; the rest was read from disk
    Foreign foreign = {};
    size_t tokens_compared = 0;
  };
  // Returns the longest stored prefix of the tokens, from memory or the tier; `stop` ends reads from the tier, and so
  // does a time limit. own: imported KV that may be used. An empty entry: nothing was found.
  Found look_up(TokenSpan ids, const Foreign& own, std::stop_token stop = {}) const;

  // Announces a prompt, so that other requests can wait for its prefill and then find it. This object must outlive the
  // answer, which calls it on the compute thread.
  SharedPrompt announce() const;

  // Inserts `entry` into the store and, unless its KV is imported, into the cache directory. rest: if set, refers to
  // the inserted sequence from then on (IdleSequence). A full store is not an error: caching is best effort.
  void insert(KvCacheEntry& entry, const Foreign& from, Extent extent = Extent::kAll,
              IdleSequence* idle = nullptr) const noexcept;
  // Moves the entry's pages to the store, and its tokens to `rest`. If memory is out, the entry keeps both.
  void make_idle(KvCacheEntry& entry, IdleSequence& idle, const Foreign& from) const noexcept;

  // Publishes parts of a prefilled prompt for other conversations: the logits after the first n_prompt tokens, if
  // known, and the first `first_turn_boundary` tokens, before the first user message. REQUIRES: the entry's KV is not
  // imported.
  void publish_prompt(const KvCacheEntry& entry, size_t n_prompt, const PromptLogits& logits,
                      size_t first_turn_boundary) const noexcept;

 private:
  bool publish(KvCacheEntry& entry, bool with_last_page) const noexcept;
  const std::string& namespace_of(const Foreign& from) const { return from != nullptr ? from->name() : name_space_; }

  std::shared_ptr<Engine> engine_;
  std::string name_space_;
};

}  // namespace ibid
