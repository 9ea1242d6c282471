// Pass: one forward pass: which rows it has, where it counts what went wrong, and the model that its steps read.
// PassPart: one worker's part of a pass, which every step gets.
//
// A pass lives as long as one call of TransformerModel::forward(). It owns its lists; weights, scratch and the caches
// of its sequences belong to others and outlive it.
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

// What the steps of all passes read. Only the buffers of `acts` change.
struct PassModel {
  const ModelConfig& config;
  const TransformerWeights& weights;
  const Kernels& kernels;
  const LinearContext& linear;
  const KvLayout& kv_layout;
  std::span<const RopeTable> ropes;
  Activations& acts;
};

// Row i of every buffer of the model's scratch is token i of the batch, sequence by sequence.
struct Pass {
  static constexpr size_t kNoLayer = static_cast<size_t>(-1);

  // Lays out the rows of a batch and the place of its logits. REQUIRES: the batch was checked
  // (TransformerModel::forward), and its entries have room for their tokens.
  Pass(const PassModel& of, std::span<const SequenceChunk> sequences_of, Logits& wanted);

  const PassModel& model;
  std::span<const SequenceChunk> batch;
  std::vector<AttentionSequence> sequences;  // [batch] those that share pages are neighbours
  std::vector<AttentionSequence> windows;    // the same for layers whose rows are in the pages' second part
  std::vector<AttentionSequence> chunks;     // of chunked layers
  std::vector<TokenId> tokens;               // [T]
  std::vector<size_t> positions;             // [T]
  std::vector<float> query_scales;           // [T] where positions scale queries
  std::vector<size_t> logit_rows;            // rows that want logits
  struct HiddenRow {
    size_t row;
    float* to;                               // [D] of the chunk
  };
  std::vector<HiddenRow> hidden_rows;        // rows that want their hidden state
  LinearInput gated;                         // of the scratch, with as many rows as the pass
  Rows logits;                               // [logit_rows, V padded]; no data: no row wants any
  std::stop_token stop;
  std::function<void(size_t layer)> observer;  // called on one worker before every layer, if there is one

  // The layer in which the pass ends because it was cancelled. A layer and not a flag: one worker may have begun the
  // next layer, and found there that the pass is cancelled, before another one looks at the end of this layer's first
  // half.
  std::atomic<size_t> stopped_layer{kNoLayer};
  std::atomic<size_t> lost_router{kNoLayer};  // the first layer whose router gave something that is not a number
  std::atomic<size_t> lost_layer{kNoLayer};   // the first behind which a row of x has such a number

  size_t n_rows() const { return tokens.size(); }
  // Where the rows are that a layer attends over.
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

// Steps on rows compute `rows`. In a pass of few rows every worker computes all of them in buffers of its own, because
// that costs less than a barrier; else all workers have the same buffers, and each computes its share.
struct PassPart {
  // n_rows: those of the pass, or fewer in its last steps.
  PassPart(const Worker& w, Pass& of, size_t n_rows);

  const Worker& worker;
  Pass& pass;
  const PassModel& model;
  bool computes_all;
  RowBuffers buffers;
  Range rows;

  // Between a step on rows and a step that reads all rows.
  void barrier_if_shared() const {
    if (!computes_all) worker.barrier();
  }
};

// --- forward_pass.cc, the page to check against a paper.

// Computes these layers, on one of the workers of a parallel region; every worker calls it. The first layers begin
// with the embeddings, the last end with the logits.
void run_layers(const Worker& worker, Pass& pass, Range layers);

// block_out = Wo attend(q, k, v) of a layer, by these weights; q, k and v are complete.
void attend(PassPart& p, size_t layer, const LayerWeights& w);

}  // namespace ibid::forward
