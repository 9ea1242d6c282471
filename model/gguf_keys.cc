#include "model/gguf_keys.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "model/architectures.h"
#include "model/hyperparameters.h"
#include "model/keys.h"
#include "model/layer_rules.h"
#include "model/moe_rules.h"
#include "model/rope_rules.h"

namespace ibid {

namespace {

class KeyWriter {
 public:
  KeyWriter(const Hyperparameters& from, const ModelConfig& config, const Architecture& to, GgufWriter& out)
      : from_(from), config_(config), to_(to), out_(out) {}

  Status write() {
    out_.add_string("general.architecture", to_.gguf_name);
    TRY(write_shape());
    TRY(write_ropes());
    write_windows();
    write_attention();
    TRY(write_factors());
    if (config_.latent.used()) TRY(write_latent());
    if (config_.has_experts()) TRY(write_experts());
    return config_.layers.front().activation.kind == Activation::Kind::kXielu ? write_xielu() : Status();
  }

 private:
  // The spelling that is written: the nth.
  std::string full(const Key& key, size_t n = 0) const {
    std::string_view rest = key.gguf;
    for (; n > 0; --n) rest.remove_prefix(rest.find('|') + 1);
    rest = rest.substr(0, rest.find('|'));
    if (rest.starts_with(':')) return std::string(rest.substr(1));
    return std::string(to_.gguf_name) + "." + std::string(rest);
  }
  void integer(const Key& key, size_t value, size_t spelling = 0) {
    out_.add_u32(full(key, spelling), static_cast<uint32_t>(value));
  }
  void number(const Key& key, double value, size_t spelling = 0) {
    out_.add_f32(full(key, spelling), static_cast<float>(value));
  }
  // What config.json says, where it does.
  Status copy_integer(const Key& key) {
    if (!from_.has(key)) return {};
    TRY_ASSIGN(const size_t value, from_.integer(key, 0, kMaxPositions));
    integer(key, value);
    return {};
  }
  Status copy_number(const Key& key) {
    if (!from_.has(key)) return {};
    TRY_ASSIGN(const double value, from_.number(key, kMaxFactor, 0.0));
    number(key, value);
    return {};
  }

  Status write_shape() {
    integer(keys::kTrainedContext, config_.trained_context);
    integer(keys::kDim, config_.dim);
    integer(keys::kNLayers, config_.n_layers);
    integer(keys::kNHeads, config_.n_heads);
    integer(keys::kNKvHeads, config_.layers.front().n_kv_heads);
    integer(keys::kVocabSize, config_.vocab_size);
    number(keys::kNormEps, double{config_.norm_eps}, config_.norm == NormKind::kRms ? 0 : 1);
    const size_t ffn_dim = config_.widest(&ModelConfig::mlp_dim);
    if (ffn_dim != 0) integer(keys::kFfnDim, ffn_dim);
    if (ffn_dim == 0) TRY(copy_integer(keys::kFfnDim));
    if (config_.latent.used()) return {};
    integer(keys::kHeadDim, config_.layers.front().head_dim);
    integer(keys::kValueDim, config_.layers.front().head_dim);
    return {};
  }

  Status write_ropes() {
    if (config_.ropes.empty()) return {};
    const RopeRule& rule = config_.ropes.front();
    integer(keys::kRotaryDim, rule.rotary_dim);
    number(keys::kTheta, rule.theta);
    if (config_.ropes.size() > 1) number(keys::kWindowedTheta, config_.ropes[1].theta);
    switch (rule.kind) {
      case RopeRule::Kind::kPlain: return {};
      case RopeRule::Kind::kLinear:
        out_.add_string(full(keys::kRopeScaling), "linear");
        number(keys::kRopeFactor, rule.factor);
        return {};
      case RopeRule::Kind::kLongrope:
        number_of_positions(rule);
        number(keys::kRopeMagnitude, rule.magnitude);
        return {};
      case RopeRule::Kind::kYarn: return write_yarn(rule);
    }
    return {};
  }

  void number_of_positions(const RopeRule& rule) {
    integer(keys::kRopeOriginal, static_cast<size_t>(rule.original_max_positions));
  }

