#include "apps/bench/model_work.h"

#include <algorithm>
#include <string_view>

#include "base/arena.h"
#include "kernels/pack.h"
#include "model/memory_plan.h"
#include "model/tensor_table.h"
#include "model/transformer_weights.h"

namespace ibid {

size_t ModelWork::kv_bytes_at(size_t position) const {
  size_t bytes = 0;
  for (const LayerConfig& layer : layers) {
    bytes += kv_bytes_per_position * (layer.window == 0 ? position : std::min(position, layer.window));
  }
  return bytes;
}

Result<ModelWork> model_work(const ModelFile& file, const ModelConfig& config, const ModelOptions& options) {
  TRY_ASSIGN(const MemoryPlan memory, plan_memory(file, config, options));
  TRY_ASSIGN(const TransformerWeights::Plan plan, TransformerWeights::plan(file, config, options.numerics));
  TRY_ASSIGN(const TensorView* const embed, find_checked(file, config, TensorRole::kEmbed));
  TRY_ASSIGN(const TensorView* const head, find_checked(file, config, TensorRole::kLmHead));

  ModelWork work;
  work.weights_bytes = plan.bytes;
  if (head != nullptr) {
    const PanelType type =
        options.numerics == Numerics::kReference ? PanelType::kPF : panel_type_for(embed->dtype);
    const size_t embed_bytes = Arena::padded(packed_bytes(type, embed->shape[0], embed->shape[1]));
    work.weights_bytes -= std::min(work.weights_bytes, embed_bytes);
  }
  work.kv_bytes_per_position = memory.kv_bytes_per_position / config.n_layers;
  work.layers = config.layers;
  work.operations_of_head = 2.0 * static_cast<double>(config.vocab_size) * static_cast<double>(config.dim);
  work.attention_operations_per_position = 4.0 * static_cast<double>(config.q_dim() * config.n_layers);
  for (const TensorRow& row : tensor_table()) {
    if (row.cols == nullptr || std::string_view(row.gguf).find('#') == std::string_view::npos) continue;
    work.operations_per_token += 2.0 * static_cast<double>(row.rows(config)) *
                                 static_cast<double>(row.cols(config)) * static_cast<double>(config.n_layers);
  }
  work.int8 = plan.quantized.h || plan.quantized.attended || plan.quantized.gated;
  return work;
}

}  // namespace ibid
