#include "model/activations.h"

#include <algorithm>

#include "kernels/attention.h"
#include "model/attention_shape.h"

namespace ibid {

namespace {

constexpr size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

}  // namespace

// Written once for planning (allocate counts) and for allocating (allocate hands out memory).
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
  const auto row_buffers = [&](size_t n) {
    RowBuffers b;
    b.x = rows(n, config.dim);
    for (size_t r = 0; r < config.ropes.size(); ++r) b.cos_sin[r] = rows(n, config.ropes[r].rotary_dim);
    b.h = linear_input(n, rows(n, config.dim), config.dim, quantized.h);
    const bool padded = config.latent.used();   // `attended` has wider heads than wo reads
    b.attended = linear_input(n, padded ? rows(n, config.attended_dim()) : a.attended, config.attended_dim(),
                              quantized.attended);
    const size_t q_rank = config.latent.q_rank, kv_rank = config.latent.kv_rank;
    if (q_rank != 0) b.q_latent = linear_input(n, rows(n, q_rank), q_rank, quantized.q_latent);
    if (kv_rank != 0) b.kv_latent = linear_input(n, rows(n, kv_rank), kv_rank, quantized.kv_latent);
    if (config.changes_residuals()) b.added = rows(n, config.dim);
    return b;
  };
  a.q = rows(max_chunk, config.q_dim());
  a.k = rows(max_chunk, config.kv_dim());
  a.v = rows(max_chunk, config.kv_dim());
  a.attended = rows(max_chunk, config.q_dim());
  if (const LatentAttention& latent = config.latent; latent.used()) {
    a.latent.q_a = rows(max_chunk, latent.q_rank);
    a.latent.kv_a = rows(max_chunk, latent.kv_rank + latent.rope_dim);
    a.latent.q = rows(max_chunk, config.n_heads * latent.key_dim());
    a.latent.kv = rows(max_chunk, config.n_heads * (latent.nope_dim + latent.value_dim));
  }
  if (config.attention_gate) a.attn_gate = rows(max_chunk, config.q_dim());
  const size_t ffn_dim = config.widest_ffn_dim();
  if (config.gated) a.gate = rows(max_chunk, ffn_dim);
  a.up = rows(max_chunk, ffn_dim);
  a.gated = linear_input(max_chunk, rows(max_chunk, ffn_dim), ffn_dim, quantized.gated);
  if (config.has_experts()) {
    a.moe = MoeBuffers::lay_out(config.moe,
                                {.dim = config.dim, .max_rows = max_chunk, .own_rows = kOwnRows,
                                 .n_threads = n_threads, .quantized_h = quantized.h,
                                 .quantized_gated = quantized.expert_gated,
                                 .quantized_shared_gated = quantized.shared_gated},
                                allocate);
  }
  a.block_out = rows(max_chunk, config.dim);
  a.shared = row_buffers(max_chunk);
  for (int i = 0; i < n_threads; ++i) a.own.push_back(row_buffers(kOwnRows));

  a.attention_scratch = allocate(attention_scratch_bytes(attention_shape(config, 0), max_chunk, context, n_threads));
  const size_t widest = std::max({config.dim, config.q_dim(), ffn_dim, config.moe.ffn_dim, config.moe.shared_ffn_dim,
                                  config.latent.q_rank, config.latent.kv_rank});
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
  return a;
}

}  // namespace ibid
