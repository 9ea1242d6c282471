// Everything of TransformerModel that is not the forward pass: construction, and the checks and the layout
// of a pass before its first row is computed.
#include "model/forward/transformer.h"

#include <algorithm>
#include <bit>

#include "base/portable_math.h"
#include "kernels/dispatch.h"
#include "model/forward/attention_shape.h"
#include "weights/model_file.h"

namespace ibid {

TransformerModel::TransformerModel(ModelConfig config, const ModelOptions& options, std::unique_ptr<ThreadTeam> team)
    : config_(std::move(config)),
      numerics_(options.numerics),
      max_seq_len_(options.max_seq_len == 0 ? config_.trained_context : options.max_seq_len),
      max_chunk_(std::min(options.max_chunk, max_seq_len_)),
      kv_layout_(kv_layout_of(config_, options.kv_dtype)),
      team_(std::move(team)) {
  for (const RopeRule& rule : config_.ropes) ropes_.push_back(make_rope_table(rule, max_seq_len_));
}

Result<std::unique_ptr<TransformerModel>> TransformerModel::create(const ModelFile& file, ModelConfig config,
                                                                   const ModelOptions& options) {
  TRY_ASSIGN(const Isa isa, options.isa ? Result<Isa>(*options.isa) : active_isa());
  TRY_ASSIGN(std::unique_ptr<ThreadTeam> team, ThreadTeam::create(options.n_threads, WhenCrowded::kGiveWay));
  std::unique_ptr<TransformerModel> model(new TransformerModel(std::move(config), options, std::move(team)));
  const bool reference = options.numerics == Numerics::kReference;
  model->kernels_ = reference ? &reference_kernels() : &kernels_for(isa);

  TRY_ASSIGN(const TransformerWeights::Plan plan,
             TransformerWeights::plan(file, model->config_, options.numerics));
  TRY_ASSIGN(model->weights_, TransformerWeights::load(file, model->config_, options.numerics, *model->team_));
  TRY_ASSIGN(model->acts_, Activations::create(model->config_, model->max_chunk_, model->max_seq_len_,
                                               plan.quantized, model->team_->size()));
  model->linear_ = {model->kernels_, options.numerics, model->acts_.linear_scratch,
                    model->acts_.linear_scratch_stride};
  return model;
}

void TransformerModel::for_each(size_t n, const std::function<void(size_t)>& work) {
  team_->run([&](const Worker& worker) {
    const Range own = worker.share(n);
    for (size_t i = own.begin; i < own.end; ++i) work(i);
  });
}

TransformerModel::Part::Part(const Worker& w, Pass& of, const Activations& acts, size_t n_rows)
    : worker(w),
      pass(of),
      alone(n_rows <= Activations::kOwnRows),
      own(alone ? acts.own[static_cast<size_t>(w.index())] : acts.shared),
      rows(alone ? Range{0, n_rows} : w.share(n_rows)) {
  own.h.set_rows(n_rows);
  own.attended.set_rows(n_rows);
  own.q_latent.set_rows(n_rows);
  own.kv_latent.set_rows(n_rows);
  own.laurel.set_rows(n_rows);
  own.layer_gated.set_rows(n_rows);
  own.router_h.set_rows(n_rows);
}

Status TransformerModel::check(std::span<const SequenceChunk> batch) const {
  size_t n_rows = 0;
  for (const SequenceChunk& chunk : batch) {
    if (chunk.tokens.empty()) return {ErrorCode::kInvalidArgument, "a chunk without tokens"};
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
    return {ErrorCode::kInvalidArgument, "a pass of " + std::to_string(n_rows) + " rows, wanted 1.." +
                                             std::to_string(max_chunk_)};
  }
  return {};
}

float TransformerModel::query_scale(size_t position) const {
  const size_t steps = (position + config_.query_growth_shift) / config_.query_growth_step;
  return static_cast<float>(1.0 + config_.query_growth * portable_log(1.0 + static_cast<double>(steps)));
}

void TransformerModel::lay_out(std::span<const SequenceChunk> batch, Logits& logits, Pass& pass) {
  pass.batch = batch;
  for (const SequenceChunk& chunk : batch) {
    const size_t first_row = pass.n_rows();
    const size_t first_position = chunk.entry->length();
    const size_t n = chunk.tokens.size();
    pass.sequences.push_back({chunk.entry->page_data(), first_row, n, first_position});
    for (size_t i = 0; i < n; ++i) {
      pass.tokens.push_back(chunk.tokens[i]);
      pass.positions.push_back(first_position + i);
      if (config_.query_growth != 0) pass.query_scales.push_back(query_scale(first_position + i));
      const bool wanted = chunk.want == WantLogits::kAll || (chunk.want == WantLogits::kLast && i + 1 == n);
      if (wanted) pass.logit_rows.push_back(first_row + i);
    }
  }
  share_blocks(pass.sequences);
  for (const AttentionSequence& sequence : pass.sequences) blocks_shared_ += sequence.shared_blocks;
  if (config_.attention_chunk != 0) cut_into_chunks(pass);
  pass.gated = acts_.gated;
  pass.gated.set_rows(pass.n_rows());
  pass.logits_stride = weights_.lm_head.n_panels() * kPanelRows;
  pass.logits = logits.resize(pass.logit_rows.size(), config_.vocab_size, pass.logits_stride);
  if (pass.logit_rows.empty()) pass.logits = nullptr;
}

// The rows of each sequence by the chunk that they are in, as sequences of their own that begin with its first page.
void TransformerModel::cut_into_chunks(Pass& pass) const {
  const size_t size = config_.attention_chunk;
  for (const AttentionSequence& whole : pass.sequences) {
    for (size_t done = 0; done < whole.n_rows;) {
      const size_t position = whole.first_position + done, begin = position / size * size;
      const size_t n = std::min(whole.n_rows - done, begin + size - position);
      pass.chunks.push_back({whole.pages + begin / kPagePositions, whole.first_row + done, n, position - begin});
      done += n;
    }
  }
  share_blocks(pass.chunks);
}

// A model whose numbers have left the finite ones must not be sampled from: the pass fails as a whole.
Status TransformerModel::check_finite(const Logits& logits) {
  for (size_t i = 0; i < logits.n_rows(); ++i) {
    uint32_t largest = 0;  // of the magnitudes' bits: above every finite float for infinities and NaN
    for (const float value : logits.row(i)) {
      largest = std::max(largest, std::bit_cast<uint32_t>(value) & 0x7fffffffu);
    }
    if (largest >= 0x7f800000u) return {ErrorCode::kNonFinite, "the model computed a logit that is not finite"};
  }
  return {};
}

}  // namespace ibid
