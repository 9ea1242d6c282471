// FakeModel: a LanguageModel without weights. The keys it stores are the token ids, and its logits are a
// hash of all ids that it reads back from the cache: a wrong, missing or stale row changes them. With recurrent layers,
// their states are hashes of all ids, too, and it checks the state that every pass begins with; with a window, it
// checks the rows that a pass reads of it, and that they are leased. It keeps a record of every id it was fed, and fails or cancels on demand in
// any layer of any pass.
//
// What it says can be scripted, so that conversations are known in advance.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "model/forward/language_model.h"

namespace ibid {

class FakeTokenizer;

class FakeModel : public LanguageModel {
 public:
  struct Options {
    size_t vocab_size = 300;
    size_t max_seq_len = 4096;
    size_t max_chunk = 32;
    size_t n_layers = 2;
    bool recurrent = false;  // two layers with a state more
    size_t window = 0;       // positions that all layers but the first read; 0: all
  };
  struct Fed {
    size_t position;  // of the first token
    Tokens tokens;
    WantLogits want;
  };

  FakeModel() : FakeModel(Options{}) {}
  explicit FakeModel(const Options& options);

  size_t vocab_size() const override { return options_.vocab_size; }
  size_t max_seq_len() const override { return options_.max_seq_len; }
  size_t max_chunk() const override { return options_.max_chunk; }
  const KvLayout& kv_layout() const override { return layout_; }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override;

  // Every chunk that was committed, in order; ids fed since the last call of take_fed().
  const std::vector<Fed>& fed() const { return fed_; }
  Tokens take_fed();
  size_t n_calls() const { return n_calls_; }  // failed ones included

  // The next token after a prefix: it gets by far the largest logit. nullopt: the hash decides.
  std::function<std::optional<TokenId>(TokenSpan prefix)> script;
  // Asked before each layer of each pass (numbered from 0); an error is what forward() returns.
  std::function<Status(size_t call, size_t layer)> before_layer;
  // Logits of a row, to be changed.
  std::function<void(TokenSpan prefix, std::span<float> row)> change_logits;

  // The rows of all layers as floats, [length][n_layers][2 * head_dim], of a layer with a window those that the next
  // position may read: what two entries are compared by.
  static std::vector<float> rows_of(const KvCacheEntry& entry);

 private:
  Status stage(const SequenceChunk& chunk, size_t layer) const;
  void stage_states(const SequenceChunk& chunk) const;
  void finish_pass(std::span<const SequenceChunk> batch, size_t n_wanted, Logits& logits);
  uint64_t hash_rows(const KvCacheEntry& entry, size_t begin, size_t end, uint64_t hash, Tokens& prefix) const;
  void check_window(const KvCacheEntry& entry, size_t n_rows) const;
  void write_logits(const SequenceChunk& chunk, Logits& logits, float* out);

  Options options_;
  KvLayout layout_;
  std::vector<Fed> fed_;
  size_t n_taken_ = 0;
  size_t n_calls_ = 0;
};

// Replies by number: the kth answer of any conversation is replies[k], then <|im_end|>. Knows ChatML.
std::function<std::optional<TokenId>(TokenSpan)> chat_script(const FakeTokenizer& tokenizer,
                                                             std::vector<Tokens> replies);

}  // namespace ibid
