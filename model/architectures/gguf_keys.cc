#include "model/architectures/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string_view>

#include "model/architectures/architectures.h"
#include "model/architectures/hyperparameters.h"
#include "model/architectures/keys.h"
#include "model/architectures/rules.h"

namespace ibid {
namespace {

// Returns a float whose product with `usual` rounds to `wanted`; if no float near wanted / usual does, the nearest one.
float factor_to(float wanted, double usual) {
  const auto nearest = static_cast<float>(double{wanted} / usual);
  for (const float factor : {nearest, std::nextafter(nearest, 0.0f), std::nextafter(nearest, 2 * nearest)}) {
    if (static_cast<float>(double{factor} * usual) == wanted) return factor;
  }
  return nearest;
}

class KeyWriter {
 public:
  KeyWriter(const Hyperparameters& from, const ModelConfig& config, const Architecture& to, GgufWriter& out)
      : from_(from), config_(config), to_(to), out_(out) {}

  Status write() {
    out_.add_string("general.architecture", to_.gguf_name);
    if (config_.pooling) integer(keys::kPooling, gguf_number_of(*config_.pooling));
    TRY(write_shape());
    write_heads();
    if (config_.recurs()) TRY(write_recurrent());
    write_beside_layers();
    TRY(write_ropes());
    write_windows();
    write_attention();
    TRY(write_factors());
    if (config_.latent.used()) TRY(write_latent());
    if (config_.has_experts()) TRY(write_experts());
    return config_.layers.front().activation.kind == Activation::Kind::kXielu ? write_xielu() : Status();
  }

 private:
  // Returns the full key for the n-th of the spellings that '|' separates.
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
  // Writes one number if it is the same for all layers, else one per layer.
  template <typename Number>
  void by_layer(const Key& key, Number&& number_of) {
    std::vector<uint32_t> numbers;
    for (const LayerConfig& layer : config_.layers) numbers.push_back(static_cast<uint32_t>(number_of(layer)));
    const bool alike = std::ranges::adjacent_find(numbers, std::not_equal_to()) == numbers.end();
    if (alike) return integer(key, numbers.front());
    out_.add_u32s(full(key), numbers);
  }
  // Copies an integer unchanged if config.json has it.
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
    integer(keys::kVocabSize, config_.vocab_size);
    number(keys::kNormEps, double{config_.norm_eps}, config_.norm == NormKind::kRms ? 0 : 1);
    const size_t widest = config_.widest(&ModelConfig::mlp_dim);
    if (to_.recurrent.without_attention) integer(keys::kFfnDim, 0);
    if (to_.recurrent.without_attention) return {};
    if (to_.recurrent.one_block) {
      by_layer(keys::kFfnDim, [&](const LayerConfig& layer) {
        return layer.blocks == LayerBlocks::kExperts ? config_.moe.ffn_dim : layer.ffn_dim;
      });
      return {};
    }
    if (widest == 0) return copy_integer(keys::kFfnDim);
    by_layer(keys::kFfnDim, [&](const LayerConfig& layer) { return layer.ffn_dim != 0 ? layer.ffn_dim : widest; });
    return {};
  }

  // Latent attention: the converted file stores the matrix that expands latents as one tensor, which has keys for every
  // head. So each head counts as a KV head.
  size_t kv_heads(const LayerConfig& layer) const { return config_.latent.used() ? config_.n_heads : layer.n_kv_heads; }

  void write_heads() {
    if (!config_.recurs() || to_.recurrent.beside_attention || to_.recurrent.without_attention) {
      by_layer(keys::kNKvHeads, [&](const LayerConfig& layer) { return kv_heads(layer); });
    }
    if (config_.latent.used() || !config_.attends()) return;
    // The main key has the head_dim of layers without a window, if there are any.
    const auto is_whole = [](const LayerConfig& layer) { return layer.window == 0; };
    const auto whole = std::ranges::find_if(config_.layers, is_whole);
    const auto windowed = std::ranges::find_if_not(config_.layers, is_whole);
    const size_t usual = (whole == config_.layers.end() ? config_.layers.front() : *whole).head_dim;
    const size_t other = windowed == config_.layers.end() ? usual : windowed->head_dim;
    integer(keys::kHeadDim, usual);
    integer(keys::kValueDim, usual);
    if (other == usual && !to_.gguf_by_layer) return;
    integer(keys::kOtherHeadDim, other);
    integer(keys::kOtherValueDim, other);
  }

