// Engine: one loaded model and everything its conversations share: the tokenizer, the chat template, the
// pages of keys and values and the store that finds them again.
//
// It has one compute thread (runtime/scheduler/scheduler.h), which is the first of the n_threads of the model's team.
// Whatever sessions do, create() is the last to make threads.
//
// Thread-safe: any number of sessions on any threads, which share the passes of the model. Sessions hold a shared
// pointer, so an engine lives as long as the last of them. Whoever drops it last waits for the compute thread to
// end. In a child of fork() every call of a session is kUnsupported, because the threads are the parent's: load the
// model after fork(). When the child destroys what is the parent's, it only forgets it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/tier/kv_record.h"
#include "ibid/engine_options.h"
#include "ibid/token.h"
#include "model/forward/language_model.h"
#include "runtime/generate/constraint_cache.h"
#include "runtime/generate/state_borders.h"
#include "runtime/scheduler/pending_prefixes.h"
#include "runtime/scheduler/scheduler.h"
#include "templates/chat_template.h"
#include "templates/reply/reply_format.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class KvTier;
class LruKvCacheStore;

// Two whole contexts (in pages) and sixteen recurrent states, at least 256 MB, and at most half of the memory that is
// available.
size_t default_kv_budget_bytes(size_t page_bytes, size_t state_bytes, size_t max_seq_len, size_t available_bytes);

// What an engine is made of.
struct EngineParts {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: sessions are kUnsupported
  size_t kv_budget_bytes = 256u << 20;
  std::string name = "model";                 // in messages
  std::optional<Pooling> pooling;             // what becomes of a text; none: no embeddings are made
  bool is_for_embeddings = false;             // the file says so: sessions are kUnsupported
  SchedulerOptions scheduling = {};
  std::optional<Fingerprint> fingerprint;     // of the model; a cache directory needs one
  std::string cache_directory;                // as in EngineOptions
  uint64_t cache_directory_bytes = 0;
  // The tier below the store (cache/tier/kv_tier.h), where it is not the one in cache_directory. An error is none of
  // create(): tier_status() says so.
  std::function<Result<std::unique_ptr<KvTier>>(KvPagePool& pool)> open_tier;
  FileOps* files = nullptr;                   // nullptr: the system's
  Clock* clock = nullptr;                     // nullptr: the system's
};

class Engine {
 public:
  // `path`: a .gguf file, or a directory with safetensors and config.json.
  // Errors: kInvalidArgument with name, value and range for an option that is out of range; kOutOfMemory; those of the
  // loaders, of load_language_model() and of load_tokenizer().
  static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options = {});
  // From parts. Errors: kMismatch when the tokenizer has ids that the model has no logits for; kInvalidArgument as
  // above, for a model without room for a position or a pass, and for a budget that is too small to compute with;
  // kOutOfMemory, also when the compute thread cannot be had.
  static Result<std::shared_ptr<Engine>> create(EngineParts parts);

  // Writes what waits to the tier, for at most KvTier::kEndingNs. To write more, or to know what was
  // left, call tier()->flush() before.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::string& name() const { return parts_.name; }
  const LanguageModel& model() const { return *parts_.model; }
  const Tokenizer& tokenizer() const { return *parts_.tokenizer; }
  // nullptr: the model has none.
  const ChatTemplate* chat_template() const;
  // What becomes of a text that is embedded (runtime/embedding/embeddings.h). Nothing: no embeddings are made.
  std::optional<Pooling> pooling() const { return parts_.pooling; }
  // kUnsupported where the file says that the model makes embeddings: it was not trained to answer.
  Status check_answers() const;
  // How the model writes reasoning and calls of tools; found when it is asked for first, which takes milliseconds. May
  // throw std::bad_alloc.
  const ReplyFormat& reply_format() const;
  // Special tokens that are markers of that format, ascending. Found with it.
  TokenSpan marker_tokens() const;
  size_t max_seq_len() const { return parts_.model->max_seq_len(); }
  // What recurrent states of a prompt may take; spacing 0: there are none.
  const StateShare& state_share() const { return state_share_; }

  KvPagePool& pool() { return *pool_; }
  const KvPagePool& pool() const { return *pool_; }
  LruKvCacheStore& store() { return *store_; }
  Scheduler& scheduler() { return *scheduler_; }
  // kUnsupported in a child of fork().
  Status check_process() const { return scheduler_->check_process(); }
  PendingPrefixes& pending() { return pending_; }
  ConstraintCache& constraints() { return constraints_; }
  // nullptr: there is none; tier_status() says why, where one was asked for.
  KvTier* tier() { return tier_.get(); }
  const Status& tier_status() const { return tier_status_; }
  // The directory that the tier has for itself; empty: there is no tier.
  std::string cache_directory() const { return tier_ == nullptr ? std::string() : parts_.cache_directory; }
  uint64_t cache_directory_bytes() const { return parts_.cache_directory_bytes; }
  const std::optional<Fingerprint>& fingerprint() const { return parts_.fingerprint; }
  FileOps& files() const { return *parts_.files; }
  Clock& clock() const { return *parts_.clock; }

 private:
  Engine(EngineParts parts, std::unique_ptr<Scheduler> scheduler);
  static Result<std::shared_ptr<Engine>> load_or_throw(const std::string& path, const EngineOptions& options);
  void open_tier();

  EngineParts parts_;
  mutable std::once_flag found_format_;
  mutable ReplyFormat reply_format_;
  mutable Tokens marker_tokens_;
  // The order matters: the store's entries give their pages back before the pool goes.
  std::unique_ptr<KvPagePool> pool_;
  std::unique_ptr<LruKvCacheStore> store_;
  std::unique_ptr<KvTier> tier_;
  Status tier_status_;
  StateShare state_share_;
  PendingPrefixes pending_;
  ConstraintCache constraints_;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace ibid
