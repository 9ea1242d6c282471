// TransformerModel: the decoder-only transformer, one class for every architecture that is a row of
// model/architectures.cc. transformer.cc is the page to check against a paper.
//
// Immutable weights, one set of scratch buffers, one thread team: forward() is not re-entrant.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention.h"
#include "kernels/linear.h"
#include "kernels/rope.h"
#include "model/activations.h"
#include "model/config.h"
#include "model/language_model.h"
#include "model/model_options.h"
#include "model/transformer_weights.h"

namespace ibid {

class TransformerModel final : public LanguageModel {
 public:
  // Errors: those of TransformerWeights::load(); kOutOfMemory; kInvalidArgument (instruction set).
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options);

  size_t vocab_size() const override { return config_.vocab_size; }
  size_t max_seq_len() const override { return max_seq_len_; }
  size_t max_chunk() const override { return max_chunk_; }
  const KvLayout& kv_layout() const override { return kv_layout_; }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override;

  // Called on one worker before every layer of a pass, ahead of the check for cancellation: for tests and for
  // measuring. It must not touch the model. An empty function takes it away.
  void set_layer_observer(std::function<void(size_t layer)> observer) { observer_ = std::move(observer); }

  const ModelConfig& config() const { return config_; }
  const TransformerWeights& weights() const { return weights_; }

 private:
  // What one pass works on: row i of every buffer in acts_ is token i of the batch, sequence by sequence.
  struct Pass {
    std::span<const SequenceChunk> batch;
    std::vector<AttentionSequence> sequences;  // [batch] rows and positions of each
    std::vector<TokenId> tokens;               // [T]
    std::vector<size_t> positions;             // [T]
    std::vector<size_t> logit_rows;            // rows that want logits
    float* logits = nullptr;                   // [logit_rows, logits_stride]
    size_t logits_stride = 0;
    std::stop_token stop;
    std::atomic<bool> cancelled{false};
    size_t n_rows() const { return tokens.size(); }
  };

  TransformerModel(ModelConfig config, const ModelOptions& options);

  Status check(std::span<const SequenceChunk> batch) const;
  void lay_out(std::span<const SequenceChunk> batch, Logits& logits, Pass& pass);
  static Status check_finite(const Logits& logits);

  // Each of these is run by every worker of the region.
  void run(const Worker& worker, Pass& pass);
  void embed(const Worker& worker, Pass& pass);
  void attention_block(const Worker& worker, size_t layer, Pass& pass);
  void mlp_block(const Worker& worker, size_t layer, Pass& pass);
  void lm_head(const Worker& worker, Pass& pass);

  void norm(const Worker& worker, const Pass& pass, WeightVector weight);
  void quantize(const Worker& worker, LinearInput& input);
  void bias_and_rope(const Worker& worker, const Pass& pass, size_t n_heads, WeightVector bias, Rows rows);
  void add_bias(const Worker& worker, const Pass& pass, WeightVector bias, Rows rows);
  void add_residual(const Worker& worker, const Pass& pass, WeightVector bias);
  bool stopped(const Worker& worker, size_t layer, Pass& pass) const;

  ModelConfig config_;
  Numerics numerics_;
  size_t max_seq_len_ = 0;
  size_t max_chunk_ = 0;
  KvLayout kv_layout_;
  ThreadTeam team_;
  const Kernels* kernels_ = nullptr;
  RopeTable rope_;
  TransformerWeights weights_;
  Activations acts_;
  LinearContext linear_;
  std::function<void(size_t)> observer_;
};

}  // namespace ibid
