#include "model/architectures/rules.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "model/architectures/keys.h"

namespace ibid {

namespace {

constexpr double kMaxTheta = 1e12;

// Reads the members of one rope rule in config.json, such as "rope_scaling." or "rope_parameters.full_attention.".
class HfRule {
 public:
  HfRule(const Hyperparameters& file, std::string section) : file_(file), section_(std::move(section)) {}

  bool has(const char* name) const {
    return with(name, [&](const Key& key) { return file_.has(key); });
  }
  Result<double> positive(const char* name, std::optional<double> fallback = {}) const {
    return with(name, [&](const Key& key) { return file_.positive(key, kMaxFactor, fallback); });
  }
  Result<double> theta(double fallback) const {
    return with("rope_theta", [&](const Key& key) { return file_.positive(key, kMaxTheta, fallback); });
  }
  Result<bool> flag(const char* name, bool fallback) const {
    return with(name, [&](const Key& key) { return file_.flag(key, fallback); });
  }
  Result<std::string> kind() const {
    TRY_ASSIGN(auto kind, with("rope_type", [&](const Key& key) { return file_.text(key); }));
    if (!kind) {
      TRY_ASSIGN(kind, with("type", [&](const Key& key) { return file_.text(key); }));
    }
    return kind.value_or("default");
  }
  Result<std::vector<float>> factors(const char* name, size_t n) const {
    return with(name, [&](const Key& key) -> Result<std::vector<float>> {
      TRY_ASSIGN(const auto listed, file_.numbers(key, n));
      const std::vector<double> numbers = listed.value_or(std::vector<double>());
      if (numbers.empty()) return file_.bad(key, "missing", std::to_string(n) + " numbers");
      for (const double value : numbers) {
        if (!(value > 0)) return file_.bad(key, "an array with " + std::to_string(value), "positive numbers");
      }
      return std::vector<float>(numbers.begin(), numbers.end());
    });
  }
  Status bad(const char* name, const std::string& value, const std::string& wanted) const {
    return with(name, [&](const Key& key) { return file_.bad(key, value, wanted); });
  }

 private:
  template <typename Use>
  std::invoke_result_t<Use, const Key&> with(const char* name, Use&& use) const {
    const std::string full = section_ + name;
    return use(Key{name, "", full.c_str()});
  }

