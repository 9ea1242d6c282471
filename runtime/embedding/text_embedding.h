// TextEmbedding: a task that reads one text and makes one vector of it: the mean of the hidden states of all of its
// positions, or that of the last one, brought to length 1.
//
// The states are added in double, one position after the other, whatever passes they came in. So the vector's bits
// depend on the ids, the model and how keys and values are stored, as those of logits do, and on nothing else. Nothing
// of the text is kept: its keys and values are given back at the end.
#pragma once

#include <memory>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/engine_options.h"
#include "ibid/token.h"
#include "runtime/engine/engine.h"
#include "runtime/scheduler/task.h"

namespace ibid {

class TextEmbedding final : public Task {
 public:
  // n_dims: the first numbers of the vector, brought to length 1 without the others. `ids` must outlive it. May throw
  // std::bad_alloc. REQUIRES: the engine has a pooling; there are ids; n_dims is at most the model's dim().
  struct Text {
    TokenSpan ids;
    size_t n_dims;
  };
  TextEmbedding(Engine& engine, Text text, Priority priority, std::stop_token stop, std::shared_ptr<Bell> bell);

  // For after is_over(). Errors: kCancelled, and those of LanguageModel::forward().
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
  std::vector<float> hidden_;   // [rows of a pass, dim]; of the last position: one row
  std::vector<double> sum_;     // [n_dims]
  std::vector<float> vector_;   // [n_dims]
  Status status_;
};

}  // namespace ibid
