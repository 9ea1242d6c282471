#include "apps/inspect/facts.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "apps/models/model_arguments.h"
#include "model/config/attention_shape.h"
#include "model/memory_plan.h"

namespace ibid {

Json facts_json(const Facts& facts) {
  Json json = Json::object();
  for (const Fact& fact : facts) {
    std::string key = fact.name;
    std::replace(key.begin(), key.end(), ' ', '_');
    json[key] = fact.value;
  }
  return json;
}

std::string ranges_text(const std::vector<size_t>& increasing, size_t most) {
  std::string text;
  size_t n_ranges = 0;
  for (size_t i = 0; i < increasing.size(); ++n_ranges) {
    if (n_ranges == most) return text + ", ...";
    size_t last = i;
    while (last + 1 < increasing.size() && increasing[last + 1] == increasing[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(increasing[i]);
    if (last > i) text += "-" + std::to_string(increasing[last]);
    i = last + 1;
  }
  return text;
}

std::string short_number_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, value == static_cast<double>(static_cast<int64_t>(value)) ? "%.0f" : "%.5g", value);
  return text;
}

std::string grouped_text(uint64_t value) {
  std::string text = std::to_string(value);
  for (size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, ",");
  return text;
}

namespace {

const char* recurrent_kind(RecurrentRule rule) {
  switch (rule) {
    case RecurrentRule::kShortConv: return "short convolution";
    case RecurrentRule::kMamba1: return "Mamba";
    case RecurrentRule::kMamba2: return "Mamba-2";
    case RecurrentRule::kGatedDelta: return "gated delta rule";
    case RecurrentRule::kKeyedDelta: return "gated delta rule with a decay for each key";
    case RecurrentRule::kLightning: return "lightning attention";
    case RecurrentRule::kNone: break;
  }
  return "none";
}

}  // namespace

Fact recurrent_fact(const ModelConfig& config) {
  std::vector<size_t> layers;
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (config.layers[l].state_layer != kNoState) layers.push_back(l);
  }
  const RecurrentMixer& mixer = config.recurrent;
  std::string text = recurrent_kind(mixer.rule);
  if (mixer.has_heads()) {
    text += ", " + std::to_string(mixer.n_heads) + " heads of " + std::to_string(mixer.key_dim) + " by " +
            std::to_string(mixer.value_dim);
    if (mixer.n_key_heads != mixer.n_heads) text += ", " + std::to_string(mixer.n_key_heads) + " key heads";
  } else {
    text += ", " + std::to_string(mixer.v_width()) + " channels";
    if (mixer.scans()) text += " of " + std::to_string(mixer.key_dim);
  }
  if (mixer.n_taps > 1) text += ", a convolution of " + std::to_string(mixer.n_taps);
  text += layers.size() == config.n_layers ? ": all layers" : ": layers " + ranges_text(layers);
  return {"recurrent",
          text,
          {{"kind", recurrent_kind(mixer.rule)},
           {"heads", mixer.n_heads},
           {"key_heads", mixer.n_key_heads},
           {"key_dim", mixer.key_dim},
           {"value_dim", mixer.value_dim},
           {"taps", mixer.n_taps},
           {"state_bytes", layers.size() * mixer.state_floats_of_layer() * sizeof(float)},
           {"layers", layers}}};
}

namespace {

const char* part_name(KvNumberFormat part) {
  constexpr const char* kNames[] = {"32 bits", "16 bits", "8 bits", "4 bits"};
  return kNames[static_cast<size_t>(part)];
}

// Appends the layers whose keys or values are more precise than the KV type: "keys in 16 bits: 0-2, 4, 8 (5 of 24)".
void add_exceptions(const ModelConfig& config, const KvLayout& layout, bool keys, std::string& text, Json& json) {
  const KvRowFormat usual(layout.dtype());
  for (const KvNumberFormat part : {KvNumberFormat::kF16, KvNumberFormat::kInt8}) {
    if (part >= (keys ? usual.keys : usual.values)) continue;
    std::vector<size_t> layers;
    for (size_t l = 0; l < config.n_layers; ++l) {
      const LayerConfig& of = config.layers[l];
      if (!of.attends || !of.writes_kv) continue;
      const KvHeadBlock& block = layout.layer(of.kv_layer).block;
      if (block.is_latent() && !keys) continue;
      if ((keys ? block.keys() : block.values()) == part) layers.push_back(l);
    }
    if (layers.empty()) continue;
    const char* name = keys ? "keys" : "values";
    text += (text.empty() ? "" : "; ") + std::string(name) + " in " + part_name(part) + ": layers " +
            ranges_text(layers) + " (" + std::to_string(layers.size()) + " of " + std::to_string(layout.n_layers()) +
            ")";
    json[std::string(name) + (part == KvNumberFormat::kF16 ? "_in_16_bits" : "_in_8_bits")] = std::move(layers);
  }
}

Fact kv_rows_fact(const ModelConfig& config, ModelOptions options, const KvType& type, std::span<const KvNoise> noise) {
  options.kv_dtype = type.dtype;
  const KvLayout layout = kv_layout_of(config, options, noise);
  const KvLayout plain = kv_layout_of(config, options, {});
  const size_t extra = (layout.page_bytes() - plain.page_bytes()) / kPagePositions;
  Json json = {{"bytes_per_position", layout.page_bytes() / kPagePositions}, {"extra_bytes_per_position", extra}};
  std::string text;
  add_exceptions(config, layout, true, text, json);
  add_exceptions(config, layout, false, text, json);
  text = text.empty() ? "all layers alike" : text + "; " + format_bytes(extra) + " more per position";
  return {type.name, text, std::move(json)};
}

}  // namespace

Facts kv_rows_facts(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise) {
  Facts facts;
  for (const KvType& type : kKvTypes) {
    if (is_coded(KvRowFormat(type.dtype).keys)) facts.push_back(kv_rows_fact(config, options, type, noise));
  }
  return facts;
}

namespace {

Fact token_fact(const char* name, std::optional<TokenId> id, const Tokenizer& tokenizer) {
  if (!id) return {name, "none", nullptr};
  const std::string text(tokenizer.token_bytes(*id));
  return {name, text + " (" + std::to_string(*id) + ")", {{"id", *id}, {"text", text}}};
}

}  // namespace

Facts tokenizer_facts(const std::optional<TokenizerKind>& kind, const Tokenizer* tokenizer) {
  Facts facts;
  if (kind) {
    facts.push_back({"family", kind->family, kind->family});
    if (!kind->pre_tokenizer.empty()) facts.push_back({"pre tokenizer", kind->pre_tokenizer, kind->pre_tokenizer});
  }
  if (tokenizer == nullptr) return facts;
  size_t n_special = 0;
  const auto n = static_cast<TokenId>(tokenizer->vocab_size());
  for (TokenId id = 0; id < n; ++id) n_special += tokenizer->is_special(id) ? 1 : 0;
  facts.push_back({"tokens", std::to_string(n) + ", " + std::to_string(n_special) + " of them special", n});
  facts.push_back(token_fact("begins a text", tokenizer->bos(), *tokenizer));
  facts.push_back(token_fact("ends a text", tokenizer->eos(), *tokenizer));
  std::string text;
  Json ids = Json::array();
  for (const TokenId id : tokenizer->end_of_turn()) {
    text += (text.empty() ? "" : ", ") + std::string(tokenizer->token_bytes(id)) + " (" + std::to_string(id) + ")";
    ids.push_back(id);
  }
  facts.push_back({"ends a turn", text.empty() ? "nothing" : text, std::move(ids)});
  return facts;
}

}  // namespace ibid
