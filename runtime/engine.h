// Engine: one loaded model and everything its conversations share: the tokenizer, the chat template, the
// pages of keys and values and the store that finds them again.
//
// Thread-safe: any number of sessions on any threads; their passes stand in line. Sessions hold a shared
// pointer, so an engine lives as long as the last of them. Batching passes of several sessions (a
// scheduler) is not there yet.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/result.h"
#include "cache/kv_page_pool.h"
#include "kernels/kernels.h"
#include "kernels/linear.h"
#include "model/language_model.h"
#include "runtime/forward_queue.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class LruKvCacheStore;

struct EngineOptions {
  Numerics numerics = Numerics::kExact;
  KvDType kv_dtype = KvDType::kF16;
  int n_threads = 0;           // 0: one per core the process may use
  size_t max_seq_len = 0;      // the context in positions; 0: what the model was trained for
  size_t max_chunk = 512;      // rows of one pass
  size_t kv_budget_bytes = 0;  // for all keys and values; 0: default_kv_budget_bytes()
};

// Two whole contexts (in pages), at least 256 MB, and at most half of the memory that is available.
size_t default_kv_budget_bytes(size_t page_bytes, size_t max_seq_len, size_t available_bytes);

// What an engine is made of.
struct EngineParts {
  std::unique_ptr<LanguageModel> model;
  std::unique_ptr<Tokenizer> tokenizer;
  std::optional<ChatTemplate> chat_template;  // none: sessions are kUnsupported
  size_t kv_budget_bytes = 256u << 20;
  std::string name = "model";                 // in messages
  Clock* clock = nullptr;                     // nullptr: the system's
};

class Engine {
 public:
  // `path`: a .gguf file, or a directory with safetensors and config.json.
  // Errors: those of the loaders, of load_language_model() and of load_tokenizer().
  static Result<std::shared_ptr<Engine>> load(const std::string& path, const EngineOptions& options = {});
  // From parts. kMismatch when the tokenizer has ids that the model has no logits for.
  static Result<std::shared_ptr<Engine>> create(EngineParts parts);

  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const std::string& name() const { return parts_.name; }
  const LanguageModel& model() const { return *parts_.model; }
  const Tokenizer& tokenizer() const { return *parts_.tokenizer; }
  // nullptr: the model has none.
  const ChatTemplate* chat_template() const;
  size_t max_seq_len() const { return parts_.model->max_seq_len(); }

  KvPagePool& pool() { return *pool_; }
  LruKvCacheStore& store() { return *store_; }
  ForwardQueue& queue() { return *queue_; }
  Clock& clock() { return *parts_.clock; }

 private:
  explicit Engine(EngineParts parts);

  EngineParts parts_;
  // In this order: the store's entries give their pages back before the pool goes.
  std::unique_ptr<KvPagePool> pool_;
  std::unique_ptr<LruKvCacheStore> store_;
  std::unique_ptr<ForwardQueue> queue_;
};

}  // namespace ibid
