// Pass: the rows, failures and model of one forward pass.
// PassPart: one worker's part of a pass, the argument of every step.
//
// A pass lives for one call of TransformerModel::forward(). It owns its lists. It does not own the weights, the scratch
// buffers and the KV entries of its sequences, which outlive it.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/parallel.h"
#include "kernels/kernels.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/rope.h"
#include "model/config/config.h"
#include "model/forward/activations.h"
#include "model/forward/language_model.h"
#include "model/tensors/transformer_weights.h"

namespace ibid::forward {

// Shared by all passes of a model. Only the contents of `acts` change.
struct PassModel {
  const ModelConfig& config;
  const TransformerWeights& weights;
  const Kernels& kernels;
  const LinearContext& linear;
  const KvLayout& kv_layout;
  std::span<const RopeTable> ropes;
  Activations& acts;
};

// Row i of every scratch buffer is token i of the batch, sequence by sequence.
struct Pass {
  static constexpr size_t kNoLayer = static_cast<size_t>(-1);

  // Assigns rows of the pass to the sequences of the batch, and allocates the wanted logits. REQUIRES:
  // TransformerModel::forward() has checked the batch, and reserved memory in its entries.
  Pass(const PassModel& of, std::span<const SequenceChunk> sequences_of, Logits& wanted);

  const PassModel& model;
  std::span<const SequenceChunk> batch;
  std::vector<AttentionSequence> sequences;  // [batch] sequences that share pages are adjacent
  std::vector<AttentionSequence> windows;    // the same sequences, for layers with a sliding window
  std::vector<AttentionSequence> chunks;     // the sequences cut at chunk borders, for chunked layers
  std::vector<TokenId> tokens;               // [T]
  std::vector<size_t> positions;             // [T]
  std::vector<float> query_scales;           // [T] empty if queries are not scaled by position
  std::vector<size_t> logit_rows;            // indices of the rows that want logits
  struct HiddenRow {
    size_t row;
    float* to;  // [D] destination in SequenceChunk::hidden
  };
  std::vector<HiddenRow> hidden_rows;  // rows that want their hidden state
  LinearInput gated;                   // scratch buffer, limited to the rows of the pass
  Rows logits;                         // [logit_rows, V padded]; data is nullptr if no row wants logits
  std::stop_token stop;
  std::function<void(size_t layer)> observer;  // if set, one worker calls it before every layer

  // The layer in which the pass stops because it was cancelled. A flag would not suffice: one worker may already be in
  // the next layer and set the flag there, before another worker has checked the flag in this layer.
  std::atomic<size_t> stopped_layer{kNoLayer};
  std::atomic<size_t> nonfinite_router_layer{kNoLayer};  // first layer whose router logits are not finite
  std::atomic<size_t> nonfinite_layer{kNoLayer};         // first layer after which a row of x is not finite

  size_t n_rows() const { return tokens.size(); }
  // KV pages that attention of a layer reads.
  std::span<const AttentionSequence> sequences_of(size_t layer) const {
    const LayerConfig& config = model.config.layers[layer];
    if (config.chunked) return chunks;
    return model.kv_layout.layer(config.kv_layer).part == PagePart::kWindow ? windows : sequences;
  }

 private:
  void add(const SequenceChunk& chunk);
  void find_windows();
  void cut_into_chunks();
};

// One worker's part of a pass. Row steps compute `rows`. In a small pass every worker computes all rows in its own
// buffers, which costs less than a barrier; in other passes all workers share the buffers, each for its share of rows.
struct PassPart {
  // n_rows: number of rows that the steps compute: all of the pass, or in its last steps those that want logits.
  PassPart(const Worker& w, Pass& of, size_t n_rows);

  const Worker& worker;
  Pass& pass;
  const PassModel& model;
  bool computes_all;
  RowBuffers buffers;
  Range rows;

  // Call between a row step and a step that reads the rows of all workers.
  void barrier_if_shared() const {
    if (!computes_all) worker.barrier();
  }
};

// --- forward_pass.cc, which follows the papers' formulas.

// Computes the given layers as one worker of a parallel region; every worker calls it. Layer 0 begins with the
// embeddings, and the last layer ends with the logits.
void run_layers(const Worker& worker, Pass& pass, Range layers);

// q = rope(norm(q + bq))
void rotate_queries(const PassPart& p, size_t layer);
// k = rope(norm(k + bk)) and v = norm(v + bv), which become rows of the cache.
void store_keys_and_values(const PassPart& p, size_t layer);
// block_out = Wo attend(q, k, v) of a layer with the weights w. REQUIRES: q, k and v are complete.
void attend(PassPart& p, size_t layer, const LayerWeights& w);

}  // namespace ibid::forward
