#include "apps/inspect/facts.h"

#include <algorithm>
#include <cmath>

#include "model/architectures/architectures.h"
#include "model/tensors/tensor_source.h"

namespace ibid {

namespace {

std::string plural(size_t n, const std::string& what) { return std::to_string(n) + " " + what + (n == 1 ? "" : "s"); }

// Returns "all layers" or "layers 0-4, 6-10 (22 of 26)".
std::string layers_text(const std::vector<size_t>& layers, size_t n_layers) {
  if (layers.size() == n_layers) return "all layers";
  return (layers.size() == 1 ? "layer " : "layers ") + ranges_text(layers) + " (" + std::to_string(layers.size()) +
         " of " + std::to_string(n_layers) + ")";
}

template <typename Belongs>
std::vector<size_t> layers_that(const ModelConfig& config, Belongs belongs) {
  std::vector<size_t> layers;
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (belongs(config.layers[l])) layers.push_back(l);
  }
  return layers;
}

bool has_role(const ModelFile& file, const ModelConfig& config, TensorRole role) {
  for (size_t layer = 0; layer < config.n_layers; ++layer) {
    const Result<TensorSource> source = find_source(file, config, tensor_row(role), layer);
    if (source.ok() && source->found()) return true;
  }
  return false;
}

Fact norms_fact(const ModelConfig& config) {
  const std::string kind = config.norm == NormKind::kRms ? "RMSNorm" : "LayerNorm";
  const char* places = "before attention and MLP";
  if (config.norm_places == NormPlaces::kAfter) places = "after attention and MLP";
  if (config.norm_places == NormPlaces::kBoth) places = "before and after attention and MLP";
  std::string text = kind + " " + places + ", epsilon " + short_number_text(config.norm_eps);
  const char* qk = "none";
  if (config.qk_norm == QkNorm::kPerHead) qk = "per head";
  if (config.qk_norm == QkNorm::kEachHead) qk = "per head, a weight for each";
  if (config.qk_norm == QkNorm::kWhole) qk = "over all heads";
  if (config.qk_norm == QkNorm::kUnweighted) qk = "per head, without a weight, in layers with rope";
  if (config.qk_norm != QkNorm::kNone) {
    text += std::string("; of queries and keys ") + qk + (config.qk_norm_after_rope ? ", after rope" : "");
  }
  return {"norms",
          text,
          {{"kind", kind},
           {"before", config.norm_places != NormPlaces::kAfter},
           {"after", config.norm_places != NormPlaces::kBefore},
           {"epsilon", config.norm_eps},
           {"queries_and_keys", qk}}};
}

std::string attention_kind(const ModelConfig& config) {
  if (config.latent.used()) return "latent";
  const size_t most = config.widest(&ModelConfig::n_kv_heads_of);
  if (most == config.n_heads) return "multi-head";
  return most == 1 ? "multi-query" : "grouped-query";
}

// Adds the layers whose heads differ from those of the first layer, and the layers that reuse keys and values of other
// layers.
void add_layers_apart(const ModelConfig& config, std::string& text, Json& json) {
  const LayerConfig& first = config.layers[config.first_attending()];
  const auto apart = layers_that(config, [&](const LayerConfig& layer) {
    if (!layer.attends) return false;
    return layer.head_dim != first.head_dim || layer.n_kv_heads != first.n_kv_heads;
  });
  if (!apart.empty()) {
    const LayerConfig& other = config.layers[apart.front()];
    text += "; heads of " + std::to_string(other.head_dim) + ", " + std::to_string(other.n_kv_heads) +
            " KV heads: " + layers_text(apart, config.n_layers);
    json["apart"] = {{"head_dim", other.head_dim}, {"kv_heads", other.n_kv_heads}, {"layers", apart}};
  }
  const auto reading = layers_that(config, [](const LayerConfig& layer) { return !layer.writes_kv; });
  if (!reading.empty()) text += "; KV of earlier layers: " + layers_text(reading, config.n_layers);
  json["reading_layers"] = reading;
}

Fact attention_fact(const ModelFile& file, const ModelConfig& config) {
  const std::string kind = attention_kind(config);
  const LayerConfig& first = config.layers[config.first_attending()];
  const size_t of_head = config.latent.used() ? config.latent.key_dim() : first.head_dim;
  std::string text = kind + ", " + plural(config.n_heads, "head") + " of " + std::to_string(of_head);
  Json json = {{"kind", kind},
               {"heads", config.n_heads},
               {"kv_heads", first.n_kv_heads},
               {"head_dim", of_head},
               {"scale", config.attention_scale}};
  const bool grouped = first.n_kv_heads != config.n_heads && !config.latent.used();
  if (grouped) text += ", " + std::to_string(first.n_kv_heads) + " KV heads";
  add_layers_apart(config, text, json);
  if (config.latent.used()) {
    const LatentAttention& latent = config.latent;
    text += ", KV latent " + std::to_string(latent.kv_rank) + " wide" +
            (latent.q_rank != 0 ? ", query latent " + std::to_string(latent.q_rank) : "") + "; a key has " +
            std::to_string(latent.nope_dim) + " plain and " + std::to_string(latent.rope_dim) +
            " rotary dimensions, a value " + std::to_string(latent.value_dim) + "; cached per position: a row of " +
            std::to_string(latent.row_dim());
    json["latent"] = {{"kv_rank", latent.kv_rank},   {"q_rank", latent.q_rank},       {"nope_dim", latent.nope_dim},
                      {"rope_dim", latent.rope_dim}, {"value_dim", latent.value_dim}, {"row_dim", latent.row_dim()}};
  }
  const auto key_dim = static_cast<double>(config.latent.used() ? config.latent.key_dim() : first.head_dim);
  const bool usual_scale = std::fabs(config.attention_scale * std::sqrt(key_dim) - 1) < 1e-5;
  if (!usual_scale) text += ", scores times " + short_number_text(config.attention_scale);
  if (config.attention_softcap != 0) text += ", scores capped at " + short_number_text(config.attention_softcap);
  if (config.query_growth != 0) text += ", queries scaled by their position";
  if (config.query_growth_without_rope) text += " in layers without rope";
  if (config.attention_gate) text += ", gated";
  const bool biased = has_role(file, config, TensorRole::kBq), sinks = has_role(file, config, TensorRole::kSinks);
  if (biased) text += ", biases";
  if (sinks) text += ", a learned sink per head";
  if (config.parallel) text += "; parallel to the MLP";
  const auto chunked = layers_that(config, [](const LayerConfig& layer) { return layer.chunked; });
  if (!chunked.empty()) {
    text += "; in chunks of " + std::to_string(config.attention_chunk) + ": " + layers_text(chunked, config.n_layers);
    json["chunks"] = {{"size", config.attention_chunk}, {"layers", chunked}};
  }
  const auto attending = layers_that(config, [](const LayerConfig& layer) { return layer.attends; });
  if (attending.size() != config.n_layers) text += ": " + layers_text(attending, config.n_layers);
  json["layers"] = attending;
  json["softcap"] = config.attention_softcap;
  json["gated"] = config.attention_gate;
  json["biases"] = biased;
  json["sinks"] = sinks;
  json["parallel"] = config.parallel;
  return {"attention", text, std::move(json)};
}

const char* rope_kind(const RopeRule& rule) {
  switch (rule.kind) {
    case RopeRule::Kind::kPlain: return "plain";
    case RopeRule::Kind::kLinear: return "linear";
    case RopeRule::Kind::kYarn: return "yarn";
    case RopeRule::Kind::kLongrope: return "longrope";
  }
  return "";
}

std::string rope_text(const RopeRule& rule, const ModelConfig& config) {
  size_t whole = config.latent.rope_dim;
  for (const LayerConfig& layer : config.layers) {
    if (!config.latent.used() && &config.ropes[layer.rope == kNoRope ? 0 : layer.rope] == &rule) whole = layer.head_dim;
  }
  std::string text = std::string(rope_kind(rule)) + ", base " + short_number_text(rule.theta);
  if (rule.rotary_dim != whole) {
    text += ", " + std::to_string(rule.rotary_dim) + " of " + std::to_string(whole) + " dimensions rotated";
  }
  if (rule.n_rotated_pairs != 0) {
    text += ", the first " + std::to_string(rule.n_rotated_pairs) + " of " + std::to_string(rule.rotary_dim / 2) +
            " pairs of dimensions rotated";
  }
  const std::string original = ", original context " + short_number_text(rule.original_max_positions);
  switch (rule.kind) {
    case RopeRule::Kind::kPlain: break;
    case RopeRule::Kind::kLinear: text += ", positions divided by " + short_number_text(rule.factor); break;
    case RopeRule::Kind::kYarn:
      text += ", factor " + short_number_text(rule.factor) + " between " + short_number_text(rule.beta_slow) + " and " +
              short_number_text(rule.beta_fast) + " turns" + original;
      break;
    case RopeRule::Kind::kLongrope: text += ", other factors beyond its" + original.substr(1); break;
  }
  if (rule.magnitude != 1) text += ", magnitude " + short_number_text(rule.magnitude);
  if (rule.kind == RopeRule::Kind::kPlain && !rule.frequency_factors.empty()) {
    const auto [least, most] = std::ranges::minmax(rule.frequency_factors);
    text += ", a frequency factor for each pair of dimensions (" + short_number_text(least) + " to " +
            short_number_text(most) + ")";
  }
  return text;
}

Json rope_json(const RopeRule& rule, const std::vector<size_t>& layers) {
  return {{"kind", rope_kind(rule)},
          {"base", rule.theta},
          {"rotary_dim", rule.rotary_dim},
          {"factor", rule.factor},
          {"original_context", rule.original_max_positions},
          {"beta_fast", rule.beta_fast},
          {"beta_slow", rule.beta_slow},
          {"magnitude", rule.magnitude},
          {"frequency_factors", rule.frequency_factors},
          {"short_factors", rule.short_factors},
          {"layers", layers}};
}

Fact positions_fact(const ModelConfig& config) {
  if (config.learned_positions) {
    return {"positions", "learned, " + std::to_string(config.trained_context), {{"learned", true}}};
  }
  std::string text;
  Json rules = Json::array();
  for (size_t i = 0; i < config.ropes.size(); ++i) {
    const auto layers = layers_that(config, [&](const LayerConfig& layer) { return layer.rope == i; });
    if (layers.empty()) continue;
    const bool all = layers.size() == config.n_layers;
    text += (text.empty() ? "rope " : "\nrope ") + rope_text(config.ropes[i], config);
    if (!all) text += ": " + layers_text(layers, config.n_layers);
    rules.push_back(rope_json(config.ropes[i], layers));
  }
  const auto without =
      layers_that(config, [](const LayerConfig& layer) { return layer.attends && layer.rope == kNoRope; });
  if (!without.empty()) text += (text.empty() ? "none: " : "\nnone: ") + layers_text(without, config.n_layers);
  return {"positions", text, {{"learned", false}, {"ropes", std::move(rules)}, {"layers_without", without}}};
}

Fact windows_fact(const ModelConfig& config) {
  std::vector<size_t> sizes;
  for (const LayerConfig& layer : config.layers) {
    if (layer.attends && std::ranges::find(sizes, layer.window) == sizes.end()) sizes.push_back(layer.window);
  }
  Json by_layer = Json::array();
  for (const LayerConfig& layer : config.layers) by_layer.push_back(layer.window);
  std::string text;
  for (const size_t size : sizes) {
    const auto layers =
        layers_that(config, [&](const LayerConfig& layer) { return layer.attends && layer.window == size; });
    text += text.empty() ? "" : "\n";
    text += (size == 0 ? "the whole sequence" : std::to_string(size) + " positions") + ": " +
            layers_text(layers, config.n_layers);
  }
  return {"windows", text, std::move(by_layer)};
}

std::string activation_text(const Activation& activation, bool gated) {
  using Kind = Activation::Kind;
  switch (activation.kind) {
    case Kind::kSilu: return gated ? "SwiGLU (SiLU, gated)" : "SiLU";
    case Kind::kGelu: return gated ? "GeGLU (GELU, gated)" : "GELU";
    case Kind::kGeluTanh: return gated ? "GeGLU (GELU by tanh, gated)" : "GELU by tanh";
    case Kind::kReluSquared: return gated ? "ReLU^2, gated" : "ReLU^2";
    case Kind::kSigmoid: return gated ? "GLU (sigmoid, gated)" : "sigmoid";
    case Kind::kXielu: return gated ? "xIELU, gated" : "xIELU";
  }
  return "";
}

void add_mlp(const ModelConfig& config, Facts& facts) {
  const auto dense = layers_that(config, [](const LayerConfig& layer) { return layer.ffn_dim != 0; });
  if (dense.empty()) return;
  size_t least = config.layers[dense.front()].ffn_dim, most = least;
  for (const size_t l : dense) {
    least = std::min(least, config.layers[l].ffn_dim);
    most = std::max(most, config.layers[l].ffn_dim);
  }
  const std::string activation = activation_text(config.layers[dense.front()].activation, config.gated);
  std::string text =
      activation + ", " + std::to_string(least) + (least == most ? "" : " to " + std::to_string(most)) + " wide";
  if (dense.size() != config.n_layers) text += ": " + layers_text(dense, config.n_layers);
  facts.push_back(
      {"MLP", text, {{"activation", activation}, {"gated", config.gated}, {"width", most}, {"layers", dense}}});
}

const char* router_text(const RouterRule& router) {
  switch (router.scores) {
    case RouterScores::kSoftmax: return "softmax";
    case RouterScores::kSoftmaxOfChosen: return "softmax of the chosen";
    case RouterScores::kSigmoidOfChosen: return "sigmoids of the chosen, which weigh their inputs";
    case RouterScores::kSigmoid: return "sigmoid";
  }
  return "";
}

void add_experts(const ModelFile& file, const ModelConfig& config, Facts& facts) {
  if (!config.has_experts()) return;
  const MoeRule& moe = config.moe;
  const RouterRule& router = moe.router;
  const auto layers = layers_that(config, [](const LayerConfig& layer) { return layer.has_experts; });
  const bool bias = has_role(file, config, TensorRole::kChoiceBias);
  std::string text = std::to_string(router.n_experts_active) + " of " + plural(router.n_experts, "expert") + ", " +
                     std::to_string(moe.ffn_dim) + " wide, " +
                     (moe.swiglu_limit != 0 ? "SwiGLU clamped at " + short_number_text(moe.swiglu_limit)
                                            : activation_text(moe.activation, true));
  text += moe.shared_ffn_dim == 0 ? ", none shared" : ", a shared one " + std::to_string(moe.shared_ffn_dim) + " wide";
  if (layers.size() != config.n_layers) text += ": " + layers_text(layers, config.n_layers);
  text += std::string("\nrouter: ") + router_text(router) + (router.normalized ? ", normalised" : "");
  if (bias) text += ", selection bias";
  if (router.n_groups > 1) {
    text += ", " + std::to_string(router.n_groups_active) + " of " + plural(router.n_groups, "group");
  }
  if (router.weight_scale != 1) text += ", weights times " + short_number_text(router.weight_scale);
  facts.push_back({"experts",
                   text,
                   {{"experts", router.n_experts},
                    {"active", router.n_experts_active},
                    {"width", moe.ffn_dim},
                    {"shared_width", moe.shared_ffn_dim},
                    {"router", router_text(router)},
                    {"normalized", router.normalized},
                    {"choice_bias", bias},
                    {"groups", router.n_groups},
                    {"groups_active", router.n_groups_active},
                    {"weight_scale", router.weight_scale},
                    {"layers", layers}}});
}

void add_beside_layers(const ModelConfig& config, Facts& facts) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
  if (config.layer_inputs.used()) add("inputs of each layer " + std::to_string(config.layer_inputs.dim) + " wide");
  if (config.altup.used()) add(plural(config.altup.n_streams, "stream") + " (AltUp)");
  if (config.laurel_rank != 0) add("LAuReL of rank " + std::to_string(config.laurel_rank));
  if (text.empty()) return;
  facts.push_back({"beside the layers",
                   text,
                   {{"layer_inputs", config.layer_inputs.dim},
                    {"streams", config.altup.n_streams},
                    {"laurel_rank", config.laurel_rank}}});
}

