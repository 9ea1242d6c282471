#include "model/tensor_table.h"

#include <array>
#include <string_view>

#include "base/check.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

size_t vocab_size(const ModelConfig& c) { return c.vocab_size; }
size_t dim(const ModelConfig& c) { return c.dim; }
size_t ffn_dim(const ModelConfig& c) { return c.ffn_dim; }
size_t q_dim(const ModelConfig& c) { return c.q_dim(); }
size_t kv_dim(const ModelConfig& c) { return c.kv_dim(); }

using enum TensorRole;

constexpr std::array kTable = {
    TensorRow{kEmbed, "token_embd.weight", "model.embed_tokens.weight", true, vocab_size, dim},
    TensorRow{kFinalNorm, "output_norm.weight", "model.norm.weight", true, dim, nullptr},
    TensorRow{kLmHead, "output.weight", "lm_head.weight", false, vocab_size, dim},  // absent: tied to embed

    TensorRow{kAttnNorm, "blk.#.attn_norm.weight", "model.layers.#.input_layernorm.weight", true, dim, nullptr},
    TensorRow{kWq, "blk.#.attn_q.weight", "model.layers.#.self_attn.q_proj.weight", true, q_dim, dim},
    TensorRow{kWk, "blk.#.attn_k.weight", "model.layers.#.self_attn.k_proj.weight", true, kv_dim, dim},
    TensorRow{kWv, "blk.#.attn_v.weight", "model.layers.#.self_attn.v_proj.weight", true, kv_dim, dim},
    TensorRow{kWo, "blk.#.attn_output.weight", "model.layers.#.self_attn.o_proj.weight", true, dim, q_dim},
    TensorRow{kBq, "blk.#.attn_q.bias", "model.layers.#.self_attn.q_proj.bias", false, q_dim, nullptr},
    TensorRow{kBk, "blk.#.attn_k.bias", "model.layers.#.self_attn.k_proj.bias", false, kv_dim, nullptr},
    TensorRow{kBv, "blk.#.attn_v.bias", "model.layers.#.self_attn.v_proj.bias", false, kv_dim, nullptr},
    TensorRow{kBo, "blk.#.attn_output.bias", "model.layers.#.self_attn.o_proj.bias", false, dim, nullptr},

    TensorRow{kFfnNorm, "blk.#.ffn_norm.weight", "model.layers.#.post_attention_layernorm.weight", true, dim,
              nullptr},
    TensorRow{kWGate, "blk.#.ffn_gate.weight", "model.layers.#.mlp.gate_proj.weight", true, ffn_dim, dim},
    TensorRow{kWUp, "blk.#.ffn_up.weight", "model.layers.#.mlp.up_proj.weight", true, ffn_dim, dim},
    TensorRow{kWDown, "blk.#.ffn_down.weight", "model.layers.#.mlp.down_proj.weight", true, dim, ffn_dim},
    TensorRow{kBGate, "blk.#.ffn_gate.bias", "model.layers.#.mlp.gate_proj.bias", false, ffn_dim, nullptr},
    TensorRow{kBUp, "blk.#.ffn_up.bias", "model.layers.#.mlp.up_proj.bias", false, ffn_dim, nullptr},
    TensorRow{kBDown, "blk.#.ffn_down.bias", "model.layers.#.mlp.down_proj.bias", false, dim, nullptr},
};

}  // namespace

std::span<const TensorRow> tensor_table() { return kTable; }

const TensorRow& tensor_row(TensorRole role) {
  for (const TensorRow& row : kTable) {
    if (row.role == role) return row;
  }
  CHECK(false) << "role " << static_cast<int>(role) << " is not in the tensor table";
  return kTable[0];
}

std::string tensor_name(const ModelFile& file, TensorRole role, size_t layer) {
  const TensorRow& row = tensor_row(role);
  std::string name = file.container() == Container::kGguf ? row.gguf : row.hf;
  if (const size_t hash = name.find('#'); hash != std::string::npos) {
    name.replace(hash, 1, std::to_string(layer));
  }
  return name;
}

Result<const TensorView*> find_checked(const ModelFile& file, const ModelConfig& config, TensorRole role,
                                       size_t layer) {
  const TensorRow& row = tensor_row(role);
  const std::string name = tensor_name(file, role, layer);
  const TensorView* tensor = file.find_tensor(name);
  if (tensor == nullptr) {
    if (!row.required) return nullptr;
    return Status(ErrorCode::kMissingTensor, file.path() + ": tensor " + name + " is missing");
  }
  Shape wanted;
  wanted.rank = row.cols == nullptr ? 1 : 2;
  wanted.dims[0] = row.rows(config);
  if (row.cols != nullptr) wanted.dims[1] = row.cols(config);
  if (tensor->shape != wanted) {
    return Status(ErrorCode::kBadShape, file.path() + ": tensor " + name + " is " + tensor->shape.to_string() +
                                            ", wanted " + wanted.to_string());
  }
  if (!can_dequantize(tensor->dtype)) {
    return Status(ErrorCode::kUnsupported, file.path() + ": tensor " + name + " has type " +
                                               std::string(dtype_name(tensor->dtype)) +
                                               ", which is not supported for weights");
  }
  return tensor;
}

}  // namespace ibid