  Status write_yarn(const RopeRule& rule) {
    out_.add_string(full(keys::kRopeScaling), "yarn");
    number(keys::kRopeFactor, rule.factor);
    number_of_positions(rule);
    number(keys::kYarnFast, rule.beta_fast);
    number(keys::kYarnSlow, rule.beta_slow);
    TRY_ASSIGN(const double of_all, from_.number(keys::kMscaleOfAll, kMaxFactor, 0.0));
    const auto log_multiplier = static_cast<float>(config_.latent.used() ? 0.1 * of_all : of_all);
    if (of_all != 0) number(keys::kYarnTenth, double{log_multiplier});
    const double usual = gguf_yarn_magnitude(rule.factor, double{log_multiplier}, config_.latent.used());
    if (static_cast<float>(usual) != static_cast<float>(rule.magnitude))
      number(keys::kRopeMagnitude, rule.magnitude);
    return {};
  }

  void write_windows() {
    size_t window = 0, n_windowed = 0;
    for (const LayerConfig& layer : config_.layers) {
      window = std::max(window, layer.window);
      n_windowed += layer.window != 0 ? 1 : 0;
    }
    if (window == 0) return;
    integer(keys::kWindow, window);
    const auto has_period = [&](size_t period) {
      for (size_t l = 0; l < config_.n_layers; ++l) {
        if ((config_.layers[l].window != 0) != ((l + 1) % period != 0)) return false;
      }
      return true;
    };
    if (to_.windows == Windows::kPeriod && has_period(to_.window_period)) return;
    if (n_windowed == config_.n_layers && to_.windows != Windows::kPeriod &&
        to_.windows != Windows::kUpperLayers)
      return;
    std::vector<bool> windowed;
    for (const LayerConfig& layer : config_.layers) windowed.push_back(layer.window != 0);
    out_.add_bools(full(keys::kWindowPattern), windowed);
  }

  void write_attention() {
    const bool wide = config_.n_layers == to_.gguf_wide_scale_layers;
    const size_t usual = wide ? config_.dim / config_.n_heads : config_.layers.front().head_dim;
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(usual)));
    if (!config_.latent.used() && scale != config_.attention_scale) {
      number(keys::kAttentionScale, double{config_.attention_scale});
    }
    if (config_.attention_softcap != to_.attention_softcap || config_.attention_softcap != 0) {
      number(keys::kAttentionSoftcap, double{config_.attention_softcap});
    }
    if (config_.query_growth != 0) number(keys::kQueryGrowth, config_.query_growth);
  }

  Status write_factors() {
    TRY(copy_number(keys::kEmbedScale));
    TRY(copy_number(keys::kResidualScale));
    TRY(copy_number(keys::kLogitScale));
    if (config_.logit_softcap != to_.logit_softcap || config_.logit_softcap != 0) {
      number(keys::kLogitSoftcap, double{config_.logit_softcap});
    }
    if (config_.parallel != to_.parallel || from_.has(keys::kParallel)) {
      out_.add_bool(full(keys::kParallel), config_.parallel);
    }
    return {};
  }

  // Keys and values are expanded: attn_kv_b is written, not its two parts.
  Status write_latent() {
    const LatentAttention& latent = config_.latent;
    if (latent.q_rank != 0) integer(keys::kQRank, latent.q_rank);
    integer(keys::kKvRank, latent.kv_rank);
    integer(keys::kLatentKeyDim, latent.key_dim(), 1);
    integer(keys::kLatentValueDim, latent.value_dim, 1);
    return {};
  }