void add_factors(const ModelConfig& config, Facts& facts) {
  std::string text;
  Json json = Json::object();
  const auto add = [&](const char* name, float value, float none) {
    if (value == none) return;
    text += (text.empty() ? "" : ", ") + std::string(name) + " " + short_number_text(value);
    json[name] = value;
  };
  add("embeddings", config.embed_scale, 1);
  add("residuals", config.residual_scale, 1);
  add("logits", config.logit_scale, 1);
  add("logit cap", config.logit_softcap, 0);
  if (!text.empty()) facts.push_back({"factors", text, std::move(json)});
}

Fact parameters_fact(const ParameterCount& count) {
  std::string text = grouped_text(count.total);
  if (count.active != count.total) text += ", " + grouped_text(count.active) + " of them active per token";
  return {"parameters", text, {{"total", count.total}, {"active", count.active}}};
}

}  // namespace

Facts model_facts(const ModelFile& file, const ModelConfig& config, const std::vector<TensorUse>& uses) {
  Facts facts;
  facts.push_back({"architecture", config.architecture, config.architecture});
  facts.push_back(parameters_fact(count_parameters(uses, &config)));
  facts.push_back({"layers", std::to_string(config.n_layers), config.n_layers});
  facts.push_back({"width", std::to_string(config.dim), config.dim});
  facts.push_back({"trained context", std::to_string(config.trained_context), config.trained_context});
  facts.push_back(norms_fact(config));
  if (config.attends()) {
    facts.push_back(attention_fact(file, config));
    facts.push_back(positions_fact(config));
    facts.push_back(windows_fact(config));
  }
  if (config.recurs()) facts.push_back(recurrent_fact(config));
  add_mlp(config, facts);
  add_experts(file, config, facts);
  add_beside_layers(config, facts);
  add_factors(config, facts);
  if (config.pooling) {
    const std::string pooling(pooling_name(*config.pooling));
    facts.push_back({"embeddings", pooling == "mean" ? "mean pooling" : "last-token pooling", {{"pooling", pooling}}});
  }
  const Result<TensorSource> head = find_source(file, config, tensor_row(TensorRole::kLmHead));
  const bool own = head.ok() && head->found();
  const std::string rows = std::to_string(config.vocab_size);
  facts.push_back({"vocabulary",
                   rows + (own ? ", separate LM head" : ", tied LM head"),
                   {{"rows", config.vocab_size}, {"tied", !own}}});
  return facts;
}

