#include "bench/lab/model_work.h"

#include <algorithm>

#include "model/weights/kv_precision.h"
#include "model/weights/load_weights.h"

namespace ibid {

size_t ModelWork::kv_bytes_at(size_t position) const {
  size_t bytes = 0;
  for (const LayerConfig& layer : layers) {
    if (!layer.attends) continue;
    bytes += kv_bytes_per_position * (layer.window == 0 ? position : std::min(position, layer.window));
  }
  return bytes;
}

Result<ModelWork> model_work(const ModelFile& file, const ModelConfig& config, const ModelOptions& options) {
  TRY_ASSIGN(const WeightPlan plan, plan_weights(file, config, options.numerics));

  ModelWork work;
  work.weights_bytes = plan.bytes - plan.lookup_bytes;
  // Layers that write no rows read those of another.
  TRY_ASSIGN(const KvLayout layout, kv_layout_of(file, config, options));
  size_t products = 0, kv_page_bytes = 0, n_attending = 0;
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (!config.layers[l].attends) continue;
    ++n_attending;
    const size_t value_dim = config.latent.used() ? config.latent.row_value_dim() : config.layers[l].head_dim;
    products += config.n_heads * (config.layers[l].head_dim + value_dim);
    kv_page_bytes += layout.layer(config.layers[l].kv_layer).bytes();
  }
  work.kv_bytes_per_position = kv_page_bytes / kPagePositions / std::max(n_attending, size_t{1});
  work.layers = config.layers;
  work.operations_of_head = 2.0 * static_cast<double>(config.vocab_size) * static_cast<double>(config.dim);
  work.attention_operations_per_position = 2.0 * static_cast<double>(products);
  work.operations_per_token = 2.0 * static_cast<double>(plan.layer_weights);
  work.int8 = plan.quantized.h || plan.quantized.attended || plan.quantized.gated;
  return work;
}

}  // namespace ibid