  // Writes which layers are recurrent, as numbers of KV heads by layer, which are 0 in recurrent layers. For gated
  // delta rules it writes the period of the attention layers instead.
  Status write_kinds() {
    if (to_.recurrent.beside_attention || to_.recurrent.without_attention) return {};
    if (to_.recurrent.rule != RecurrentRule::kGatedDelta) {
      std::vector<uint32_t> heads;
      for (const LayerConfig& layer : config_.layers) {
        heads.push_back(layer.attends ? static_cast<uint32_t>(kv_heads(layer)) : 0);
      }
      out_.add_u32s(full(keys::kNKvHeads), heads);
      return {};
    }
    integer(keys::kNKvHeads, config_.layers[config_.first_attending()].n_kv_heads);
    for (size_t period = 1; period <= config_.n_layers + 1; ++period) {
      const auto is_kind = [&](const LayerConfig& layer) {
        const auto number = static_cast<size_t>(&layer - config_.layers.data()) + 1;
        return layer.attends == (number % period == 0);
      };
      if (!std::ranges::all_of(config_.layers, is_kind)) continue;
      integer(keys::kFullInterval, period);
      return {};
    }
    return {ErrorCode::kUnsupported,
            from_.file().path() + ": layers with attention are not periodic, which GGUF architecture '" +
                std::string(to_.gguf_name) + "' cannot represent: use the original checkpoint"};
  }

  Status write_recurrent() {
    TRY(write_kinds());
    const RecurrentMixer& mixer = config_.recurrent;
    const bool is_short = mixer.rule == RecurrentRule::kShortConv;
    integer(keys::kConvTaps, mixer.n_taps, is_short ? 1 : 0);
    if (to_.rope_layers == RopeLayers::kIfNamed) out_.add_bool(full(keys::kRopeUsed), !config_.ropes.empty());
    if (is_short) return {};
    if (mixer.rule == RecurrentRule::kKeyedDelta) {
      integer(keys::kKeyedHeadDim, mixer.key_dim);
      return {};
    }
    integer(keys::kStateSize, mixer.key_dim);
    integer(keys::kStateWidth, mixer.v_width());
    if (mixer.scans()) {
      integer(keys::kStepRank, mixer.step_rank);
      return {};
    }
    integer(keys::kStateGroups, mixer.n_key_heads);
    integer(keys::kStateHeads, mixer.n_heads);
    return {};
  }

  void write_beside_layers() {
    const auto writes = [](const LayerConfig& layer) { return layer.writes_kv; };
    const auto n_shared = config_.n_layers - static_cast<size_t>(std::ranges::count_if(config_.layers, writes));
    if (n_shared != 0 || from_.has(keys::kSharedKvLayers)) integer(keys::kSharedKvLayers, n_shared);
    if (config_.layer_inputs.used() || to_.gguf_by_layer) integer(keys::kLayerInputs, config_.layer_inputs.dim);
    if (config_.altup.used()) {
      integer(keys::kStreams, config_.altup.n_streams);
      integer(keys::kActiveStream, config_.altup.active);
    }
    if (to_.gguf_default_cutoff_layers == 0) return;
    std::vector<float> cutoffs;
    for (const LayerConfig& layer : config_.layers) {
      cutoffs.push_back(layer.gate_cutoff.value_or(-std::numeric_limits<float>::infinity()));
    }
    out_.add_f32s(full(keys::kGateCutoffs), cutoffs);
  }

  Status write_ropes() {
    if (config_.ropes.empty()) return {};
    const RopeRule& rule = config_.ropes.front();
    integer(keys::kRotaryDim, rule.rotary_dim);
    number(keys::kTheta, rule.theta);
    if (config_.ropes.size() > 1) {
      const RopeRule& windowed = config_.ropes[1];
      number(keys::kWindowedTheta, windowed.theta);
      if (windowed.rotary_dim != rule.rotary_dim || to_.gguf_by_layer) {
        integer(keys::kWindowedRotaryDim, windowed.rotary_dim);
      }
    }
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
    if (static_cast<float>(usual) != static_cast<float>(rule.magnitude)) {
      number(keys::kRopeMagnitude, double{factor_to(static_cast<float>(rule.magnitude), usual)});
    }
    return {};
  }