  const Hyperparameters& file_;
  std::string section_;
};

Status unsupported(const Hyperparameters& file, const std::string& kind) {
  return {ErrorCode::kUnsupported, file.file().path() + ": rope scaling '" + kind +
                                       "' is not supported (supported: linear, llama3, yarn, longrope, proportional)"};
}

double longrope_magnitude(double factor, double original) {
  return factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(original));
}

// Reads the context before extension, which several rules need. A key outside the rule's section overrides the same key
// within.
Status read_original(const Hyperparameters& file, const HfRule& hf, const ModelConfig& config, RopeRule& rule) {
  constexpr Key kBeside{"original_max_position_embeddings", "", "original_max_position_embeddings"};
  if (file.has(kBeside)) {
    TRY_ASSIGN(rule.original_max_positions, file.positive(kBeside, static_cast<double>(kMaxPositions)));
    return {};
  }
  TRY_ASSIGN(rule.original_max_positions,
             hf.positive("original_max_position_embeddings", static_cast<double>(config.trained_context)));
  return {};
}

Status read_llama3(const HfRule& hf, RopeRule& rule) {
  Llama3Rule llama3{};
  TRY_ASSIGN(llama3.factor, hf.positive("factor"));
  TRY_ASSIGN(llama3.low_freq_factor, hf.positive("low_freq_factor"));
  TRY_ASSIGN(llama3.high_freq_factor, hf.positive("high_freq_factor"));
  llama3.original_max_positions = rule.original_max_positions;
  if (llama3.high_freq_factor <= llama3.low_freq_factor) {
    return hf.bad("high_freq_factor", std::to_string(llama3.high_freq_factor), "more than low_freq_factor");
  }
  rule.frequency_factors = llama3_frequency_factors(llama3, rule.theta, rule.rotary_dim);
  return {};
}

Status read_yarn(const HfRule& hf, const ModelConfig& config, RopeRule& rule) {
  const double stretched = static_cast<double>(config.trained_context) / rule.original_max_positions;
  TRY_ASSIGN(rule.factor, hf.positive("factor", stretched));
  TRY_ASSIGN(rule.beta_fast, hf.positive("beta_fast", 32.0));
  TRY_ASSIGN(rule.beta_slow, hf.positive("beta_slow", 1.0));
  TRY_ASSIGN(rule.truncate, hf.flag("truncate", true));
  rule.magnitude = yarn_magnitude(rule.factor, 1.0);
  if (hf.has("mscale") && hf.has("mscale_all_dim")) {
    TRY_ASSIGN(const double mscale, hf.positive("mscale"));
    TRY_ASSIGN(const double all, hf.positive("mscale_all_dim"));
    rule.magnitude = yarn_magnitude(rule.factor, mscale) / yarn_magnitude(rule.factor, all);
  }
  TRY_ASSIGN(rule.magnitude, hf.positive("attention_factor", rule.magnitude));
  return {};
}

Status read_longrope(const HfRule& hf, const ModelConfig& config, RopeRule& rule) {
  TRY_ASSIGN(rule.frequency_factors, hf.factors("long_factor", rule.rotary_dim / 2));
  TRY_ASSIGN(rule.short_factors, hf.factors("short_factor", rule.rotary_dim / 2));
  const double stretched = static_cast<double>(config.trained_context) / rule.original_max_positions;
  TRY_ASSIGN(const double factor, hf.positive("factor", stretched));
  TRY_ASSIGN(rule.magnitude, hf.positive("attention_factor", longrope_magnitude(factor, rule.original_max_positions)));
  return {};
}

// Returns the head_dim of the layers that use this rule.
size_t head_dim_of(const ModelConfig& config, const RopeRule& rule) {
  const auto number = static_cast<size_t>(&rule - config.ropes.data());
  for (const LayerConfig& layer : config.layers) {
    if (layer.attends && layer.rope == number) return layer.head_dim;
  }
  return config.layers.front().head_dim;
}

// Reads the members of rope_scaling or rope_parameters. REQUIRES: rule.rotary_dim and theta are read.
Status read_hf_scaling(const Hyperparameters& file, const HfRule& hf, const ModelConfig& config, RopeRule& rule) {
  TRY_ASSIGN(const std::string kind, hf.kind());
  if (kind == "default" || kind == "mrope") return {};  // for text M-RoPE equals plain rope
  if (kind == "linear") {
    rule.kind = RopeRule::Kind::kLinear;
    TRY_ASSIGN(rule.factor, hf.positive("factor"));
    return {};
  }
  if (kind == "dynamic" && hf.has("alpha")) {  // Hunyuan's form: theta is scaled by a constant
    TRY_ASSIGN(const double alpha, hf.positive("alpha"));
    const auto n = static_cast<double>(rule.rotary_dim);
    if (rule.rotary_dim > 2) rule.theta *= std::pow(alpha, n / (n - 2));
    return {};
  }
  if (kind == "dynamic") return {};  // affects only positions beyond the trained context
  if (kind == "proportional") {      // rotates a share of a head's pairs, at the frequencies of a whole head
    rule.n_rotated_pairs = rule.rotary_dim / 2;
    rule.rotary_dim = head_dim_of(config, rule);
    if (!hf.has("factor")) return {};
    rule.kind = RopeRule::Kind::kLinear;
    TRY_ASSIGN(rule.factor, hf.positive("factor"));
    return {};
  }
  TRY(read_original(file, hf, config, rule));
  if (kind == "llama3") return read_llama3(hf, rule);
  if (kind == "yarn" && !hf.has("long_factor")) {
    rule.kind = RopeRule::Kind::kYarn;
    return read_yarn(hf, config, rule);
  }
  if (kind == "longrope" || hf.has("long_factor")) {  // early Phi-3 files call longrope "su" or "yarn"
    rule.kind = RopeRule::Kind::kLongrope;
    return read_longrope(hf, config, rule);
  }
  return unsupported(file, kind);
}

// Returns how many dimensions of a head are rotated, from the share in config.json; must be an even number.
Result<size_t> hf_rotary_dim(const Hyperparameters& file, const std::string& section, const Architecture& row,
                             const ModelConfig& config, const RopeRule& rule) {
  const size_t head_dim = head_dim_of(config, rule);
  if (config.latent.used()) return config.latent.rope_dim;
  const std::string within = section + "partial_rotary_factor|partial_rotary_factor|rotary_pct";
  const Key key{"rotary share", "", within.c_str()};
  TRY_ASSIGN(const double listed, file.positive(key, 1.0, row.rotary_share));
  const double share = row.rotary_share_is_fixed ? row.rotary_share : listed;
  const auto n = static_cast<size_t>(share * static_cast<double>(head_dim));
  if (n >= 2 && n % 2 == 0) return n;
  return file.bad(key, std::to_string(share),
                  "a share of " + std::to_string(head_dim) + " dimensions that gives an even number of them");
}

Status read_hf_rule(const Hyperparameters& file, const std::string& section, const Architecture& row,
                    const ModelConfig& config, RopeRule& rule) {
  const HfRule hf(file, section);
  TRY_ASSIGN(rule.rotary_dim, hf_rotary_dim(file, section, row, config, rule));
  TRY_ASSIGN(rule.theta, file.positive(keys::kTheta, kMaxTheta, 10000.0));
  TRY_ASSIGN(rule.theta, hf.theta(rule.theta));
  return read_hf_scaling(file, hf, config, rule);
}

// Reads the rules of config.json: `rope_scaling` next to `rope_theta` (most files), both within `rope_parameters`, or
// one section of `rope_parameters` for each kind of layer.
Status read_hf_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  constexpr Key kTogether{"rope", "", "rope_parameters"};
  constexpr Key kFull{"rope", "", "rope_parameters.full_attention"};
  const bool two = row.rope_layers == RopeLayers::kTwoRules;
  config.ropes.resize(two ? 2 : 1);
  if (file.has(kFull)) {
    TRY(read_hf_rule(file, "rope_parameters.full_attention.", row, config, config.ropes[0]));
    return two ? read_hf_rule(file, "rope_parameters.sliding_attention.", row, config, config.ropes[1]) : Status();
  }
  TRY(read_hf_rule(file, file.has(kTogether) ? "rope_parameters." : "rope_scaling.", row, config, config.ropes[0]));
  if (!two) return {};
  TRY_ASSIGN(config.ropes[1].rotary_dim, hf_rotary_dim(file, "rope_scaling.", row, config, config.ropes[1]));
  const double fallback = row.windowed_theta == 0 ? config.ropes[0].theta : row.windowed_theta;
  TRY_ASSIGN(config.ropes[1].theta, file.positive(keys::kWindowedTheta, kMaxTheta, fallback));
  return {};
}

