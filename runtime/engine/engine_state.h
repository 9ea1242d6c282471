// EngineState: the implementation of Engine (ibid/engine.h): the model, the tokenizer, the chat template, the KV pages
// and the store that finds them. For files of the library; Engine::state() returns it.
//
// It has one compute thread (runtime/scheduler/scheduler.h), the first of the n_threads of the model's team. After
// creation no call of a session starts a thread. Thread-safe, as its engine is.
//
// In a child of fork() check_process() is kUnsupported, because the threads are the parent's; destroying the state in
// the child does not release what belongs to the parent.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/idle_time.h"
#include "base/result.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/later_fingerprint.h"
#include "ibid/engine.h"
#include "ibid/engine_options.h"
#include "ibid/token.h"
#include "model/forward/language_model.h"
#include "runtime/generate/checkpoint_positions.h"
#include "runtime/generate/constraint_cache.h"
#include "runtime/scheduler/pending_prefixes.h"
#include "runtime/scheduler/scheduler.h"
#include "templates/chat_template.h"
#include "templates/reply/reply_format.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class IdleAudit;
class KvTier;
class LruKvCacheStore;
namespace net {
class SharedServer;
}

// Returns the default budget: pages for two whole contexts, and sixteen recurrent states; at least 256 MB, and at most
// half of the available memory.
size_t default_kv_budget_bytes(size_t page_bytes, size_t state_bytes, size_t max_seq_len, size_t available_bytes);

// The audit of the records that are read from the tier (runtime/audit/idle_audit.h).
struct IdleAuditOptions {
  double share = 0;                // as EngineOptions::audit_share; 0: no audit
  std::optional<uint64_t> seed;    // of the sample; unset: random
  std::unique_ptr<IdleTime> idle;  // null: the system's implementation
};

// The parts from which make_engine() makes an engine.
struct EngineParts {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // unset: creating a session fails with kUnsupported
  size_t kv_budget_bytes = 256u << 20;
  std::string name = "model";  // name of the model in messages
  std::vector<std::string> warnings = {};
  std::optional<Pooling> pooling;  // pooling of embeddings; unset: the engine makes no embeddings
  bool is_for_embeddings = false;  // an embedding model: creating a session fails with kUnsupported
  SchedulerOptions scheduling = {};
  std::optional<LaterFingerprint> fingerprint;  // fingerprint of the model; a cache directory needs one
  std::string cache_directory;                  // as in EngineOptions
  uint64_t cache_directory_bytes = 0;
  uint64_t cache_write_bytes_per_s = 0;
  std::shared_ptr<net::SharedServer> shared_server;  // of a tier that nodes share; nullptr: none. Needs a fingerprint.
  uint64_t shared_server_bytes_per_s = 0;            // as EngineOptions::cache_server_write_bytes_per_s
  double least_row_ns = 0;                           // lower bound of the time of a prefill row; 0: unknown
  // Opens the tier below the store (cache/tier/kv_tier.h), instead of one in cache_directory. After an error the engine
  // is made without a tier; see tier_status().
  std::function<Result<std::unique_ptr<KvTier>>(KvPagePool& pool)> open_tier;
  IdleAuditOptions audit = {};
  FileOps* files = nullptr;  // nullptr: the system's file operations
  Clock* clock = nullptr;    // nullptr: the system's clock
};

// Makes an engine of its parts. Errors: kMismatch if the tokenizer has tokens for which the model has no logits;
// kInvalidArgument as of Engine::load(), also if the model's max_seq_len or max_chunk is 0, or if the budget is too
// small to compute with; kOutOfMemory, also if the compute thread cannot be started.
Result<std::shared_ptr<Engine>> make_engine(EngineParts parts);

class EngineState {
 public:
  EngineState(EngineParts parts, std::unique_ptr<Scheduler> scheduler);
  // Writes pending data to the tier, for at most KvTier::kEndingNs. To write more, or to learn what is left, call
  // tier()->flush() before.
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  const std::string& name() const { return parts_.name; }
  const std::vector<std::string>& warnings() const { return parts_.warnings; }
  const LanguageModel& model() const { return *parts_.model; }
  const Tokenizer& tokenizer() const { return *parts_.tokenizer; }
  // The model's chat template; nullptr: it has none.
  const ChatTemplate* chat_template() const;
  // How hidden states become an embedding (runtime/embedding/embeddings.h); unset: no embeddings are made.
  std::optional<Pooling> pooling() const { return parts_.pooling; }
  // kUnsupported for an embedding model: it was not trained to answer.
  Status check_answers() const;
  // How the model writes reasoning and tool calls; determined at the first call, which takes milliseconds. May throw
  // std::bad_alloc.
  const ReplyFormat& reply_format() const;
  // Special tokens that are markers of reply_format(), ascending.
  TokenSpan marker_tokens() const;
  size_t max_seq_len() const { return parts_.model->max_seq_len(); }
  // Limits for the recurrent states of a prompt; spacing 0: the model has no recurrent states.
  const StateShare& state_share() const { return state_share_; }

  KvPagePool& pool() { return *pool_; }
  const KvPagePool& pool() const { return *pool_; }
  LruKvCacheStore& store() { return *store_; }
  Scheduler& scheduler() { return *scheduler_; }
  // Returns kUnsupported in a child of fork(), which lacks the engine's threads.
  Status check_process() const { return scheduler_->check_process(); }
  PendingPrefixes& pending() { return pending_; }
  ConstraintCache& constraints() { return constraints_; }
  // nullptr: no tier; tier_status() says why, if one was requested.
  KvTier* tier() { return tier_.get(); }
  const Status& tier_status() const { return tier_status_; }
  // nullptr: the records of the tier are not audited.
  IdleAudit* audit() { return audit_.get(); }
  // The storages of which tier() consists, the nearest first: "directory", and "server", which nodes share.
  struct NamedTier {
    const char* name;
    const KvTier* tier;
  };
  const std::vector<NamedTier>& tiers() const { return tiers_; }
  // nullptr: no server.
  net::SharedServer* shared_server() const { return parts_.shared_server.get(); }
  // The directory of the tier; empty: none.
  std::string cache_directory() const { return has_directory_ ? parts_.cache_directory : std::string(); }
  uint64_t cache_directory_bytes() const { return parts_.cache_directory_bytes; }
  const std::optional<LaterFingerprint>& fingerprint() const { return parts_.fingerprint; }
  FileOps& files() const { return *parts_.files; }
  Clock& clock() const { return *parts_.clock; }
  // Time of a prefill row as measured; before the first measurement a lower bound; 0: unknown.
  double prefill_row_ns() const;

 private:
  void open_tier();

  EngineParts parts_;
  mutable std::once_flag found_format_;
  mutable ReplyFormat reply_format_;
  mutable Tokens marker_tokens_;
  // The order of these members matters: the store is destroyed before the pool, because its entries return their pages
  // to the pool.
  std::unique_ptr<KvPagePool> pool_;
  std::unique_ptr<LruKvCacheStore> store_;
  std::unique_ptr<KvTier> tier_;
  std::vector<NamedTier> tiers_;
  bool has_directory_ = false;
  Status tier_status_;
  StateShare state_share_;
  PendingPrefixes pending_;
  ConstraintCache constraints_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<IdleAudit> audit_;  // last, because its thread uses all other members
};

}  // namespace ibid
