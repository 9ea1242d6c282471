// Translates a layer's configuration for the attention kernel, and those of all layers for the cache.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "cache/pages/kv_layout.h"
#include "kernels/ops/attention.h"
#include "model/config/config.h"

namespace ibid {

inline AttentionShape attention_shape(const ModelConfig& config, size_t layer) {
  AttentionShape shape;
  shape.n_heads = config.n_heads;
  shape.n_kv_heads = config.layers[layer].n_kv_heads;
  shape.head_dim = config.layers[layer].head_dim;
  shape.latent_dim = config.latent.row_value_dim();
  shape.scale = config.attention_scale / (config.scale_by_depth ? static_cast<float>(layer + 1) : 1.0f);
  shape.window = config.layers[layer].window;
  shape.softcap = config.attention_softcap;
  return shape;
}

// How far back anybody reads the rows of a cache layer; 0: to the beginning, as in a context that is no longer than the
// window.
inline size_t kv_window(const ModelConfig& config, size_t kv_layer, size_t max_seq_len) {
  size_t widest = 0;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.attends || layer.kv_layer != kv_layer) continue;
    if (layer.window == 0 || layer.chunked || layer.window >= max_seq_len) return 0;
    widest = std::max(widest, layer.window);
  }
  return widest;
}

// The rows and states of the layers that keep any, in their order; LayerConfig::kv_layer and state_layer are indices
// into them. formats: of the layers that keep rows, in their order; empty: all have that of dtype.
inline KvLayout kv_layout_of(const ModelConfig& config, KvDType dtype, size_t max_seq_len,
                             std::span<const KvRowFormat> formats = {}) {
  std::vector<KvRowShape> rows;
  std::vector<StateShape> states;
  for (const LayerConfig& layer : config.layers) {
    if (layer.attends && layer.writes_kv) {
      rows.push_back({layer.n_kv_heads, layer.head_dim, kv_window(config, layer.kv_layer, max_seq_len),
                      config.latent.row_value_dim()});
      if (!formats.empty() && formats[rows.size() - 1] != KvRowFormat(dtype)) {
        rows.back().format = formats[rows.size() - 1];
      }
    }
    if (layer.state_layer != kNoState) {
      states.push_back({config.recurrent.state_floats_of_layer(), config.recurrent.log_floats()});
    }
  }
  return KvLayout::make(rows, dtype, states);
}

}  // namespace ibid
