// TransformerModel: the decoder-only transformer, one class for every architecture that is a row of
// model/architecture/architectures.cc. transformer.cc is the page to check against a paper.
//
// It has immutable weights, one set of scratch buffers and one thread team, of which the caller of forward() is the
// first thread. So forward() is not re-entrant.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "base/parallel.h"
#include "kernels/attention/attention.h"
#include "kernels/linear/linear.h"
#include "kernels/rope.h"
#include "model/architecture/config.h"
#include "model/forward/activations.h"
#include "model/language_model.h"
#include "model/model_options.h"
#include "model/weights/transformer_weights.h"

namespace ibid {

class TransformerModel final : public LanguageModel {
 public:
  // Errors: those of TransformerWeights::load() and ThreadTeam::create(); kOutOfMemory; kInvalidArgument (instruction
  // set).
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options);

  size_t vocab_size() const override { return config_.vocab_size; }
  size_t max_seq_len() const override { return max_seq_len_; }
  size_t max_chunk() const override { return max_chunk_; }
  const KvLayout& kv_layout() const override { return kv_layout_; }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override;
  void for_each(size_t n, const std::function<void(size_t)>& work) override;

  // For tests and for measuring. The observer is called on one worker before every layer of a pass, ahead of the
  // check for cancellation. It must not touch the model. An empty function removes it.
  void set_layer_observer(std::function<void(size_t layer)> observer) { observer_ = std::move(observer); }

  // Blocks of 256 positions that passes need not read again in a layer without a window, because another sequence of
  // the same pass begins with the same pages; the sum since construction. For tests and for measuring.
  size_t blocks_shared() const { return blocks_shared_; }

  const ModelConfig& config() const { return config_; }
  const TransformerWeights& weights() const { return weights_; }

 private:
  static constexpr size_t kNoLayer = static_cast<size_t>(-1);

  // What one pass works on: row i of every buffer in acts_ is token i of the batch, sequence by sequence.
  struct Pass {
    std::span<const SequenceChunk> batch;
    std::vector<AttentionSequence> sequences;  // [batch] those that share pages are neighbours
    std::vector<AttentionSequence> chunks;     // of chunked layers
    std::vector<TokenId> tokens;               // [T]
    std::vector<size_t> positions;             // [T]
    std::vector<float> query_scales;           // [T] where positions scale queries
    std::vector<size_t> logit_rows;            // rows that want logits
    LinearInput gated;                         // of acts_, with as many rows as the pass
    float* logits = nullptr;                   // [logit_rows, logits_stride]
    size_t logits_stride = 0;
    std::stop_token stop;
    std::atomic<bool> cancelled{false};
    std::atomic<size_t> lost_router{kNoLayer};  // the first layer whose router gave something that is not a number
    std::atomic<size_t> lost_layer{kNoLayer};   // the first behind which a row of x has such a number
    size_t n_rows() const { return tokens.size(); }
  };

  TransformerModel(ModelConfig config, const ModelOptions& options, std::unique_ptr<ThreadTeam> team);

  Status check(std::span<const SequenceChunk> batch) const;
  void lay_out(std::span<const SequenceChunk> batch, Logits& logits, Pass& pass);
  void cut_into_chunks(Pass& pass) const;
  float query_scale(size_t position) const;
  static Status check_finite(const Logits& logits);

  // One worker's part of a pass, or of the last step on fewer rows.
  struct Part {
    Part(const Worker& w, Pass& of, const Activations& acts) : Part(w, of, acts, of.n_rows()) {}
    Part(const Worker& w, Pass& of, const Activations& acts, size_t n_rows);

    const Worker& worker;
    Pass& pass;
    bool alone;      // few rows: `own` is this worker's copy, and it computes all of them
    RowBuffers own;  // else everybody's, of which this worker computes its share
    Range rows;

    // A barrier between a step on rows and a step that reads all rows.
    void meet() const { if (!alone) worker.barrier(); }
  };

  // Every worker of the region runs each of these. transformer.cc says what is computed.
  void run(const Worker& worker, Pass& pass, Range layers);
  void embed(Part& p);
  void attention_block(Part& p, size_t layer);
  void project(Part& p, size_t layer);
  void mlp_block(Part& p, size_t layer);
  void mix_experts(Part& p, size_t layer);
  void finish_layer(Part& p, size_t layer);
  void lm_head(Part& p);

  // latent_attention.cc
  void project_latent(Part& p, size_t layer);
  void norm_latent(const Part& p, Rows from, WeightVector bias, WeightVector weight, LinearInput& to);
  void expand_queries(const Part& p, size_t layer);
  void turn_latent(const Part& p, size_t layer, size_t row, const float* pairs, float* turned);
  void store_expanded(const Part& p, size_t layer);
  void turn_key(const Part& p, size_t layer, size_t row, WeightVector bias, float* turned);
  void drop_padding(const Part& p);

  // altup.cc
  void spread_streams(Part& p);
  void predict_streams(Part& p, size_t layer);
  void correct_streams(Part& p, size_t layer);
  void gather_streams(Part& p);
  void route_streams(const Part& p, const AltUpWeights& w, const float* x, float* coefficients) const;
  float* scratch_row(const Part& p, size_t i) const;

  // laurel.cc
  void project_laurel(Part& p, size_t layer);
  void add_laurel(Part& p, size_t layer);

  // layer_inputs.cc
  void make_layer_inputs(Part& p);
  void add_layer_input(Part& p, size_t layer);

  // experts_beside.cc
  void mix_experts_beside(Part& p, size_t layer);

  // transformer_rows.cc: who computes which rows, heads and columns.
  void norm(Part& p, WeightVector weight, WeightVector bias);
  void norm_row(const float* x, WeightVector weight, WeightVector bias, size_t n, float* y) const;
  void quantize(const Part& p, LinearInput& input);
  void norm_whole(const Part& p, Rows rows, WeightVector bias, WeightVector weight);
  void rotate_queries(const Part& p, size_t layer);
  void store_keys_and_values(const Part& p, size_t layer);
  void rotate_head(const Part& p, Rows rows, WeightVector bias, WeightVector norm, size_t layer, size_t row,
                   size_t head);
  void gate_attended(const Part& p, size_t layer);
  void cut_gates(const Part& p, size_t layer);
  void gate(const Part& p, size_t layer, LinearInput& gated, Range panels);
  void activate_and_multiply(const Activation& f, const float* gate, const float* up, size_t n, float* y) const;
  void add_bias(WeightVector bias, size_t first, size_t n, float* x) const;
  void add_residual(const Part& p, Rows from, WeightVector bias, WeightVector post_norm);
  void scale_rows(const Part& p, float factor);
  void finish_logits(const Part& p);
  void look_for_stop(const Part& p, size_t layer);
  static void note_lost_router(const Part& p, size_t layer);
  void look_for_lost_rows(const Part& p, size_t layer) const;

  ModelConfig config_;
  Numerics numerics_;
  size_t max_seq_len_ = 0;
  size_t max_chunk_ = 0;
  KvLayout kv_layout_;
  std::unique_ptr<ThreadTeam> team_;
  const Kernels* kernels_ = nullptr;
  std::vector<RopeTable> ropes_;
  TransformerWeights weights_;
  Activations acts_;
  LinearContext linear_;
  std::function<void(size_t)> observer_;
  size_t blocks_shared_ = 0;
};

}  // namespace ibid
