#include "model/forward/transformer.h"

#include <algorithm>
#include <bit>

#include "kernels/ops/dispatch.h"
#include "model/forward/pass.h"
#include "model/weights/kv_precision.h"
#include "model/weights/load_weights.h"
#include "weights/model_file.h"

namespace ibid {

TransformerModel::TransformerModel(ModelConfig config, const ModelOptions& options, KvLayout layout,
                                   std::unique_ptr<ThreadTeam> team)
    : config_(std::move(config)),
      numerics_(options.numerics),
      max_seq_len_(options.max_seq_len == 0 ? config_.trained_context : options.max_seq_len),
      max_chunk_(std::min(options.max_chunk, max_seq_len_)),
      kv_layout_(std::move(layout)),
      team_(std::move(team)) {
  for (const RopeRule& rule : config_.ropes) ropes_.push_back(make_rope_table(rule, max_seq_len_));
}

Result<std::unique_ptr<TransformerModel>> TransformerModel::create(const ModelFile& file, ModelConfig config,
                                                                   const ModelOptions& options) {
  TRY_ASSIGN(KvLayout layout, kv_layout_of(file, config, options));
  return create(file, std::move(config), options, std::move(layout));
}

Result<std::unique_ptr<TransformerModel>> TransformerModel::create(const ModelFile& file, ModelConfig config,
                                                                   const ModelOptions& options, KvLayout layout) {
  TRY_ASSIGN(const Isa isa, options.isa ? Result<Isa>(*options.isa) : active_isa());
  TRY_ASSIGN(std::unique_ptr<ThreadTeam> team,
             ThreadTeam::create(options.n_threads, OversubscriptionPolicy::kSkipLateThreads));
  std::unique_ptr<TransformerModel> model(
      new TransformerModel(std::move(config), options, std::move(layout), std::move(team)));
  const bool reference = options.numerics == Numerics::kReference;
  model->kernels_ = reference ? &reference_kernels() : &kernels_for(isa);

  TRY_ASSIGN(const WeightPlan plan, plan_weights(file, model->config_, options.numerics));
  TRY_ASSIGN(model->weights_, load_weights(file, model->config_, options.numerics, *model->team_));
  TRY_ASSIGN(model->acts_, Activations::create(model->config_, model->max_chunk_, model->max_seq_len_, plan.quantized,
                                               model->team_->size()));
  model->linear_ = {model->kernels_, options.numerics, model->acts_.linear_scratch, model->acts_.linear_scratch_stride};
  model->pass_model_.emplace(forward::PassModel{model->config_, model->weights_, *model->kernels_, model->linear_,
                                                model->kv_layout_, model->ropes_, model->acts_});
  return model;
}

void TransformerModel::for_each(size_t n, const std::function<void(size_t)>& work) {
  team_->run([&](const Worker& worker) {
    const Range own = worker.share(n);
    for (size_t i = own.begin; i < own.end; ++i) work(i);
  });
}

Status TransformerModel::check(std::span<const SequenceChunk> batch) const {
  size_t n_rows = 0;
  for (const SequenceChunk& chunk : batch) {
    if (chunk.tokens.empty()) return {ErrorCode::kInvalidArgument, "the chunk has no tokens"};
    n_rows += chunk.tokens.size();
    for (const TokenId token : chunk.tokens) {
      if (token < 0 || static_cast<size_t>(token) >= config_.vocab_size) {
        return {ErrorCode::kInvalidArgument, "token id " + std::to_string(token) + " is outside the vocabulary of " +
                                                 std::to_string(config_.vocab_size)};
      }
    }
    const size_t length = chunk.entry->length() + chunk.tokens.size();
    if (length > max_seq_len_) {
      return {ErrorCode::kContextFull, "the sequence would have " + std::to_string(length) +
                                           " positions, the context has " + std::to_string(max_seq_len_)};
    }
  }
  if (n_rows == 0 || n_rows > max_chunk_) {
    return {ErrorCode::kInvalidArgument,
            "the pass has " + std::to_string(n_rows) + " rows, allowed: 1 to " + std::to_string(max_chunk_)};
  }
  return {};
}

namespace {

bool is_finite(std::span<const float> row) {
  uint32_t largest = 0;  // maximum of the magnitudes' bits: infinity and NaN are above all finite floats
  for (const float value : row) largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
  return largest < 0x7f800000u;
}

// The whole pass fails if a logit is not finite, because no token must be sampled from such logits.
Status check_finite(const Logits& logits, const forward::Pass& pass) {
  for (size_t i = 0; i < logits.n_rows(); ++i) {
    if (!is_finite(logits.row(i))) return {ErrorCode::kNonFinite, "the model computed a logit that is not finite"};
  }
  for (const forward::Pass::HiddenRow& hidden : pass.hidden_rows) {
    if (is_finite({hidden.to, pass.model.config.dim})) continue;
    return {ErrorCode::kNonFinite, "the model computed a hidden state that is not finite"};
  }
  return {};
}

}  // namespace

Status TransformerModel::failure_of(const forward::Pass& pass) {
  if (pass.stopped_layer != forward::Pass::kNoLayer) return {ErrorCode::kCancelled, "the pass was cancelled"};
  if (pass.nonfinite_router_layer != forward::Pass::kNoLayer) {
    return {ErrorCode::kNonFinite,
            "router logits of layer " + std::to_string(pass.nonfinite_router_layer) + " are not finite"};
  }
  if (pass.nonfinite_layer != forward::Pass::kNoLayer) {
    return {ErrorCode::kNonFinite,
            "layer " + std::to_string(pass.nonfinite_layer) + " computed a number that is not finite"};
  }
  return {};
}

Status TransformerModel::forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) {
  TRY(check(batch));
  for (const SequenceChunk& chunk : batch) TRY(chunk.entry->reserve(chunk.tokens.size()));

  forward::Pass pass(*pass_model_, batch, logits);
  pass.stop = std::move(stop);
  pass.observer = observer_;
  for (const AttentionSequence& sequence : pass.sequences) blocks_shared_ += sequence.shared_blocks;
  // In a small pass, rows stay in the workers' own buffers from the first to the last layer. In a large pass, each
  // layer is long enough for a parallel region of its own; so a region can leave out a thread that lost its core
  // (base/parallel.h).
  const size_t step = pass.n_rows() <= Activations::kOwnRows ? config_.n_layers : 1;
  for (size_t layer = 0; layer < config_.n_layers && pass.stopped_layer == forward::Pass::kNoLayer; layer += step) {
    team_->run([&](const Worker& worker) { forward::run_layers(worker, pass, {layer, layer + step}); });
  }
  TRY(failure_of(pass));
  TRY(check_finite(logits, pass));

  for (const SequenceChunk& chunk : batch)
    chunk.entry->commit(chunk.tokens);  // a pass makes a sequence longer only here
  return {};
}

}  // namespace ibid
