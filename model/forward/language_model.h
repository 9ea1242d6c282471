// LanguageModel: the interface of a model for the runtime. Prefill, decode, mixed batches and the verification of
// drafts are one function, forward().
//
// An implementation owns its weights and scratch memory, and nothing of a conversation: keys and values live in the
// entries that callers bring. forward() is not re-entrant (an Engine serialises its passes).
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "ibid/token.h"

namespace ibid {

// Which rows of a chunk get logits. The vocabulary head is the widest layer, so it runs only for rows that ask.
enum class WantLogits { kNone, kLast, kAll };

// The next tokens of one sequence: tokens[i] stands at position entry->length() + i.
struct SequenceChunk {
  KvCacheEntry* entry = nullptr;
  TokenSpan tokens;
  WantLogits want = WantLogits::kLast;
  // Where the rows that `want` names leave their hidden states, in place of logits: x behind the final norm, which is
  // what the head would read. [wanted rows, dim()]; nullptr: they get logits.
  float* hidden = nullptr;
};

// The logits of the rows that asked, in batch order, in a buffer that is reused from pass to pass.
class Logits {
 public:
  size_t n_rows() const { return n_rows_; }
  size_t vocab_size() const { return vocab_size_; }
  std::span<const float> row(size_t i) const { return {data() + i * stride_, vocab_size_}; }

  // For implementations: room for n_rows rows of `stride` floats, 64-byte aligned.
  // REQUIRES: stride is a multiple of 16 and at least vocab_size.
  float* resize(size_t n_rows, size_t vocab_size, size_t stride) {
    n_rows_ = n_rows;
    vocab_size_ = vocab_size;
    stride_ = stride;
    const size_t lines = n_rows * stride / kLineFloats;
    if (lines_.size() < lines) lines_.resize(lines);
    return lines_.empty() ? nullptr : lines_.front().values;
  }

  // Becomes rows [first, first + n) of another.
  void copy_rows(const Logits& from, size_t first, size_t n) {
    float* to = resize(n, from.vocab_size_, from.stride_);
    std::copy_n(from.data() + first * stride_, n * stride_, to);
  }

 private:
  static constexpr size_t kLineFloats = 16;
  struct alignas(64) Line {
    float values[kLineFloats];
  };
  const float* data() const { return lines_.front().values; }

  std::vector<Line> lines_;  // [n_rows, stride] floats
  size_t n_rows_ = 0;
  size_t vocab_size_ = 0;
  size_t stride_ = 0;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  virtual size_t vocab_size() const = 0;
  // How many positions a sequence may have: the configured context, which is at most what the model was trained for
  // unless the user insisted.
  virtual size_t max_seq_len() const = 0;
  // Most rows one forward() takes, over all sequences of the batch.
  virtual size_t max_chunk() const = 0;
  virtual const KvLayout& kv_layout() const = 0;
  // The width of a hidden state; 0: the model tells none, and no chunk may ask for them.
  virtual size_t dim() const { return 0; }

  // Evaluates every chunk, publishes its rows in its entry and writes the wanted logits to `logits`, hidden states to
  // where their chunks say. The result for a row depends on its own sequence alone. On any error or cancellation no
  // entry has changed; hidden states may hold anything.
  // Cancellation is checked once per layer.
  // Errors: kInvalidArgument (id out of range, empty chunk, more than max_chunk rows), kContextFull (both
  // numbers), kOutOfMemory, kCancelled, kNonFinite.
  virtual Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) = 0;

  // Calls work(i), which must not throw, for each i below n, side by side where the model has threads. As forward(),
  // it is for one thread at a time.
  virtual void for_each(size_t n, const std::function<void(size_t)>& work) {
    for (size_t i = 0; i < n; ++i) work(i);
  }
};

}  // namespace ibid
