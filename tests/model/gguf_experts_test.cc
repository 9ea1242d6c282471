// Models with experts and with latent attention as GGUF has them: tensors, names and keys as llama.cpp's converters
// write them (gguf-py's constants), made of the checkpoints here. Both containers give the same bits.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

struct Family {
  const char* directory;
  const char* architecture;
  std::vector<std::pair<const char*, const char*>> keys;   // of GGUF, behind the architecture: of config.json
  std::vector<std::pair<const char*, double>> numbers;     // that converters know
  bool permuted = false;                                   // rows of q and k
  const char* ffn_norm = "ffn_norm";
  const char* post_norm = "post_attention_norm";           // what post_attention_layernorm is, where it is no ffn_norm
};

const std::pair<const char*, const char*> kCommonKeys[] = {
    {"block_count", "num_hidden_layers"},
    {"embedding_length", "hidden_size"},
    {"feed_forward_length", "intermediate_size"},
    {"attention.head_count", "num_attention_heads"},
    {"attention.head_count_kv", "num_key_value_heads"},
    {"attention.key_length", "head_dim"},
    {"attention.value_length", "head_dim"},
    {"context_length", "max_position_embeddings"},
    {"attention.layer_norm_rms_epsilon", "rms_norm_eps"},
    {"rope.freq_base", "rope_theta"},
    {"attention.sliding_window", "sliding_window"},
    {"vocab_size", "vocab_size"},
};

