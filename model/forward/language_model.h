// LanguageModel: the interface between the runtime and a model. The one function forward() does prefill, decode, mixed
// batches and verification of drafts.
//
// An implementation owns its weights and scratch memory, but no conversation state: keys and values are in the callers'
// entries. forward() is not re-entrant (an Engine runs one pass at a time).
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

// Which rows of a chunk get logits. The LM head is the largest layer, so it runs only for these rows.
enum class WantLogits { kNone, kLast, kAll };

// The next tokens of one sequence: tokens[i] has position entry->length() + i.
struct SequenceChunk {
  KvCacheEntry* entry = nullptr;
  TokenSpan tokens;
  WantLogits want = WantLogits::kLast;
  // If set, the wanted rows get hidden states instead of logits, which are written to this address: [wanted rows,
  // dim()]. A hidden state is x after the final norm, the input of the LM head.
  float* hidden = nullptr;
};

// Logits of the wanted rows, in batch order. The buffer is reused by later passes.
class Logits {
 public:
  size_t n_rows() const { return n_rows_; }
  size_t vocab_size() const { return vocab_size_; }
  std::span<const float> row(size_t i) const { return {data() + i * stride_, vocab_size_}; }

  // For implementations: returns a buffer for n_rows rows of `stride` floats, 64-byte aligned.
  // REQUIRES: stride is a multiple of 16 and at least vocab_size.
  float* resize(size_t n_rows, size_t vocab_size, size_t stride) {
    n_rows_ = n_rows;
    vocab_size_ = vocab_size;
    stride_ = stride;
    const size_t lines = n_rows * stride / kLineFloats;
    if (lines_.size() < lines) lines_.resize(lines);
    return lines_.empty() ? nullptr : lines_.front().values;
  }

  // Copies rows [first, first + n) of `from`, replacing the content.
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
  // Maximum positions of a sequence: the configured context. It exceeds the trained context only if the user set it so.
  virtual size_t max_seq_len() const = 0;
  // Maximum rows of one forward(), over all sequences of the batch.
  virtual size_t max_chunk() const = 0;
  virtual const KvLayout& kv_layout() const = 0;
  // Width of a hidden state; 0: hidden states are not supported, and no chunk may request them.
  virtual size_t dim() const { return 0; }

  // Runs the model on every chunk, appends the new keys and values to the chunk's entry, and writes the wanted logits
  // to `logits` and hidden states to SequenceChunk::hidden. The result for a row depends only on its own sequence. On
  // any error or cancellation no entry has changed, and the contents of `hidden` are unspecified. Checks for
  // cancellation once per layer.
  // Errors: kInvalidArgument (token out of range, empty chunk, more than max_chunk rows), kContextFull (with both
  // numbers), kOutOfMemory, kCancelled, kNonFinite.
  virtual Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) = 0;

  // Calls work(i), which must not throw, for each i < n, in parallel if the model has threads. Not re-entrant, and not
  // concurrent with forward().
  virtual void for_each(size_t n, const std::function<void(size_t)>& work) {
    for (size_t i = 0; i < n; ++i) work(i);
  }
};

}  // namespace ibid
