// FakeModel: a LanguageModel without weights. Its keys are the tokens, and its logits are a hash of all tokens that it
// reads back from the cache, so wrong, missing or stale keys change the logits. States of recurrent layers are hashes
// of all tokens too, and the model checks the state at the start of every pass. With a window, it checks that the
// positions that a pass reads are present and leased. It records every token of its input, and fails or cancels on
// demand in any layer of any pass.
//
// Its output can be scripted, so that a test knows conversations in advance.
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
    bool recurrent = false;  // two additional layers with a state
    size_t window = 0;       // number of positions that are visible in all layers except the first; 0: all
  };
  struct Fed {
    size_t position;  // position of the first token
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

  // fed() returns every committed chunk, in order; take_fed() returns the tokens of all sequences since its last call.
  const std::vector<Fed>& fed() const { return fed_; }
  Tokens take_fed();
  size_t n_calls() const { return n_calls_; }  // including failed ones

  // Returns the next token after a prefix, which gets by far the largest logit. nullopt: the hash decides.
  std::function<std::optional<TokenId>(TokenSpan prefix)> script;
  // Called before each layer of each pass (`call` counts from 0). forward() returns its error.
  std::function<Status(size_t call, size_t layer)> before_layer;
  // Called with the logits of each row, which it may change.
  std::function<void(TokenSpan prefix, std::span<float> row)> change_logits;

  // Keys and values of all layers as floats, [length][n_layers][2 * head_dim], for comparing two entries. For layers
  // with a window: only the positions that the next token may read.
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

// Returns a script: the kth answer of any conversation in ChatML is replies[k], then <|im_end|>.
std::function<std::optional<TokenId>(TokenSpan)> chat_script(const FakeTokenizer& tokenizer,
                                                             std::vector<Tokens> replies);

}  // namespace ibid