const std::pair<const char*, const char*> kTensors[] = {
    {"input_layernorm", "attn_norm"},
    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},
    {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"},
    {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"},
    {"self_attn.sinks", "attn_sinks"},
    {"self_attn.gate_proj", "attn_gate"},
    {"self_attn.q_a_proj", "attn_q_a"},
    {"self_attn.q_a_layernorm", "attn_q_a_norm"},
    {"self_attn.q_b_proj", "attn_q_b"},
    {"self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa"},
    {"self_attn.kv_a_layernorm", "attn_kv_a_norm"},
    {"self_attn.kv_b_proj", "attn_kv_b"},
    {"pre_mlp_layernorm", "ffn_norm"},
    {"post_mlp_layernorm", "post_ffw_norm"},
    {"mlp.gate_proj", "ffn_gate"},
    {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"},
    {"mlp.gate", "ffn_gate_inp"},
    {"mlp.router", "ffn_gate_inp"},
    {"mlp.router.gate", "ffn_gate_inp"},
    {"block_sparse_moe.gate", "ffn_gate_inp"},
    {"block_sparse_moe.router.layer", "ffn_gate_inp"},
    {"mlp.shared_expert_gate", "ffn_gate_inp_shexp"},
    {"mlp.shared_expert.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_expert.up_proj", "ffn_up_shexp"},
    {"mlp.shared_expert.down_proj", "ffn_down_shexp"},
    {"mlp.shared_experts.gate_proj", "ffn_gate_shexp"},
    {"mlp.shared_experts.up_proj", "ffn_up_shexp"},
    {"mlp.shared_experts.down_proj", "ffn_down_shexp"},
    {"gate_proj", "ffn_gate_exps"},   // behind "experts.N."
    {"up_proj", "ffn_up_exps"},
    {"down_proj", "ffn_down_exps"},
    {"w1", "ffn_gate_exps"},
    {"w3", "ffn_up_exps"},
    {"w2", "ffn_down_exps"},
};

std::string gguf_name(const std::string& hf) {
  for (const auto& [from, to] : kTensors) {
    if (hf == from) return to;
  }
  CHECK(false) << hf;
  return "";
}

class Converter {
 public:
  Converter(const ModelFile& file, const Family& family) : file_(file), family_(family) {
    writer_.add_string("general.architecture", family.architecture);
    for (const auto& [to, from] : kCommonKeys) copy_key(to, from);
    for (const auto& [to, from] : family.keys) copy_key(to, from);
    for (const auto& [key, value] : family.numbers) add_number(key, value);
    for (const std::string& name : file.tensor_names()) convert(name, *file.find_tensor(name));
    for (const auto& [name, all] : stacked_) {
      Shape shape{{all.n, all.shape[0], all.shape[1]}, 3};
      writer_.add_tensor(name, all.dtype, shape, all.bytes);
    }
  }
  GgufWriter& writer() { return writer_; }

 private:
  struct Stacked {
    DType dtype;
    Shape shape;
    uint64_t n = 0;
    std::vector<std::byte> bytes;
  };

  void add_number(const std::string& key, double value) {
    const std::string full = std::string(family_.architecture) + "." + key;
    if (key == "expert_weights_norm") return writer_.add_bool(full, value != 0);
    const bool is_float = key.ends_with("epsilon") || key.ends_with("base") || key.ends_with("scale") ||
                          key.ends_with("factor") || key == "swiglu_clamp_exp" || key.ends_with("multiplier");
    if (is_float) return writer_.add_f32(full, static_cast<float>(value));
    writer_.add_u32(full, static_cast<uint32_t>(value));
  }

  void copy_key(const char* to, const char* from) {
    if (const auto flag = file_.get_bool(from); flag.ok() && *flag) return add_number(to, **flag ? 1 : 0);
    const auto number = file_.get_float(from);
    if (number.ok() && *number) add_number(to, **number);
  }

  void convert(const std::string& name, const TensorView& tensor) {
    if (name == "lm_head.weight") return add("output.weight", tensor);
    if (name == "model.embed_tokens.weight") return add("token_embd.weight", tensor);
    if (name == "model.norm.weight") return add("output_norm.weight", tensor);
    const std::string begin = "model.layers.";
    CHECK(name.starts_with(begin)) << name;
    const size_t dot = name.find('.', begin.size());
    const std::string blk = "blk." + name.substr(begin.size(), dot - begin.size()) + ".";
    const std::string rest = name.substr(dot + 1);
    if (rest.find("score_correction_bias") != std::string::npos || rest == "mlp.expert_bias") {
      return add(blk + "exp_probs_b.bias", tensor);
    }
    if (rest == "post_attention_layernorm.weight") {
      const bool four_norms = file_.find_tensor(name.substr(0, dot + 1) + "pre_mlp_layernorm.weight") != nullptr;
      return add(blk + (four_norms ? family_.post_norm : family_.ffn_norm) + ".weight", tensor);
    }
    if (rest.starts_with("mlp.experts.gate_up_proj") || rest == "mlp.experts.down_proj" ||
        rest == "mlp.experts.down_proj_bias") {
      return convert_gpt_oss(blk, rest, tensor);
    }
    if (rest.ends_with("input_linear.weight")) return split_gate_up(blk, tensor);
    if (rest.ends_with("output_linear.weight")) return add(blk + "ffn_down_exps.weight", tensor);
    const size_t expert = rest.find("experts.");
    const size_t last = rest.rfind('.');
    if (expert != std::string::npos && rest.find("shared_experts") == std::string::npos) {
      const size_t number_end = rest.find('.', expert + 8);
      return stack(blk + gguf_name(rest.substr(number_end + 1, last - number_end - 1)) + ".weight", tensor);
    }
    const bool whole = rest == "self_attn.sinks";
    const std::string role = gguf_name(whole ? rest : rest.substr(0, last));
    const std::string suffix = whole ? ".weight" : rest.substr(last);
    if (family_.permuted && (role == "attn_q" || role == "attn_k")) return add_permuted(blk + role + suffix, tensor);
    add(blk + role + suffix, tensor);
  }

  // Vectors in one dimension, as GGUF has them.
  void add(const std::string& name, const TensorView& tensor) {
    Shape shape = tensor.shape;
    if (shape.rank == 2 && shape[0] == 1) shape = Shape{{shape[1]}, 1};
    writer_.add_tensor(name, tensor.dtype, shape, tensor.data);
  }

  // Of experts one by one, which the reader lists in the order of their names: there are fewer than ten.
  void stack(const std::string& name, const TensorView& tensor) {
    Stacked& all = stacked_[name];
    all.dtype = tensor.dtype;
    all.shape = tensor.shape;
    ++all.n;
    all.bytes.insert(all.bytes.end(), tensor.data.begin(), tensor.data.end());
  }

  void split_gate_up(const std::string& blk, const TensorView& tensor) {
    const size_t n = tensor.shape[0], rows = tensor.shape[1] / 2, half = tensor.data.size() / n / 2;
    std::vector<std::byte> gate, up;
    for (size_t e = 0; e < n; ++e) {
      const auto one = tensor.data.subspan(e * 2 * half, 2 * half);
      gate.insert(gate.end(), one.begin(), one.begin() + static_cast<std::ptrdiff_t>(half));
      up.insert(up.end(), one.begin() + static_cast<std::ptrdiff_t>(half), one.end());
    }
    const Shape shape{{n, rows, tensor.shape[2]}, 3};
    writer_.add_tensor(blk + "ffn_gate_exps.weight", tensor.dtype, shape, gate);
    writer_.add_tensor(blk + "ffn_up_exps.weight", tensor.dtype, shape, up);
  }

  // F32 [E, in, out], or [E, out] for biases; gate and up by turns.
  void convert_gpt_oss(const std::string& blk, const std::string& rest, const TensorView& tensor) {
    CHECK(tensor.dtype == DType::kF32);
    std::vector<float> values(tensor.shape.elements());
    std::memcpy(values.data(), tensor.data.data(), tensor.data.size());
    const bool is_bias = rest.ends_with("_bias"), fused = rest.find("gate_up") != std::string::npos;
    const size_t n = tensor.shape[0], in = is_bias ? 1 : tensor.shape[1], out = tensor.shape[is_bias ? 1 : 2];
    const size_t step = fused ? 2 : 1;
    for (size_t part = 0; part < step; ++part) {
      std::vector<float> turned;
      for (size_t e = 0; e < n; ++e) {
        for (size_t o = part; o < out; o += step) {
          for (size_t i = 0; i < in; ++i) turned.push_back(values[(e * in + i) * out + o]);
        }
      }
      const std::string role = !fused ? "ffn_down_exps" : part == 0 ? "ffn_gate_exps" : "ffn_up_exps";
      const Shape shape = is_bias ? Shape{{n, out / step}, 2} : Shape{{n, out / step, in}, 3};
      writer_.add_tensor_of(blk + role + (is_bias ? ".bias" : ".weight"), DType::kF32, shape, turned);
    }
  }

  // Halves of a head become adjacent pairs.
  void add_permuted(const std::string& name, const TensorView& tensor) {
    const size_t n_heads = static_cast<size_t>(
        **file_.get_int(name.find("attn_q") != std::string::npos ? "num_attention_heads" : "num_key_value_heads"));
    const size_t rows = tensor.shape[0], row_bytes = tensor.data.size() / rows, head_dim = rows / n_heads;
    std::vector<std::byte> permuted(tensor.data.size());
    for (size_t r = 0; r < rows; ++r) {
      const size_t i = r % head_dim;
      const size_t from = r / head_dim * head_dim + i / 2 + i % 2 * (head_dim / 2);
      std::memcpy(&permuted[r * row_bytes], &tensor.data[from * row_bytes], row_bytes);
    }
    writer_.add_tensor(name, tensor.dtype, tensor.shape, permuted);
  }

  const ModelFile& file_;
  const Family& family_;
  GgufWriter writer_;
  std::map<std::string, Stacked> stacked_;
};

const std::pair<const char*, const char*> kActive{"expert_used_count", "num_experts_per_tok"};
const std::pair<const char*, const char*> kWidth{"expert_feed_forward_length", "moe_intermediate_size"};

const Family kFamilies[] = {
    {.directory = "mixtral", .architecture = "llama", .keys = {{"expert_count", "num_local_experts"}, kActive},
     .permuted = true},
    {.directory = "qwen2_moe", .architecture = "qwen2moe",
     .keys = {{"expert_count", "num_experts"}, kActive, kWidth,
              {"expert_shared_feed_forward_length", "shared_expert_intermediate_size"}}},
    {.directory = "qwen3_moe", .architecture = "qwen3moe", .keys = {{"expert_count", "num_experts"}, kActive, kWidth}},
    {.directory = "olmoe", .architecture = "olmoe", .keys = {{"expert_count", "num_experts"}, kActive}},
    {.directory = "granitemoe", .architecture = "granitemoe",
     .keys = {{"expert_count", "num_local_experts"}, kActive, {"embedding_scale", "embedding_multiplier"},
              {"residual_scale", "residual_multiplier"}, {"logit_scale", "logits_scaling"},
              {"attention.scale", "attention_multiplier"}},
     .permuted = true},
    {.directory = "ernie4_5_moe", .architecture = "ernie4_5-moe",
     .keys = {{"expert_count", "moe_num_experts"}, {"expert_used_count", "moe_k"}, kWidth,
              {"leading_dense_block_count", "moe_layer_start_index"},
              {"interleave_moe_layer_step", "moe_layer_interval"}, {"expert_shared_count", "moe_num_shared_experts"}}},
    {.directory = "glm4_moe", .architecture = "glm4moe",
     .keys = {{"expert_count", "n_routed_experts"}, kActive, kWidth, {"expert_shared_count", "n_shared_experts"},
              {"leading_dense_block_count", "first_k_dense_replace"}, {"expert_weights_norm", "norm_topk_prob"},
              {"expert_weights_scale", "routed_scaling_factor"}},
     .numbers = {{"rope.dimension_count", 8}, {"expert_gating_func", 2}}, .ffn_norm = "post_attention_norm"},
    {.directory = "deepseek_v3", .architecture = "deepseek2",
     .keys = {{"expert_count", "n_routed_experts"}, kActive, kWidth, {"expert_shared_count", "n_shared_experts"},
              {"leading_dense_block_count", "first_k_dense_replace"}, {"expert_weights_norm", "norm_topk_prob"},
              {"expert_weights_scale", "routed_scaling_factor"}, {"expert_group_count", "n_group"},
              {"expert_group_used_count", "topk_group"}, {"attention.q_lora_rank", "q_lora_rank"},
              {"attention.kv_lora_rank", "kv_lora_rank"}, {"attention.value_length_mla", "v_head_dim"},
              {"rope.dimension_count", "qk_rope_head_dim"}, {"rope.scaling.factor", "rope_scaling.factor"},
              {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"}},
     .numbers = {{"attention.key_length_mla", 24}, {"attention.key_length", 24}, {"attention.value_length", 16},
                 {"rope.scaling.yarn_log_multiplier", 0.1}, {"expert_gating_func", 2}}},
    {.directory = "gpt_oss", .architecture = "gpt-oss",
     .keys = {{"expert_count", "num_local_experts"}, kActive, {"swiglu_clamp_exp", "swiglu_limit"},
              {"rope.scaling.factor", "rope_scaling.factor"},
              {"rope.scaling.original_context_length", "rope_scaling.original_max_position_embeddings"}},
     .ffn_norm = "post_attention_norm"},
    {.directory = "afmoe", .architecture = "afmoe",
     .keys = {{"expert_count", "num_experts"}, kActive, kWidth, {"expert_shared_count", "num_shared_experts"},
              {"leading_dense_block_count", "num_dense_layers"}, {"expert_weights_scale", "route_scale"}},
     .numbers = {{"expert_gating_func", 2}, {"attention.sliding_window_pattern", 2}}},
};

void PrintTo(const Family& family, std::ostream* out) { *out << family.directory; }

class GgufExperts : public testing::TestWithParam<Family> {};

std::vector<Row> logits_of(const ModelFile& file) {
  auto model = load_language_model(file, {.kv_dtype = KvDType::kF16, .n_threads = 2});
  CHECK(model.ok()) << model.status().to_string();
  KvPagePool pool((*model)->kv_layout(), size_t{16} << 20);
  KvCacheEntry entry(pool);
  const Tokens tokens = random_tokens(70, (*model)->vocab_size(), 3);
  const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
  Logits logits;
  const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
  CHECK(status.ok()) << status.to_string();
  std::vector<Row> rows;
  for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return rows;
}

TEST_P(GgufExperts, GiveTheSameBitsAsTheDirectory) {
  IBID_NEED_SHARED(shared);
  const auto directory = open_model_file(shared + "/reference/tiny/" + GetParam().directory);
  ASSERT_TRUE(directory.ok()) << directory.status().to_string();
  Converter converter(**directory, GetParam());
  if (std::string(GetParam().architecture) == "gpt-oss" || std::string(GetParam().architecture) == "deepseek2") {
    converter.writer().add_string(std::string(GetParam().architecture) + ".rope.scaling.type", "yarn");
  }
  const TempDir dir;
  ASSERT_TRUE(converter.writer().write(dir.file("model.gguf")).ok());
  const auto gguf = open_model_file(dir.file("model.gguf"));
  ASSERT_TRUE(gguf.ok()) << gguf.status().to_string();
  const std::vector<Row> wanted = logits_of(**directory), got = logits_of(**gguf);
  ASSERT_EQ(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same_bits(got[i], wanted[i])) << "position " << i;
}

INSTANTIATE_TEST_SUITE_P(All, GgufExperts, testing::ValuesIn(kFamilies),
                         [](const auto& test) { return std::string(test.param.directory); });

}  // namespace
}  // namespace ibid