  Status write_experts() {
    const MoeRule& moe = config_.moe;
    integer(keys::kExperts, moe.router.n_experts);
    integer(keys::kExpertsActive, moe.router.n_experts_active);
    integer(keys::kExpertFfnDim, moe.ffn_dim);
    TRY(copy_integer(keys::kSharedCount));
    if (moe.shared_ffn_dim != 0) integer(keys::kSharedFfnDim, moe.shared_ffn_dim);
    out_.add_bool(full(keys::kRouterNormalized), moe.router.normalized);
    number(keys::kRouterScale, double{moe.router.weight_scale});
    if (moe.router.scores != to_.router_scores || moe.router.scores == RouterScores::kSigmoid) {
      integer(keys::kRouterScores, gguf_number_of(moe.router.scores));
    }
    if (moe.router.n_groups > 1) {
      integer(keys::kExpertGroups, moe.router.n_groups);
      integer(keys::kExpertGroupsActive, moe.router.n_groups_active);
    }
    if (moe.swiglu_limit != 0) number(keys::kSwigluLimit, double{moe.swiglu_limit});
    TRY(copy_integer(keys::kExpertStep));
    const auto has_experts = [](const LayerConfig& layer) { return layer.has_experts; };
    const auto first = std::ranges::find_if(config_.layers, has_experts) - config_.layers.begin();
    if (first != 0 || from_.has(keys::kLeadingDense))
      integer(keys::kLeadingDense, static_cast<size_t>(first));
    return {};
  }

  Status write_xielu() {
    for (const Key& key : {keys::kXieluAlphaP, keys::kXieluAlphaN, keys::kXieluBeta, keys::kXieluEps}) {
      TRY_ASSIGN(const std::vector<float> numbers, read_xielu_numbers(from_, config_, key));
      out_.add_f32s(full(key), numbers);
    }
    return {};
  }

  const Hyperparameters& from_;
  const ModelConfig& config_;
  const Architecture& to_;
  GgufWriter& out_;
};

// By what it does to positions, within the original context and beyond.
bool same_rope(const ModelConfig& a, size_t rope_a, const ModelConfig& b, size_t rope_b) {
  if (rope_a == kNoRope || rope_b == kNoRope) return rope_a == rope_b;
  for (const size_t context : {size_t{1}, a.trained_context}) {
    const RopeTable of_a = make_rope_table(a.ropes[rope_a], context),
                    of_b = make_rope_table(b.ropes[rope_b], context);
    if (of_a.inv_freq != of_b.inv_freq || of_a.magnitude != of_b.magnitude) return false;
  }
  return true;
}

bool same_activation(const Activation& a, const Activation& b) {
  return a.kind == b.kind && a.alpha_p == b.alpha_p && a.alpha_n == b.alpha_n && a.beta == b.beta &&
         a.eps == b.eps;
}

// The best of the shares that a softmax gives to E experts add up to k / E or more: a smaller bound is none.
bool same_bound(const RouterRule& a, const RouterRule& b) {
  const float least =
      static_cast<float>(a.n_experts_active) / static_cast<float>(std::max<size_t>(a.n_experts, 1));
  const bool never_met = a.scores == RouterScores::kSoftmax && a.n_groups == 1 &&
                         a.smallest_sum < least / 2 && b.smallest_sum < least / 2;
  return never_met || a.smallest_sum == b.smallest_sum;
}

bool same_router(const RouterRule& a, const RouterRule& b) {
  return a.scores == b.scores && a.n_experts == b.n_experts && a.n_experts_active == b.n_experts_active &&
         a.n_groups == b.n_groups && a.n_groups_active == b.n_groups_active && a.normalized == b.normalized &&
         same_bound(a, b) && a.weight_scale == b.weight_scale;
}

bool same_experts(const MoeRule& a, const MoeRule& b) {
  return a.ffn_dim == b.ffn_dim && a.shared_ffn_dim == b.shared_ffn_dim &&
         same_activation(a.activation, b.activation) && a.swiglu_limit == b.swiglu_limit &&
         a.swiglu_alpha == b.swiglu_alpha;
}

bool same_latent(const LatentAttention& a, const LatentAttention& b) {
  return a.q_rank == b.q_rank && a.kv_rank == b.kv_rank && a.nope_dim == b.nope_dim &&
         a.rope_dim == b.rope_dim && a.value_dim == b.value_dim;
}

template <typename Same>
bool all_layers(const ModelConfig& a, const ModelConfig& b, Same&& same) {
  return std::ranges::equal(a.layers, b.layers, same);
}

