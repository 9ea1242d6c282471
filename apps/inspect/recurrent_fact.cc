#include "apps/inspect/recurrent_fact.h"

#include <string>
#include <vector>

namespace ibid {

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
    if (mixer.n_key_heads != mixer.n_heads) text += ", " + std::to_string(mixer.n_key_heads) + " of keys";
  } else {
    text += ", " + std::to_string(mixer.v_width()) + " channels";
    if (mixer.scans()) text += " of " + std::to_string(mixer.key_dim);
  }
  if (mixer.n_taps > 1) text += ", a convolution of " + std::to_string(mixer.n_taps);
  text += layers.size() == config.n_layers ? ": all layers" : ": layers " + ranges_text(layers);
  return {"recurrent", text,
          {{"kind", recurrent_kind(mixer.rule)},
           {"heads", mixer.n_heads},
           {"key_heads", mixer.n_key_heads},
           {"key_dim", mixer.key_dim},
           {"value_dim", mixer.value_dim},
           {"taps", mixer.n_taps},
           {"state_bytes", layers.size() * mixer.state_floats_of_layer() * sizeof(float)},
           {"layers", layers}}};
}

}  // namespace ibid
