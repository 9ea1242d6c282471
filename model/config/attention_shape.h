// Functions that derive, from a model's configuration, the shapes that the attention kernel reads and the layout of the
// KV cache.
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

// Window in positions of a KV layer: the widest window of the layers that read it. 0 if one of them has no window
// shorter than max_seq_len, or attends within chunks.
inline size_t kv_window(const ModelConfig& config, size_t kv_layer, size_t max_seq_len) {
  size_t widest = 0;
  for (const LayerConfig& layer : config.layers) {
    if (!layer.attends || layer.kv_layer != kv_layer) continue;
    if (layer.window == 0 || layer.chunked || layer.window >= max_seq_len) return 0;
    widest = std::max(widest, layer.window);
  }
  return widest;
}

// Returns the layout of all KV layers and states, in layer order; LayerConfig::kv_layer and state_layer are indices
// into it. formats: one for each KV layer; empty: all layers have the format of dtype.
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
