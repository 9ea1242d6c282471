#include "apps/inspect/kv_rows_facts.h"

#include <string>
#include <vector>

#include "apps/models/kv_types.h"
#include "model/config/attention_shape.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

const char* part_name(KvPart part) {
  constexpr const char* kNames[] = {"32 bits", "16 bits", "8 bits", "4 bits"};
  return kNames[static_cast<size_t>(part)];
}

// The layers of the model whose keys, or values, are finer than the type's: "keys in 16 bits: 0-2, 4, 8 (5 of 24)".
void add_exceptions(const ModelConfig& config, const KvLayout& layout, bool keys, std::string& text, Json& json) {
  const KvRowFormat usual(layout.dtype());
  for (const KvPart part : {KvPart::kF16, KvPart::kInt8}) {
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
    json[std::string(name) + (part == KvPart::kF16 ? "_in_16_bits" : "_in_8_bits")] = std::move(layers);
  }
}

Fact kv_rows_fact(const ModelConfig& config, ModelOptions options, const KvType& type,
                  std::span<const KvNoise> noise) {
  options.kv_dtype = type.dtype;
  const KvLayout layout = kv_layout_of(config, options, noise);
  const KvLayout plain = kv_layout_of(config, options, {});
  const size_t extra = (layout.page_bytes() - plain.page_bytes()) / kPagePositions;
  Json json = {{"bytes_per_position", layout.page_bytes() / kPagePositions}, {"extra_bytes_per_position", extra}};
  std::string text;
  add_exceptions(config, layout, true, text, json);
  add_exceptions(config, layout, false, text, json);
  text = text.empty() ? "all layers alike" : text + "; " + format_bytes(extra) + " more a position";
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

}  // namespace ibid
