#include "model/tensors/tensor_table.h"

#include <array>

namespace ibid {

namespace {

using Config = ModelConfig;
using enum TensorRole;

size_t dim(const Config& c, size_t) { return c.dim; }
size_t taps(const Config& c, size_t) { return c.recurrent.n_taps; }
size_t heads(const Config& c, size_t) { return c.recurrent.n_heads; }
size_t two_heads(const Config& c, size_t) { return 2 * c.recurrent.n_heads; }
size_t states(const Config& c, size_t) { return c.recurrent.key_dim; }
size_t q_width(const Config& c, size_t) { return c.recurrent.q_width(); }
size_t k_width(const Config& c, size_t) { return c.recurrent.k_width(); }
size_t v_width(const Config& c, size_t) { return c.recurrent.v_width(); }
size_t z_width(const Config& c, size_t) { return c.recurrent.z_width(); }
size_t rate_width(const Config& c, size_t) { return c.recurrent.rate_width(); }
size_t decay_width(const Config& c, size_t) { return c.recurrent.decay_width(); }
size_t low_rank(const Config& c, size_t) { return c.recurrent.low_rank; }
size_t step_rank(const Config& c, size_t) { return c.recurrent.step_rank; }
size_t scan_width(const Config& c, size_t) { return c.recurrent.step_rank + 2 * c.recurrent.key_dim; }
size_t norm_width(const Config& c, size_t) {
  return c.recurrent.v_width() / (c.recurrent.norm_is_shared ? c.recurrent.norm_parts : 1);
}
size_t step_width(const Config& c, size_t) {
  const RecurrentMixer& m = c.recurrent;
  return m.scans() ? m.v_width() : m.decay_width() != 0 ? m.decay_width() : m.n_heads;
}
size_t fused_width(const Config& c, size_t) {
  const RecurrentMixer& m = c.recurrent;
  const size_t qkv = m.q_width() + m.k_width() + m.v_width();
  switch (m.fused) {
    case FusedInputs::kQkv:
    case FusedInputs::kHeads:
    case FusedInputs::kKqv: return qkv;
    case FusedInputs::kGroups:
    case FusedInputs::kVz: return qkv + m.z_width();
    case FusedInputs::kZvkq: return qkv + m.z_width() + m.rate_width();
  }
  return 0;
}
size_t convolved_width(const Config& c, size_t) {
  const RecurrentMixer& m = c.recurrent;
  return m.v_width() + (m.has_heads() ? m.q_width() + m.k_width() : 0);
}

bool recurs(const Config& c, size_t l) { return c.layers[l].state_layer != kNoState; }
bool qk(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.q_width() != 0; }
bool beta(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.is_delta(); }
bool low(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.low_rank != 0; }
bool z(const Config& c, size_t l) { return recurs(c, l) && !low(c, l) && c.recurrent.z_width() != 0; }
bool alpha(const Config& c, size_t l) { return beta(c, l) && !low(c, l); }
bool is_mamba2(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.rule == RecurrentRule::kMamba2; }
bool scans(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.scans(); }
bool conv(const Config& c, size_t l) { return recurs(c, l) && c.recurrent.n_taps > 1; }
bool conv_qk(const Config& c, size_t l) { return conv(c, l) && c.recurrent.has_heads(); }
bool decays(const Config& c, size_t l) { return is_mamba2(c, l) || beta(c, l); }
bool step_bias(const Config& c, size_t l) { return decays(c, l) || scans(c, l); }
bool norm(const Config& c, size_t l) {
  const RecurrentMixer& m = c.recurrent;
  return recurs(c, l) && m.has_heads() && m.gate != OutputGate::kNoNorm;
}

// True if inputs and outputs of the layer may have biases; delta rules and lightning attention have none.
bool bias(const Config& c, size_t l) {
  return recurs(c, l) && !c.recurrent.is_delta() && c.recurrent.rule != RecurrentRule::kLightning;
}
bool qk_bias(const Config& c, size_t l) { return bias(c, l) && c.recurrent.q_width() != 0; }
bool z_bias(const Config& c, size_t l) { return bias(c, l) && c.recurrent.z_width() != 0; }

size_t two_dims(const Config& c, size_t) { return 2 * c.dim; }
size_t common_ffn(const Config& c, size_t) { return c.common.ffn_dim; }
size_t two_common_ffns(const Config& c, size_t) { return 2 * c.common.ffn_dim; }
size_t adapter_rank(const Config& c, size_t) { return c.common.adapter_rank; }
size_t q_dim(const Config& c, size_t l) { return c.q_dim(l); }
size_t kv_dim(const Config& c, size_t l) { return c.kv_dim(l); }
bool block(const Config& c, size_t l) { return c.layers[l].common_layer == l; }
bool attention_adapter(const Config& c, size_t l) { return block(c, l) && c.common.adapts_attention; }
bool uses_block(const Config& c, size_t l) { return c.layers[l].common_layer != kNoLayer; }

using Weights = RecurrentWeights;
using Common = CommonBlockWeights;
constexpr auto kAsIs = FixUp::kNone;
constexpr auto kNoInput = InputOf::kNone, kH = InputOf::kH, kLow = InputOf::kRecurrentLow, kMixed = InputOf::kMixed;

constexpr std::array kTable = {
    TensorRow{kCommonNorm, "", "@layers.#.shared_transformer.input_layernorm.weight", two_dims, nullptr, &Common::norm,
              must<block>},
    TensorRow{kCommonFfnNorm, "", "@layers.#.shared_transformer.pre_ff_layernorm.weight", dim, nullptr,
              &Common::ffn_norm, must<block>},
    TensorRow{kCommonGateUp,
              "",
              "@layers.#.shared_transformer.feed_forward.gate_up_proj.weight",
              two_common_ffns,
              dim,
              {},
              may<block>},
    TensorRow{kCommonGate, "", "", common_ffn, dim, &Common::w_gate, must<block>, kH, kAsIs, kCommonGateUp},
    TensorRow{kCommonUp, "", "", common_ffn, dim, &Common::w_up, must<block>, kH, kAsIs, kCommonGateUp},
    TensorRow{kCommonDown, "", "@layers.#.shared_transformer.feed_forward.down_proj.weight", dim, common_ffn,
              &Common::w_down, must<block>, InputOf::kGated},
    TensorRow{kBCommonGateUp,
              "",
              "@layers.#.shared_transformer.feed_forward.gate_up_proj.bias",
              two_common_ffns,
              nullptr,
              {},
              may<block>},
    TensorRow{kBCommonGate, "", "", common_ffn, nullptr, &Common::b_gate, may<block>, kNoInput, kAsIs, kBCommonGateUp},
    TensorRow{kBCommonUp, "", "", common_ffn, nullptr, &Common::b_up, may<block>, kNoInput, kAsIs, kBCommonGateUp},
    TensorRow{kBCommonDown, "", "@layers.#.shared_transformer.feed_forward.down_proj.bias", dim, nullptr,
              &Common::b_down, may<block>},
    TensorRow{kCommonOut, "", "@layers.#.linear.weight", dim, dim, &Common::out, must<uses_block>, kH},
    TensorRow{kAdapterLow, "", "@layers.#.shared_transformer.feed_forward.gate_up_proj_adapter_list.%.0.weight",
              adapter_rank, dim, &AdapterWeights::low, must<block>, kH, kAsIs, kAdapterLow, Copies::kAdapters},
    TensorRow{kAdapterGateUp,
              "",
              "@layers.#.shared_transformer.feed_forward.gate_up_proj_adapter_list.%.1.weight",
              two_common_ffns,
              adapter_rank,
              {},
              may<block>,
              kNoInput,
              kAsIs,
              kAdapterGateUp,
              Copies::kAdapters},
    TensorRow{kAdapterGate, "", "", common_ffn, adapter_rank, &AdapterWeights::gate, must<block>, kLow, kAsIs,
              kAdapterGateUp, Copies::kAdapters},
    TensorRow{kAdapterUp, "", "", common_ffn, adapter_rank, &AdapterWeights::up, must<block>, kLow, kAsIs,
              kAdapterGateUp, Copies::kAdapters},
    TensorRow{kAdapterQLow, "", "@layers.#.shared_transformer.self_attn.linear_q_adapter_list.%.0.weight", adapter_rank,
              two_dims, &AdapterWeights::q_low, must<attention_adapter>, kH, kAsIs, kAdapterQLow, Copies::kAdapters},
    TensorRow{kAdapterQ, "", "@layers.#.shared_transformer.self_attn.linear_q_adapter_list.%.1.weight", q_dim,
              adapter_rank, &AdapterWeights::q, must<attention_adapter>, kLow, kAsIs, kAdapterQ, Copies::kAdapters},
    TensorRow{kAdapterKLow, "", "@layers.#.shared_transformer.self_attn.linear_k_adapter_list.%.0.weight", adapter_rank,
              two_dims, &AdapterWeights::k_low, must<attention_adapter>, kH, kAsIs, kAdapterKLow, Copies::kAdapters},
    TensorRow{kAdapterK, "", "@layers.#.shared_transformer.self_attn.linear_k_adapter_list.%.1.weight", kv_dim,
              adapter_rank, &AdapterWeights::k, must<attention_adapter>, kLow, kAsIs, kAdapterK, Copies::kAdapters},
    TensorRow{kAdapterVLow, "", "@layers.#.shared_transformer.self_attn.linear_v_adapter_list.%.0.weight", adapter_rank,
              two_dims, &AdapterWeights::v_low, must<attention_adapter>, kH, kAsIs, kAdapterVLow, Copies::kAdapters},
    TensorRow{kAdapterV, "", "@layers.#.shared_transformer.self_attn.linear_v_adapter_list.%.1.weight", kv_dim,
              adapter_rank, &AdapterWeights::v, must<attention_adapter>, kLow, kAsIs, kAdapterV, Copies::kAdapters},
    TensorRow{kMixIn,
              "blk.#.ssm_in.weight|blk.#.attn_qkv.weight|blk.#.shortconv.in_proj.weight",
              "@layers.#.mamba.in_proj.weight|@layers.#.mixer.in_proj.weight|@layers.#.linear_attn.in_proj_qkv.weight|"
              "@layers.#.linear_attn.in_proj_qkvz.weight|@layers.#.conv.in_proj.weight|"
              "@layers.#.self_attn.qkv_proj.weight|@layers.#.mamba_decoder.mamba.in_proj.weight",
              fused_width,
              dim,
              {},
              may<recurs>},
    TensorRow{
        kMixNumbers, "blk.#.ssm_ba.weight", "@layers.#.linear_attn.in_proj_ba.weight", two_heads, dim, {}, may<recurs>},
    TensorRow{kMixV, "blk.#.attn_v.weight", "@layers.#.linear_attn.v_proj.weight|@layers.#.self_attn.v_proj.weight",
              v_width, dim, &Weights::w_v, must<recurs>, kH, kAsIs, kMixIn},
    TensorRow{kMixQ, "blk.#.attn_q.weight", "@layers.#.linear_attn.q_proj.weight|@layers.#.self_attn.q_proj.weight",
              q_width, dim, &Weights::w_q, must<qk>, kH, kAsIs, kMixIn},
    TensorRow{kMixK, "blk.#.attn_k.weight", "@layers.#.linear_attn.k_proj.weight|@layers.#.self_attn.k_proj.weight",
              k_width, dim, &Weights::w_k, must<qk>, kH, kAsIs, kMixIn},
    TensorRow{kMixDecayLow, "blk.#.ssm_f_a.weight", "@layers.#.self_attn.f_a_proj.weight", low_rank, dim,
              &Weights::w_decay_low, must<low>, kH},
    TensorRow{kMixGateLow, "blk.#.ssm_g_a.weight", "@layers.#.self_attn.g_a_proj.weight", low_rank, dim,
              &Weights::w_gate_low, must<low>, kH},
    TensorRow{kMixZ, "blk.#.attn_gate.weight",
              "@layers.#.linear_attn.in_proj_z.weight|@layers.#.linear_attn.g_proj.weight|"
              "@layers.#.self_attn.output_gate.weight",
              z_width, dim, &Weights::w_z, must<z>, kH, kAsIs, kMixIn},
    TensorRow{kMixZOfLow, "blk.#.ssm_g_b.weight", "@layers.#.self_attn.g_b_proj.weight", z_width, low_rank,
              &Weights::w_z, must<low>, kLow},
    TensorRow{kMixRate, "blk.#.ssm_beta.weight",
              "@layers.#.linear_attn.in_proj_b.weight|@layers.#.linear_attn.b_proj.weight|"
              "@layers.#.self_attn.b_proj.weight",
              rate_width, dim, &Weights::w_rate, must<beta>, kH, kAsIs, kMixNumbers},
    TensorRow{kMixStepIn, "", "", rate_width, dim, &Weights::w_rate, must<is_mamba2>, kH, kAsIs, kMixIn},
    TensorRow{kMixDecay, "blk.#.ssm_alpha.weight",
              "@layers.#.linear_attn.in_proj_a.weight|@layers.#.linear_attn.a_proj.weight", decay_width, dim,
              &Weights::w_decay, must<alpha>, kH, kAsIs, kMixNumbers},
    TensorRow{kMixDecayOfLow, "blk.#.ssm_f_b.weight", "@layers.#.self_attn.f_b_proj.weight", decay_width, low_rank,
              &Weights::w_decay, must<low>, kLow},
    TensorRow{kMixConv,
              "blk.#.ssm_conv1d.weight|blk.#.shortconv.conv.weight",
              "@layers.#.mamba.conv1d.weight|@layers.#.mixer.conv1d.weight|@layers.#.linear_attn.conv1d.weight|"
              "@layers.#.conv.conv.weight|@layers.#.mamba_decoder.mamba.conv1d.weight",
              convolved_width,
              taps,
              {},
              may<recurs>},
    TensorRow{kMixConvV, "blk.#.ssm_conv1d_v.weight",
              "@layers.#.linear_attn.v_conv1d.weight|@layers.#.self_attn.v_conv1d.weight", v_width, taps,
              &Weights::conv_v, must<conv>, kNoInput, FixUp::kByColumn, kMixConv},
    TensorRow{kMixConvQ, "blk.#.ssm_conv1d_q.weight",
              "@layers.#.linear_attn.q_conv1d.weight|@layers.#.self_attn.q_conv1d.weight", q_width, taps,
              &Weights::conv_q, must<conv_qk>, kNoInput, FixUp::kByColumn, kMixConv},
    TensorRow{kMixConvK, "blk.#.ssm_conv1d_k.weight",
              "@layers.#.linear_attn.k_conv1d.weight|@layers.#.self_attn.k_conv1d.weight", k_width, taps,
              &Weights::conv_k, must<conv_qk>, kNoInput, FixUp::kByColumn, kMixConv},
    TensorRow{kMixConvBias,
              "blk.#.ssm_conv1d.bias|blk.#.shortconv.conv.bias",
              "@layers.#.mamba.conv1d.bias|@layers.#.mixer.conv1d.bias|@layers.#.conv.conv.bias|"
              "@layers.#.mamba_decoder.mamba.conv1d.bias",
              convolved_width,
              nullptr,
              {},
              may<recurs>},
    TensorRow{kMixConvVBias, "", "", v_width, nullptr, &Weights::conv_v_bias, may<conv>, kNoInput, kAsIs, kMixConvBias},
    TensorRow{kMixConvQBias, "", "", q_width, nullptr, &Weights::conv_q_bias, may<conv_qk>, kNoInput, kAsIs,
              kMixConvBias},
    TensorRow{kMixConvKBias, "", "", k_width, nullptr, &Weights::conv_k_bias, may<conv_qk>, kNoInput, kAsIs,
              kMixConvBias},
    TensorRow{kBMixIn,
              "blk.#.ssm_in.bias|blk.#.shortconv.in_proj.bias",
              "@layers.#.mamba.in_proj.bias|@layers.#.mixer.in_proj.bias|@layers.#.conv.in_proj.bias|"
              "@layers.#.mamba_decoder.mamba.in_proj.bias",
              fused_width,
              nullptr,
              {},
              may<bias>},
    TensorRow{kBMixQ, "", "", q_width, nullptr, &Weights::b_q, may<qk_bias>, kNoInput, kAsIs, kBMixIn},
    TensorRow{kBMixK, "", "", k_width, nullptr, &Weights::b_k, may<qk_bias>, kNoInput, kAsIs, kBMixIn},
    TensorRow{kBMixV, "", "", v_width, nullptr, &Weights::b_v, may<bias>, kNoInput, kAsIs, kBMixIn},
    TensorRow{kBMixZ, "", "", z_width, nullptr, &Weights::b_z, may<z_bias>, kNoInput, kAsIs, kBMixIn},
    TensorRow{kBMixStepIn, "", "", rate_width, nullptr, &Weights::b_rate, may<is_mamba2>, kNoInput, kAsIs, kBMixIn},
    TensorRow{kBMixOut, "blk.#.ssm_out.bias|blk.#.shortconv.out_proj.bias",
              "@layers.#.mamba.out_proj.bias|@layers.#.mixer.out_proj.bias|@layers.#.conv.out_proj.bias|"
              "@layers.#.mamba_decoder.mamba.out_proj.bias",
              dim, nullptr, &Weights::b_out, may<bias>},
    TensorRow{kMixRates, "blk.#.ssm_a|blk.#.ssm_a.weight",
              "@layers.#.linear_attn.A_log|@layers.#.mamba.A_log|@layers.#.mixer.A_log|@layers.#.self_attn.A_log|"
              "@layers.#.mamba_decoder.mamba.A_log",
              heads, nullptr, &Weights::decay, must<decays>, kNoInput, FixUp::kDecay},
    TensorRow{kMixScanRates, "blk.#.ssm_a|blk.#.ssm_a.weight", "@layers.#.mamba.A_log|@layers.#.mixer.A_log", v_width,
              states, &Weights::decay, must<scans>, kNoInput, FixUp::kDecayByColumn},
    TensorRow{kMixStepBias, "blk.#.ssm_dt.bias|blk.#.ssm_dt",
              "@layers.#.linear_attn.dt_bias|@layers.#.mamba.dt_bias|@layers.#.mixer.dt_bias|"
              "@layers.#.self_attn.dt_bias|@layers.#.mamba.dt_proj.bias|@layers.#.mixer.dt_proj.bias|"
              "@layers.#.mamba_decoder.mamba.dt_bias",
              step_width, nullptr, &Weights::step_bias, must<step_bias>},
    TensorRow{kMixSkip, "blk.#.ssm_d|blk.#.ssm_d.weight",
              "@layers.#.mamba.D|@layers.#.mixer.D|@layers.#.mamba_decoder.mamba.D", heads, nullptr, &Weights::skip,
              must<is_mamba2>},
    TensorRow{kMixScanSkip, "blk.#.ssm_d|blk.#.ssm_d.weight", "@layers.#.mamba.D|@layers.#.mixer.D", v_width, nullptr,
              &Weights::skip, must<scans>},
    TensorRow{kMixNorm, "blk.#.ssm_norm.weight",
              "@layers.#.linear_attn.norm.weight|@layers.#.linear_attn.o_norm.weight|@layers.#.mamba.norm.weight|"
              "@layers.#.mixer.norm.weight|@layers.#.self_attn.o_norm.weight|@layers.#.self_attn.norm.weight|"
              "@layers.#.mamba_decoder.mamba.norm.weight",
              norm_width, nullptr, &Weights::norm, must<norm>},
    TensorRow{kMixScan, "blk.#.ssm_x.weight", "@layers.#.mamba.x_proj.weight|@layers.#.mixer.x_proj.weight", scan_width,
              v_width, &Weights::w_scan, must<scans>, kMixed},
    TensorRow{kMixStep, "blk.#.ssm_dt.weight", "@layers.#.mamba.dt_proj.weight|@layers.#.mixer.dt_proj.weight", v_width,
              step_rank, &Weights::w_step, must<scans>, kLow},
    TensorRow{kMixStepNorm, "blk.#.ssm_dt_norm.weight", "@layers.#.mamba.dt_layernorm.weight", step_rank, nullptr,
              &Weights::step_norm, may<scans>},
    TensorRow{kMixBNorm, "blk.#.ssm_b_norm.weight", "@layers.#.mamba.b_layernorm.weight", states, nullptr,
              &Weights::b_norm, may<scans>},
    TensorRow{kMixCNorm, "blk.#.ssm_c_norm.weight", "@layers.#.mamba.c_layernorm.weight", states, nullptr,
              &Weights::c_norm, may<scans>},
    TensorRow{kMixOut, "blk.#.ssm_out.weight|blk.#.shortconv.out_proj.weight|blk.#.attn_output.weight",
              "@layers.#.linear_attn.out_proj.weight|@layers.#.linear_attn.o_proj.weight|"
              "@layers.#.mamba.out_proj.weight|@layers.#.mixer.out_proj.weight|@layers.#.conv.out_proj.weight|"
              "@layers.#.self_attn.out_proj.weight|@layers.#.self_attn.o_proj.weight|"
              "@layers.#.mamba_decoder.mamba.out_proj.weight",
              dim, v_width, &Weights::w_out, must<recurs>, kMixed},
};

// Returns the offset of a part among parts that are stored in this order.
RowOrder offset_in(std::initializer_list<TensorRole> order, TensorRole part, const Config& c) {
  size_t first = 0;
  for (const TensorRole role : order) {
    if (role == part) break;
    first += tensor_row(role).rows(c, 0);
  }
  return {.first = first};
}

// Returns the role of the matrix to whose outputs a bias is added.
TensorRole part_of_bias(TensorRole bias) {
  switch (bias) {
    case kBMixQ: return kMixQ;
    case kBMixK: return kMixK;
    case kBMixV: return kMixV;
    case kBMixZ: return kMixZ;
    default: return kMixStepIn;
  }
}

RowOrder input_order(const Config& c, TensorRole part) {
  const RecurrentMixer& m = c.recurrent;
  const size_t n = m.key_dim, values = m.n_heads / m.n_key_heads * m.value_dim;
  switch (m.fused) {
    case FusedInputs::kQkv: return offset_in({kMixQ, kMixK, kMixV}, part, c);
    case FusedInputs::kKqv: return offset_in({kMixK, kMixQ, kMixV}, part, c);
    case FusedInputs::kVz: return offset_in({kMixV, kMixZ}, part, c);
    case FusedInputs::kZvkq: return offset_in({kMixZ, kMixV, kMixK, kMixQ, kMixStepIn}, part, c);
    case FusedInputs::kHeads:
    case FusedInputs::kGroups: break;
  }
  const size_t stride = 2 * n + (m.fused == FusedInputs::kGroups ? 2 : 1) * values;
  if (part == kMixQ) return {.first = 0, .block = n, .stride = stride};
  if (part == kMixK) return {.first = n, .block = n, .stride = stride};
  return {.first = 2 * n + (part == kMixZ ? values : 0), .block = values, .stride = stride};
}

RowOrder number_order(const Config& c, TensorRole part) {
  const size_t of_group = c.recurrent.n_heads / c.recurrent.n_key_heads;
  return {.first = part == kMixRate ? 0 : of_group, .block = of_group, .stride = 2 * of_group};
}

RowOrder channel_order(const Config& c, TensorRole part) {
  const TensorRole as_input = part == kMixConvQ || part == kMixConvQBias   ? kMixQ
                              : part == kMixConvK || part == kMixConvKBias ? kMixK
                                                                           : kMixV;
  if (!c.recurrent.has_heads()) return {};
  return c.recurrent.fused == FusedInputs::kZvkq ? offset_in({kMixV, kMixK, kMixQ}, as_input, c)
                                                 : offset_in({kMixQ, kMixK, kMixV}, as_input, c);
}

}  // namespace

std::span<const TensorRow> recurrent_tensors() { return kTable; }

std::optional<RowOrder> recurrent_part_order(const ModelConfig& config, const TensorRow& row) {
  switch (row.part_of) {
    case kMixIn: return input_order(config, row.role);
    case kBMixIn: return input_order(config, part_of_bias(row.role));
    case kMixNumbers: return number_order(config, row.role);
    case kMixConv:
    case kMixConvBias: return channel_order(config, row.role);
    default: return std::nullopt;
  }
}

TiledHeads tiled_heads(const ModelConfig& config, TensorRole role) {
  const RecurrentMixer& m = config.recurrent;
  const HeadTiles numbers{m.n_key_heads, m.n_heads / m.n_key_heads, 1};
  const HeadTiles values{m.n_key_heads, m.n_heads / m.n_key_heads, m.value_dim};
  switch (role) {
    case kMixV:
    case kMixZ:
    case kMixConvV:
    case kMixConvVBias: return {values, {}};
    case kMixRate:
    case kMixDecay:
    case kMixRates:
    case kMixStepBias: return {numbers, {}};
    case kMixOut: return {{}, values};
    default: return {};
  }
}

}  // namespace ibid