  void write_windows() {
    size_t window = 0, n_windowed = 0;
    for (const LayerConfig& layer : config_.layers) {
      window = std::max(window, layer.window);
      n_windowed += layer.window != 0 ? 1 : 0;
    }
    if (to_.windows == Windows::kChunks) return write_chunks();
    if (window == 0) return;
    integer(keys::kWindow, window);
    const auto has_period = [&](size_t period) {
      for (size_t l = 0; l < config_.n_layers; ++l) {
        if ((config_.layers[l].window != 0) != ((l + 1) % period != 0)) return false;
      }
      return true;
    };
    const bool by_period = to_.windows == Windows::kPeriod && !to_.gguf_by_layer;
    if (by_period && has_period(to_.window_period)) return;
    // For most architectures llama.cpp reads a period and ignores a list, so write a period if there is one.
    for (size_t period = 2; by_period && period <= config_.n_layers + 1; ++period) {
      if (has_period(period)) return integer(keys::kWindowPattern, period);
    }
    if (n_windowed == config_.n_layers && to_.windows != Windows::kPeriod && to_.windows != Windows::kUpperLayers)
      return;
    std::vector<bool> windowed;
    for (const LayerConfig& layer : config_.layers) windowed.push_back(layer.window != 0);
    out_.add_bools(full(keys::kWindowPattern), windowed);
  }

  // Writes a window of 0 if no layer has chunks; without the key llama.cpp uses chunks of 8192 positions.
  void write_chunks() {
    if (config_.attention_chunk == 0) integer(keys::kWindow, 0);
    if (!from_.has(keys::kExpertStep)) integer(keys::kExpertStep, 1);
  }

  void write_attention() {
    if (!config_.attends()) return;
    const bool wide = config_.n_layers == to_.gguf_wide_scale_layers;
    const size_t usual = wide ? config_.dim / config_.n_heads : config_.layers[config_.first_attending()].head_dim;
    const auto scale = to_.attention_scale != 0 ? to_.attention_scale
                                                : static_cast<float>(1.0 / std::sqrt(static_cast<double>(usual)));
    if (!config_.latent.used() && scale != config_.attention_scale) {
      number(keys::kAttentionScale, double{config_.attention_scale});
    }
    if (config_.attention_softcap != to_.attention_softcap || config_.attention_softcap != 0) {
      number(keys::kAttentionSoftcap, double{config_.attention_softcap});
    }
    if (config_.query_growth != 0) number(keys::kQueryGrowth, config_.query_growth);
  }

  Status write_factors() {
    if (!to_.recurrent.gguf_folds_factors) {
      TRY(copy_number(keys::kEmbedScale));
      TRY(copy_number(keys::kResidualScale));
      TRY(copy_number(keys::kLogitScale));
    }
    if (config_.logit_softcap != to_.logit_softcap || config_.logit_softcap != 0) {
      number(keys::kLogitSoftcap, double{config_.logit_softcap});
    }
    if (config_.parallel != to_.parallel || from_.has(keys::kParallel)) {
      out_.add_bool(full(keys::kParallel), config_.parallel);
    }
    return {};
  }

  // Writes the keys of latent attention for a file that has attn_kv_b as one tensor instead of two.
  Status write_latent() {
    const LatentAttention& latent = config_.latent;
    if (latent.q_rank != 0) integer(keys::kQRank, latent.q_rank);
    integer(keys::kKvRank, latent.kv_rank);
    integer(keys::kLatentKeyDim, latent.key_dim(), 1);
    integer(keys::kLatentValueDim, latent.value_dim, 1);
    if (!config_.recurs()) return {};
    // llama.cpp also requires the following keys, and the rotary width even without rope.
    integer(keys::kLatentKeyDim, latent.key_dim());
    integer(keys::kLatentValueDim, latent.value_dim);
    if (config_.ropes.empty()) integer(keys::kLatentRopeDim, latent.rope_dim);
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
    // In models with recurrent layers the tensors show which layers have experts, so no period is written.
    if (config_.recurs()) return copy_integer(keys::kLeadingDense);
    TRY(copy_integer(keys::kExpertStep));
    const auto has_experts = [](const LayerConfig& layer) { return layer.has_experts; };
    const auto first = std::ranges::find_if(config_.layers, has_experts) - config_.layers.begin();
    if (first != 0 || from_.has(keys::kLeadingDense)) integer(keys::kLeadingDense, static_cast<size_t>(first));
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

}  // namespace

Status write_gguf_keys(const ModelFile& file, const ModelConfig& config, const Architecture& to, GgufWriter& out) {
  TRY_ASSIGN(const ArchitectureMatch match, find_architecture(file));
  const Hyperparameters from(file, match.prefix);
  return KeyWriter(from, config, to, out).write();
}

}  // namespace ibid