// Reads a tensor with one factor per rotated pair; leaves `factors` empty if the file lacks the tensor.
Status read_factors(const ModelFile& file, const char* name, size_t wanted, std::vector<float>& factors) {
  const TensorView* tensor = file.find_tensor(name);
  if (tensor == nullptr) return {};
  if (tensor->dtype != DType::kF32 || tensor->shape.elements() != wanted) {
    return {ErrorCode::kBadShape, file.path() + ": " + name + " is " + std::string(dtype_name(tensor->dtype)) + " " +
                                      tensor->shape.to_string() + ", expected F32 [" + std::to_string(wanted) + "]"};
  }
  factors.resize(wanted);
  std::memcpy(factors.data(), tensor->data.data(), wanted * sizeof(float));
  for (const float factor : factors) {
    if (!(factor > 0) || !std::isfinite(factor)) {
      return {ErrorCode::kNonFinite, file.path() + ": " + name + " holds a factor that is not positive"};
    }
  }
  return {};
}

// If the first factors are 1 and the others kUnrotated, replaces them by the number of rotated pairs.
void replace_unrotated_factors(RopeRule& rule) {
  std::vector<float>& factors = rule.frequency_factors;
  const auto is_one = [](float factor) { return factor == 1; };
  const auto is_unrotated = [](float factor) { return factor >= kUnrotated; };
  const auto end = std::ranges::find_if_not(factors, is_one);
  if (end == factors.begin() || end == factors.end() || !std::all_of(end, factors.end(), is_unrotated)) return;
  rule.n_rotated_pairs = static_cast<size_t>(end - factors.begin());
  factors.clear();
}

// Reads frequency factors from GGUF: one tensor for llama3's rule, two (long and short) for longrope's.
Status read_gguf_factors(const Hyperparameters& file, RopeRule& rule) {
  TRY(read_factors(file.file(), kRopeFactors, rule.rotary_dim / 2, rule.frequency_factors));
  replace_unrotated_factors(rule);
  if (file.file().find_tensor(kLongRopeFactors) == nullptr) return {};
  rule.kind = RopeRule::Kind::kLongrope;
  TRY(read_factors(file.file(), kLongRopeFactors, rule.rotary_dim / 2, rule.frequency_factors));
  TRY(read_factors(file.file(), kShortRopeFactors, rule.rotary_dim / 2, rule.short_factors));
  if (rule.short_factors.empty()) {
    return {ErrorCode::kMissingTensor, file.file().path() + ": tensor rope_factors_short.weight is missing"};
  }
  TRY_ASSIGN(rule.magnitude, file.positive(keys::kRopeMagnitude, kMaxFactor, 1.0));
  return {};
}

