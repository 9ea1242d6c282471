// Sessions on tiny models with real weights and kernels, and the check that their KV has the same bits as one cold pass
// over their tokens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "kernels/ops/dispatch.h"
#include "model/architectures/architectures.h"
#include "runtime/generate/feeding.h"
#include "runtime/session/session_state.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"

namespace ibid {

// One for each type of keys and values.
inline constexpr WeightsAndKv kEveryKvType[] = {{"F32_KV", KvDType::kF32, DType::kF32, DType::kF32},
                                                {"F16_KV", KvDType::kF16, DType::kQ4_1, DType::kQ8_0},
                                                {"Int8_KV", KvDType::kInt8, DType::kQ8_0, DType::kQ8_0},
                                                {"K8V4_KV", KvDType::kK8V4, DType::kQ8_0, DType::kQ8_0},
                                                {"Int4_KV", KvDType::kInt4, DType::kQ8_0, DType::kQ8_0}};

// Renders earlier answers in capitals: every turn rewrites the one before.
inline constexpr const char* kShouts =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{{ message['content'] | upper if message['role'] == 'assistant' else message['content'] }}"
    "{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

inline constexpr size_t kTinyContext = 2048;

inline std::unique_ptr<TransformerModel> load_tiny_chat_model(const WeightsAndKv& kind, std::optional<Isa> isa,
                                                              int n_threads, size_t max_chunk) {
  TinyModel tiny;
  tiny.vocab_size = FakeTokenizer().vocab_size();
  tiny.n_layers = 2;
  tiny.context = kTinyContext;
  kind.apply_to(tiny);
  return load_tiny_model(tiny, {.kv_dtype = kind.kv_dtype, .n_threads = n_threads, .isa = isa, .max_chunk = max_chunk});
}

// Loads a checkpoint of the reference data; without options.max_seq_len with a longer context than its 256 positions.
inline std::unique_ptr<TransformerModel> load_tiny_checkpoint(const std::string& directory, ModelOptions options) {
  const auto file = open_model_file(directory);
  CHECK(file.ok()) << file.status().to_string();
  Result<ModelConfig> config = read_config(**file);
  CHECK(config.ok()) << config.status().to_string();
  if (options.max_seq_len == 0) options.max_seq_len = kTinyContext;
  auto model = TransformerModel::create(**file, *std::move(config), options);
  CHECK(model.ok()) << model.status().to_string();
  return *std::move(model);
}

// KV of a sequence, and the logits and recurrent states after one token more.
struct SequenceBits {
  Row rows, next_logits, next_states;
};

// Reference for sessions: an entry of its own, one pass, one thread, the best instruction set.
class ColdModel {
 public:
  explicit ColdModel(const WeightsAndKv& kind) : ColdModel(load_tiny_chat_model(kind, {}, 1, kTinyContext)) {}
  explicit ColdModel(std::unique_ptr<TransformerModel> model)
      : model_(std::move(model)), pool_(model_->kv_layout(), size_t{64} << 20) {}

  SequenceBits read(TokenSpan ids, TokenId next) {
    KvCacheEntry entry(pool_);
    Logits logits;
    feed(entry, ids, WantLogits::kNone, logits);
    Row rows = stored_rows(entry);
    feed(entry, {&next, 1}, WantLogits::kLast, logits);
    return {std::move(rows), Row(logits.row(0).begin(), logits.row(0).end()), stored_states(entry)};
  }

 private:
  void feed(KvCacheEntry& entry, TokenSpan ids, WantLogits want, Logits& logits) {
    if (ids.empty()) return;
    const SequenceChunk chunk{&entry, ids, want};
    const Status status = model_->forward({&chunk, 1}, {}, logits);
    ASSERT_TRUE(status.ok()) << status.to_string();
  }

  std::unique_ptr<TransformerModel> model_;
  KvPagePool pool_;
};

// An engine with the model, and a small vocabulary unless `parts` have one.
inline std::shared_ptr<Engine> tiny_engine(std::unique_ptr<LanguageModel> model, const char* chat_template,
                                           EngineParts parts = {}, size_t kv_budget_bytes = size_t{256} << 20) {
  parts.model = std::move(model);
  if (parts.tokenizer == nullptr) parts.tokenizer = std::make_unique<FakeTokenizer>(FakeTokenizer::small());
  parts.kv_budget_bytes = kv_budget_bytes;
  parts.chat_template = *ChatTemplate::compile(chat_template);
  return *make_engine(std::move(parts));
}

inline std::shared_ptr<Engine> tiny_engine(const WeightsAndKv& kind, std::optional<Isa> isa, int n_threads,
                                           size_t max_chunk, const char* chat_template, EngineParts parts = {},
                                           std::function<void(size_t layer)> observer = {}) {
  std::unique_ptr<TransformerModel> model = load_tiny_chat_model(kind, isa, n_threads, max_chunk);
  model->set_layer_observer(std::move(observer));
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  return tiny_engine(std::move(model), chat_template, std::move(parts));
}

// Checks that the session's tokens are those that were fed, all but the last, and that KV, next logits and next states,
// computed on its own engine, have the bits of a cold pass.
inline void expect_cold_bits(const ChatSession& session, ColdModel& cold, bool whole = true) {
  const KvCacheEntry& kv = session.state().kv();
  ASSERT_LE(kv.length(), session.ids().size());
  ASSERT_TRUE(!whole || kv.length() + 1 >= session.ids().size());
  ASSERT_TRUE(std::equal(kv.tokens().begin(), kv.tokens().end(), session.ids().begin()));
  const TokenId next = 65;
  const SequenceBits wanted = cold.read(kv.tokens(), next);
  ASSERT_TRUE(same_bits(stored_rows(kv), wanted.rows)) << "stored rows differ";
  if (kv.length() == session.engine()->max_seq_len()) return;
  KvCacheEntry warm = kv.fork().value();
  Logits warm_logits;
  const Status fed =
      ibid::feed(session.engine()->state().scheduler(), warm, {&next, 1}, WantLogits::kLast, {}, warm_logits);
  // If the pool is too small for the sessions, it may lack memory for this check's computation.
  if (!whole && fed.code() == ErrorCode::kOutOfMemory) return;
  ASSERT_TRUE(fed.ok()) << fed.message();
  ASSERT_TRUE(same_bits(Row(warm_logits.row(0).begin(), warm_logits.row(0).end()), wanted.next_logits))
      << "logits differ";
  ASSERT_TRUE(same_bits(stored_states(warm), wanted.next_states)) << "states differ";
}

}  // namespace ibid
