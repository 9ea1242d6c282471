// How a layer's configuration reads to the attention kernel.
#pragma once

#include "kernels/attention.h"
#include "model/config.h"

namespace ibid {

inline AttentionShape attention_shape(const ModelConfig& config, size_t layer) {
  AttentionShape shape;
  shape.n_heads = config.n_heads;
  shape.n_kv_heads = config.n_kv_heads;
  shape.head_dim = config.head_dim;
  shape.scale = config.attention_scale;
  shape.window = config.layers[layer].window;
  shape.softcap = config.attention_softcap;
  return shape;
}

}  // namespace ibid
