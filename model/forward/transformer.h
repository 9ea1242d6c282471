// TransformerModel: the decoder-only transformer, one class for all architectures in
// model/architectures/architectures.cc. Loads the model, checks batches and runs passes (forward_pass.cc).
//
// Owns immutable weights, one set of scratch buffers and one thread team. The caller of forward() is the team's first
// thread, so forward() is not re-entrant.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "model/forward/pass.h"

namespace ibid {

class TransformerModel final : public LanguageModel {
 public:
  // Loads the model. layout: the layout of the KV cache, from plan_memory(). Errors: those of load_weights() and
  // ThreadTeam::create(); kOutOfMemory; kInvalidArgument (instruction set).
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options, KvLayout layout);
  // Computes the layout by plan_memory(), and creates the model with it.
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options);

  size_t vocab_size() const override { return config_.vocab_size; }
  size_t max_seq_len() const override { return max_seq_len_; }
  size_t max_chunk() const override { return max_chunk_; }
  const KvLayout& kv_layout() const override { return kv_layout_; }
  size_t dim() const override { return config_.dim; }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override;
  void for_each(size_t n, const std::function<void(size_t)>& work) override;

  // The observer is called on one worker before every layer of a pass, before the check for cancellation, and must not
  // use the model. It lets tests stop a pass at a chosen layer to verify that no entry has changed. Empty: no observer.
  void set_layer_observer(std::function<void(size_t layer)> observer) { observer_ = std::move(observer); }

  // Number of attention blocks (256 positions) that passes read once for several sequences that begin with the same
  // pages, instead of once for each. Counts layers without a window, since construction.
  size_t blocks_shared() const { return blocks_shared_; }

  const ModelConfig& config() const { return config_; }
  const TransformerWeights& weights() const { return weights_; }

 private:
  TransformerModel(ModelConfig config, const ModelOptions& options, KvLayout layout, std::unique_ptr<ThreadTeam> team);

  Status check(std::span<const SequenceChunk> batch) const;
  static Status failure_of(const forward::Pass& pass);

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
  std::optional<forward::PassModel> pass_model_;  // references to the model's fields, for the steps of a pass
  std::function<void(size_t)> observer_;
  size_t blocks_shared_ = 0;
};

}  // namespace ibid
