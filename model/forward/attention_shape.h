// Translates a layer's configuration for the attention kernel, and those of all layers for the cache.
#pragma once

#include <vector>

#include "cache/pages/kv_layout.h"
#include "kernels/attention/attention.h"
#include "model/architecture/config.h"

namespace ibid {

inline AttentionShape attention_shape(const ModelConfig& config, size_t layer) {
  AttentionShape shape;
  shape.n_heads = config.n_heads;
  shape.n_kv_heads = config.layers[layer].n_kv_heads;
  shape.head_dim = config.layers[layer].head_dim;
  shape.scale = config.attention_scale;
  shape.window = config.layers[layer].window;
  shape.softcap = config.attention_softcap;
  return shape;
}

// The rows and states of the layers that keep any, in their order; LayerConfig::kv_layer and state_layer are indices
// into them.
inline KvLayout kv_layout_of(const ModelConfig& config, KvDType dtype) {
  std::vector<KvRowShape> rows;
  std::vector<StateShape> states;
  for (const LayerConfig& layer : config.layers) {
    if (layer.attends && layer.writes_kv) rows.push_back({layer.n_kv_heads, layer.head_dim});
    if (layer.state_layer != kNoState) {
      states.push_back({config.recurrent.state_floats_of_layer(), config.recurrent.log_floats()});
    }
  }
  return KvLayout::make(rows, dtype, states);
}

}  // namespace ibid
