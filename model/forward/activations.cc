#include "model/forward/activations.h"

#include <algorithm>

#include "base/checked.h"
#include "kernels/ops/attention.h"
#include "model/config/attention_shape.h"

namespace ibid {

// Lays out buffers that only few models need: for recurrent layers, CommonBlocks, LAuReL, LayerInputs, AltUp.
template <typename MakeRows>
void Activations::lay_out_beside(Activations& a, MakeRows&& rows, const ModelConfig& config, size_t max_chunk,
                                 int n_threads) {
  size_t scratch = 0;  // floats per worker
  if (config.reads_whole_gates()) {
    a.gate = rows(max_chunk, config.widest(&ModelConfig::mlp_dim));
    a.up = rows(max_chunk, config.widest(&ModelConfig::mlp_dim));
  }
  if (config.recurrent.used()) lay_out_recurrent(a.recurrent, rows, config.recurrent, max_chunk, n_threads);
  if (config.common.used()) {
    a.recurrent.low = rows(max_chunk, config.common.adapter_rank);
    const size_t adapted = std::max(config.common.ffn_dim, config.widest(&ModelConfig::q_dim));
    a.adapted_gate = rows(max_chunk, adapted);
    a.adapted_up = rows(max_chunk, config.common.ffn_dim);
  }
  if (config.laurel_rank != 0) {
    a.laurel_low = rows(max_chunk, config.laurel_rank);
    a.laurel = rows(max_chunk, config.dim);
  }
  if (config.layer_inputs.used()) {
    a.layer_inputs = rows(max_chunk, config.n_layers * config.layer_inputs.dim);
    a.layer_gate = rows(max_chunk, config.layer_inputs.dim);
    scratch = config.n_layers * config.layer_inputs.dim;
  }
  if (config.altup.used()) scratch = std::max(scratch, (config.altup.n_streams + 1) * config.dim);
  if (scratch != 0) a.scratch = rows(static_cast<size_t>(n_threads), scratch);
}

template <typename MakeRows>
void Activations::lay_out_recurrent(RecurrentBuffers& b, MakeRows&& rows, const RecurrentMixer& mixer, size_t max_chunk,
                                    int n_threads) {
  const size_t numbers = std::max({mixer.logged_rates(), mixer.logged_decays(), size_t{16}});
  b.in = rows(max_chunk, mixer.row_width());
  b.conv = rows(max_chunk, mixer.row_width());
  b.z = rows(max_chunk, mixer.z_width());
  b.rates = rows(max_chunk, numbers);
  b.decays = rows(max_chunk, numbers);
  const size_t low = std::max(mixer.low_rank, mixer.scans() ? mixer.step_rank + 2 * mixer.key_dim : 0);
  if (low != 0) b.low = rows(max_chunk, low);
  b.out = rows(max_chunk, mixer.v_width());
  b.scratch = rows(static_cast<size_t>(n_threads), RecurrentBuffers::scratch_floats(mixer));
  b.unit = rows(1, mixer.key_dim).data;
}

template <typename MakeRows, typename MakeInput>
void Activations::lay_out_latent(LatentBuffers& b, MakeRows&& rows, MakeInput&& head_input, const ModelConfig& config,
                                 size_t max_chunk, int n_threads) {
  const LatentAttention& latent = config.latent;
  b.q_a = rows(max_chunk, latent.q_rank);
  b.kv_a = rows(max_chunk, latent.kv_rank + latent.rope_dim);
  b.q = rows(max_chunk, config.n_heads * latent.key_dim());
  b.values = rows(max_chunk, config.n_heads * latent.value_dim);
  for (int i = 0; i < n_threads; ++i) {
    b.head.push_back(head_input(max_chunk, latent.kv_rank));
    b.head_values.push_back(rows(max_chunk, latent.value_dim + 2 * kPanelRows));
  }
}

// Lays out row buffers for n rows. `attended`, the floats that wo reads, is one buffer for all workers.
template <typename MakeRows, typename MakeInput>
RowBuffers Activations::lay_out_rows(Rows attended, MakeRows&& rows, MakeInput&& linear_input,
                                     const ModelConfig& config, QuantizedInputs quantized, size_t n) {
  RowBuffers b;
  b.x = rows(n, config.dim);
  for (size_t r = 0; r < config.ropes.size(); ++r) b.cos_sin[r] = rows(n, config.ropes[r].rotary_dim);
  b.h = linear_input(n, rows(n, config.dim), config.dim, quantized.h);
  b.attended = linear_input(n, attended, config.widest(&ModelConfig::attended_dim), quantized.attended);
  const size_t q_rank = config.latent.q_rank, kv_rank = config.latent.kv_rank;
  if (q_rank != 0) b.q_latent = linear_input(n, rows(n, q_rank), q_rank, quantized.q_latent);
  if (kv_rank != 0) b.kv_latent = rows(n, kv_rank);
  if (config.changes_residuals()) b.added = rows(n, config.dim);
  if (config.altup.used()) b.streams = rows(n, config.altup.n_streams * config.dim);
  const size_t rank = config.laurel_rank, input_dim = config.layer_inputs.dim;
  if (rank != 0) b.laurel = linear_input(n, rows(n, rank), rank, quantized.laurel);
  if (input_dim != 0) b.layer_gated = linear_input(n, rows(n, input_dim), input_dim, quantized.layer_gated);
  if (const RecurrentMixer& mixer = config.recurrent; mixer.used()) {
    const size_t low = std::max({mixer.low_rank, mixer.step_rank, config.common.adapter_rank});
    const size_t width = mixer.v_width();
    b.mixed = linear_input(n, rows(n, width), width, quantized.mixed);
    if (low != 0) b.recurrent_low = linear_input(n, rows(n, low), low, quantized.recurrent_low);
    if (mixer.scans()) b.scan_numbers = rows(n, 2 * RecurrentMixer::padded(mixer.key_dim));
  }
  if (config.common.used()) {
    b.wide = linear_input(n, rows(n, 2 * config.dim), 2 * config.dim, quantized.h);
    b.embedded = rows(n, config.dim);
  }
  if (config.has_experts_beside_mlp()) {
    b.router_h = linear_input(n, rows(n, config.dim), config.dim, quantized.h);
    b.mlp_out = rows(n, config.dim);
  }
  return b;
}

// Called twice: to plan (`allocate` only counts bytes), and to allocate (`allocate` returns memory).
template <typename Allocator>
void Activations::lay_out(Activations& a, Allocator&& allocate, const ModelConfig& config, size_t max_chunk,
                          size_t context, QuantizedInputs quantized, int n_threads) {
  const auto rows = [&](size_t n, size_t width) {
    const size_t stride = round_up(width, kChunkCols);
    return Rows{reinterpret_cast<float*>(allocate(n * stride * sizeof(float))), stride};
  };
  const auto linear_input = [&](size_t n, Rows values, size_t width, bool is_quantized) {
    LinearInput input;
    input.n_cols = width;
    input.values = values.data;
    input.stride = values.stride;
    if (is_quantized) {
      std::byte* memory = allocate(QuantizedRows::bytes(n, width));
      if (memory != nullptr) input.quantized = QuantizedRows::from(memory, n, width);
    }
    return input;
  };
  const size_t q_dim = config.widest(&ModelConfig::q_dim), kv_dim = config.widest(&ModelConfig::kv_dim);
  const size_t ffn_dim = config.widest(&ModelConfig::mlp_dim);
  a.q = rows(max_chunk, q_dim);
  a.k = rows(max_chunk, kv_dim);
  a.v = rows(max_chunk, kv_dim);
  a.attended = rows(max_chunk, q_dim);
  const bool latent = config.latent.used();
  const auto head_input = [&](size_t n, size_t width) {  // only the int8 form: the floats are in another buffer
    return linear_input(n, Rows{}, width, quantized.kv_latent);
  };
  if (latent) lay_out_latent(a.latent, rows, head_input, config, max_chunk, n_threads);
  if (config.attention_gate) a.attn_gate = rows(max_chunk, q_dim);
  if (config.gated) a.gate_part = rows(static_cast<size_t>(n_threads), kGatePartFloats);
  a.up_part = rows(static_cast<size_t>(n_threads), kGatePartFloats);
  a.gated = linear_input(max_chunk, rows(max_chunk, ffn_dim), ffn_dim, quantized.gated);
  if (config.has_experts()) {
    a.moe = MoeBuffers::lay_out(config.moe,
                                {.dim = config.dim,
                                 .max_rows = max_chunk,
                                 .own_rows = kOwnRows,
                                 .n_threads = n_threads,
                                 .quantized_h = quantized.h,
                                 .quantized_gated = quantized.expert_gated,
                                 .quantized_shared_gated = quantized.shared_gated},
                                allocate);
  }
  a.block_out = rows(max_chunk, config.dim);
  lay_out_beside(a, rows, config, max_chunk, n_threads);
  const bool plain_norms = config.value_norm || config.qk_norm == QkNorm::kUnweighted;
  if (plain_norms) a.ones = rows(1, config.widest(&ModelConfig::head_dim_of)).data;
  const auto row_buffers = [&](size_t n) {
    return lay_out_rows(latent ? a.latent.values : a.attended, rows, linear_input, config, quantized, n);
  };
  a.shared = row_buffers(max_chunk);
  for (int i = 0; i < n_threads; ++i) a.own.push_back(row_buffers(kOwnRows));

  size_t attention_bytes = 0;
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (!config.layers[l].attends) continue;
    const AttentionShape shape = attention_shape(config, l);
    attention_bytes = std::max(attention_bytes, attention_scratch_bytes(shape, max_chunk, context, n_threads));
  }
  a.attention_scratch = allocate(attention_bytes);
  const size_t widest =
      std::max({config.dim, q_dim, ffn_dim, config.laurel_rank, config.layer_inputs.dim, config.moe.ffn_dim,
                config.moe.shared_ffn_dim, config.latent.q_rank, config.latent.kv_rank, config.latent.nope_dim,
                config.recurrent.v_width(), config.recurrent.low_rank, config.recurrent.step_rank,
                config.common.adapter_rank, config.common.used() ? 2 * config.dim : 0});
  a.linear_scratch_stride = round_up(linear_scratch_bytes(widest), kCacheLine);
  a.linear_scratch = allocate(a.linear_scratch_stride * static_cast<size_t>(n_threads));
}

size_t Activations::plan_bytes(const ModelConfig& config, size_t max_chunk, size_t context, QuantizedInputs quantized,
                               int n_threads) {
  Activations counted;
  size_t total = 0;
  const auto count = [&](size_t bytes) -> std::byte* {
    total += Arena::padded(bytes);
    return nullptr;
  };
  lay_out(counted, count, config, max_chunk, context, quantized, n_threads);
  return total;
}

Result<Activations> Activations::create(const ModelConfig& config, size_t max_chunk, size_t context,
                                        QuantizedInputs quantized, int n_threads) {
  Activations a;
  TRY_ASSIGN(a.arena_, Arena::create(plan_bytes(config, max_chunk, context, quantized, n_threads)));
  const auto take = [&](size_t bytes) { return a.arena_.allocate(bytes); };
  lay_out(a, take, config, max_chunk, context, quantized, n_threads);
  if (a.recurrent.unit != nullptr) std::fill_n(a.recurrent.unit, config.recurrent.key_dim, 1.0f);
  if (a.ones != nullptr) std::fill_n(a.ones, config.widest(&ModelConfig::head_dim_of), 1.0f);
  return a;
}

}  // namespace ibid