// What is read from GGUF, but not written: the parts of Gemma 3n and Gemma 4.
const char* unwritten_part(const ModelConfig& config) {
  for (const LayerConfig& layer : config.layers) {
    if (!layer.writes_kv) return "layers that read the keys and values of another layer";
    if (layer.value_is_key) return "layers whose values are their keys";
    if (layer.head_dim != config.layers[0].head_dim) return "heads whose size differs by layer";
  }
  if (config.layer_inputs.dim > 0) return "inputs of single layers";
  if (config.altup.used()) return "streams beside the hidden state";
  return nullptr;
}

}  // namespace

Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to,
                       GgufWriter& out) {
  if (const char* part = unwritten_part(config)) {
    return {ErrorCode::kUnsupported, file.path() + ": " + part + " are not converted: use the model as it is"};
  }
  TRY_ASSIGN(const ArchitectureMatch match, find_architecture(file));
  const Hyperparameters from(file, match.prefix);
  return KeyWriter(from, config, to, out).write();
}

Status check_same_model(const ModelConfig& wanted, const ModelConfig& got, const std::string& path) {
  const ModelConfig &a = wanted, &b = got;
  struct Part {
    const char* name;
    bool same;
  };
  const bool same_growth =
      a.query_growth == b.query_growth && (a.query_growth == 0 || a.query_growth_step == b.query_growth_step);
  const auto same_window = [](const LayerConfig& x, const LayerConfig& y) { return x.window == y.window; };
  const auto same_mlp = [](const LayerConfig& x, const LayerConfig& y) {
    return x.ffn_dim == y.ffn_dim && x.has_experts == y.has_experts && x.gate_cutoff == y.gate_cutoff;
  };
  const auto same_heads = [](const LayerConfig& x, const LayerConfig& y) {
    return x.n_kv_heads == y.n_kv_heads && x.head_dim == y.head_dim && x.writes_kv == y.writes_kv &&
           x.kv_layer == y.kv_layer && x.value_is_key == y.value_is_key;
  };
  const auto same_function = [](const LayerConfig& x, const LayerConfig& y) {
    return same_activation(x.activation, y.activation);
  };
  const auto turned_alike = [&](const LayerConfig& x, const LayerConfig& y) {
    return same_rope(a, x.rope, b, y.rope);
  };
  const Part parts[] = {
      {"shape", a.vocab_size == b.vocab_size && a.n_layers == b.n_layers && a.dim == b.dim &&
                    a.n_heads == b.n_heads && a.trained_context == b.trained_context},
      {"heads of layers", all_layers(a, b, same_heads)},
      {"parts beside the layers", a.layer_inputs.dim == b.layer_inputs.dim && a.laurel_rank == b.laurel_rank &&
                                      a.altup.n_streams == b.altup.n_streams && a.scaled_layers == b.scaled_layers},
      {"norms", a.norm == b.norm && a.norm_places == b.norm_places && a.norm_eps == b.norm_eps},
      {"norms of queries, keys and values", a.qk_norm == b.qk_norm && a.value_norm == b.value_norm &&
                                                a.qk_norm_after_rope == b.qk_norm_after_rope},
      {"attention scale",
       a.attention_scale == b.attention_scale && a.attention_softcap == b.attention_softcap},
      {"query growth", same_growth},
      {"latent attention", same_latent(a.latent, b.latent)},
      {"attention gate", a.attention_gate == b.attention_gate},
      {"learned positions", a.learned_positions == b.learned_positions},
      {"rope", all_layers(a, b, turned_alike)},
      {"windows", all_layers(a, b, same_window)},
      {"activation", all_layers(a, b, same_function) && a.gated == b.gated},
      {"parallel attention and MLP", a.parallel == b.parallel},
      {"layers with experts", all_layers(a, b, same_mlp)},
      {"router", same_router(a.moe.router, b.moe.router)},
      {"experts", same_experts(a.moe, b.moe)},
      {"factors", a.embed_scale == b.embed_scale && a.residual_scale == b.residual_scale &&
                      a.logit_scale == b.logit_scale && a.logit_softcap == b.logit_softcap},
  };
  for (const Part& part : parts) {
    if (part.same) continue;
    return {ErrorCode::kUnsupported, path + ": has no place in GGUF for this model's " + part.name +
                                         ": a converted file of architecture '" + b.architecture +
                                         "' would be another model"};
  }
  return {};
}

}  // namespace ibid