Facts metadata_facts(const ModelFile& file, const std::vector<TensorUse>& uses) {
  const bool gguf = file.container() == Container::kGguf;
  Facts facts;
  std::string prefix;
  const auto name = file.get_string(gguf ? "general.architecture" : "model_type");
  if (name.ok() && *name) {
    facts.push_back({"architecture", std::string(**name), std::string(**name)});
    if (gguf) prefix = std::string(**name) + ".";
  }
  const ParameterCount count = count_parameters(uses, nullptr);
  if (count.total > 0) facts.push_back(parameters_fact(count));
  struct Number {
    const char* name;
    const char* gguf;
    const char* hf;
  };
  constexpr Number kNumbers[] = {{"layers", "block_count", "num_hidden_layers"},
                                 {"width", "embedding_length", "hidden_size"},
                                 {"trained context", "context_length", "max_position_embeddings"},
                                 {"heads", "attention.head_count", "num_attention_heads"}};
  for (const Number& number : kNumbers) {
    const std::string key = prefix + (gguf ? number.gguf : number.hf);
    for (const std::string& spelling : {key, "text_config." + key}) {
      const auto value = file.get_int(spelling);
      if (!value.ok() || !*value) continue;
      facts.push_back({number.name, std::to_string(**value), **value});
      break;
    }
  }
  return facts;
}

}  // namespace ibid