Status read_gguf_scaling(const Hyperparameters& file, const ModelConfig& config, RopeRule& rule) {
  // A file with a factor but without a type means linear scaling, unless it has longrope's tensors.
  TRY_ASSIGN(const std::optional<std::string> named, file.text(keys::kRopeScaling));
  const bool is_long = file.file().find_tensor(kLongRopeFactors) != nullptr;
  const std::string kind = named && !named->empty()                  ? *named
                           : file.has(keys::kRopeFactor) && !is_long ? "linear"
                                                                     : "none";
  const auto context = static_cast<double>(config.trained_context);
  TRY_ASSIGN(rule.original_max_positions,
             file.positive(keys::kRopeOriginal, static_cast<double>(kMaxPositions), context));
  if (kind == "linear") {
    TRY_ASSIGN(const double factor, file.number(keys::kRopeFactor, kMaxFactor, 0.0));
    if (factor == 0) return read_gguf_factors(file, rule);  // no scaling
    rule.kind = RopeRule::Kind::kLinear;
    TRY_ASSIGN(rule.factor, file.positive(keys::kRopeFactor, kMaxFactor));
  } else if (kind == "yarn") {
    rule.kind = RopeRule::Kind::kYarn;
    TRY_ASSIGN(rule.factor, file.positive(keys::kRopeFactor, kMaxFactor));
    TRY_ASSIGN(rule.beta_fast, file.positive(keys::kYarnFast, kMaxFactor, 32.0));
    TRY_ASSIGN(rule.beta_slow, file.positive(keys::kYarnSlow, kMaxFactor, 1.0));
    TRY_ASSIGN(const double multiplier, file.number(keys::kYarnTenth, kMaxFactor, 0.0));
    TRY_ASSIGN(const double beside, file.positive(keys::kRopeMagnitude, kMaxFactor, 1.0));
    rule.magnitude = gguf_yarn_magnitude(rule.factor, multiplier, config.latent.used()) * beside;
  } else if (kind != "none" && kind != "longrope") {
    return unsupported(file, kind);
  }
  return read_gguf_factors(file, rule);
}

Result<size_t> gguf_rotary_dim(const Hyperparameters& file, const Key& key, size_t head_dim) {
  TRY_ASSIGN(const size_t n, file.integer(key, 2, static_cast<int64_t>(head_dim), head_dim));
  if (n % 2 != 0) return file.bad(key, std::to_string(n), "an even number");
  return n;
}

Status read_gguf_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const bool two = row.rope_layers == RopeLayers::kTwoRules;
  config.ropes.resize(two ? 2 : 1);
  RopeRule& rule = config.ropes[0];
  TRY_ASSIGN(rule.rotary_dim, gguf_rotary_dim(file, keys::kRotaryDim, head_dim_of(config, rule)));
  TRY_ASSIGN(rule.theta, file.positive(keys::kTheta, kMaxTheta, 10000.0));
  rule.truncate = row.yarn_truncates;
  TRY(read_gguf_scaling(file, config, rule));
  if (!two) return {};
  const size_t windowed_dim = head_dim_of(config, config.ropes[1]);
  const bool alike = windowed_dim == head_dim_of(config, rule);
  TRY_ASSIGN(
      config.ropes[1].rotary_dim,
      gguf_rotary_dim(file, alike && !file.has(keys::kWindowedRotaryDim) ? keys::kRotaryDim : keys::kWindowedRotaryDim,
                      windowed_dim));
  const double fallback = row.windowed_theta == 0 ? rule.theta : row.windowed_theta;
  TRY_ASSIGN(config.ropes[1].theta, file.positive(keys::kWindowedTheta, kMaxTheta, fallback));
  return {};
}

// Rounds to 32 bits as in GGUF, so that a checkpoint and its converted model rotate by the same angles.
void round_as_gguf(RopeRule& rule) {
  for (double* number :
       {&rule.theta, &rule.factor, &rule.original_max_positions, &rule.beta_fast, &rule.beta_slow, &rule.magnitude}) {
    *number = static_cast<double>(static_cast<float>(*number));
  }
}

}  // namespace

double yarn_magnitude(double factor, double multiplier) {
  return factor <= 1 ? 1.0 : 0.1 * multiplier * std::log(factor) + 1.0;
}

double gguf_yarn_magnitude(double factor, double log_multiplier, bool latent) {
  const double whole = latent ? LatentAttention::whole_multiplier(log_multiplier) : log_multiplier;
  return yarn_magnitude(factor, 1.0) / yarn_magnitude(factor, whole);
}

Status read_ropes(const Hyperparameters& file, const Architecture& row, ModelConfig& config) {
  const auto turns = [](const LayerConfig& layer) { return layer.attends && layer.rope != kNoRope; };
  if (row.rope_layers == RopeLayers::kNone || std::ranges::none_of(config.layers, turns)) return {};
  TRY(file.gguf() ? read_gguf_ropes(file, row, config) : read_hf_ropes(file, row, config));
  for (RopeRule& rule : config.ropes) round_as_gguf(rule);
  return {};
}

}  // namespace ibid
