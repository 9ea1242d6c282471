// TextEmbedding: a task that embeds one text: the mean of the hidden states of all its positions, or the state of the
// last position, normalised to length 1.
//
// The states are summed in double in the order of positions, however they are split into passes. So the bits of the
// vector depend only on what logits depend on: tokens, model and storage of keys and values. Nothing of the text is
// cached: its keys and values are freed at the end.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/engine_options.h"
#include "ibid/token.h"
#include "runtime/engine/engine_state.h"
#include "runtime/scheduler/task.h"

namespace ibid {

class TextEmbedding final : public Task {
 public:
  // n_dims: number of first elements of the vector to keep; the rest is dropped before it is normalised. `ids` must
  // outlive the task. May throw std::bad_alloc. REQUIRES: the engine has a pooling; ids is not empty; n_dims is at most
  // the model's dim().
  struct Text {
    TokenSpan ids;
    size_t n_dims;
  };
  TextEmbedding(EngineState& engine, Text text, Priority priority, std::stop_token stop, std::shared_ptr<Waker> bell);

  // After is_over() only. Errors: kCancelled, and those of LanguageModel::forward().
  Status take_status() { return std::move(status_); }
  // [n_dims]
  std::vector<float> take_vector() { return std::move(vector_); }

 private:
  Wish next(SequenceChunk& chunk) noexcept override;
  void fed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override;
  void finish() noexcept;

  KvCacheEntry entry_;
  TokenSpan rest_;
  const Pooling pooling_;
  const size_t n_ids_, dim_;
  std::vector<float> hidden_;  // [rows of a pass, dim]; one row if only the last position counts
  std::vector<double> sum_;    // [n_dims]
  std::vector<float> vector_;  // [n_dims]
  Status status_;
};

}  // namespace ibid
