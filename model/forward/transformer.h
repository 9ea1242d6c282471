// TransformerModel: the decoder-only transformer, one class for every architecture that is a row of
// model/architectures/architectures.cc. It loads the model, checks what is asked of it and leads passes;
// forward_pass.cc computes them.
//
// It has immutable weights, one set of scratch buffers and one thread team, of which the caller of forward() is the
// first thread. So forward() is not re-entrant.
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
  // layout: that of plan_memory(). Errors: those of load_weights() and ThreadTeam::create(); kOutOfMemory;
  // kInvalidArgument (instruction set).
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options, KvLayout layout);
  // With the layout that plan_memory() would give.
  static Result<std::unique_ptr<TransformerModel>> create(const ModelFile& file, ModelConfig config,
                                                          const ModelOptions& options);

  size_t vocab_size() const override { return config_.vocab_size; }
  size_t max_seq_len() const override { return max_seq_len_; }
  size_t max_chunk() const override { return max_chunk_; }
  const KvLayout& kv_layout() const override { return kv_layout_; }
  size_t dim() const override { return config_.dim; }
  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override;
  void for_each(size_t n, const std::function<void(size_t)>& work) override;

  // Called on one worker before every layer of a pass, ahead of the check for cancellation; must not touch the model.
  // Nothing else can stop a pass at a chosen layer, and so show that it then has changed no entry. Empty: none.
  void set_layer_observer(std::function<void(size_t layer)> observer) { observer_ = std::move(observer); }

  // Blocks of 256 positions that passes need not read again in a layer without a window, because another sequence of
  // the same pass begins with the same pages. A counter of work saved, since construction.
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
  std::optional<forward::PassModel> pass_model_;  // the fields above, as the steps of a pass see them
  std::function<void(size_t)> observer_;
  size_t blocks_shared_ = 0;
};

}  // namespace ibid
