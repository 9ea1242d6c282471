// `ibid convert` of checkpoints with recurrent layers: names, types, and refused models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "apps/convert/conversion_types.h"
#include "apps/convert/convert_model.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "weights/model_file.h"
#include "weights/safetensors_writer.h"

namespace ibid {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Converts tiny checkpoints, changed or not, to GGUF.
class ConvertRecurrent : public testing::Test {
 protected:
  using Change = std::function<void(json& config, std::vector<NamedTensor>& tensors)>;

  Result<Conversion> convert(const std::string& path, const char* type = nullptr) {
    return convert_model(path, out_, type == nullptr ? nullptr : find_file_type(type));
  }
  // Converts a copy of the checkpoint with the change applied.
  Result<Conversion> convert_changed(const std::string& path, const Change& change) {
    const auto file = open_model_file(path);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    std::vector<NamedTensor> tensors;
    for (const std::string& name : (*file)->tensor_names()) tensors.push_back({name, *(*file)->find_tensor(name)});
    std::ifstream in(path + "/config.json");
    std::string text((std::istreambuf_iterator<char>(in)), {});
    json config = json::parse(text, nullptr, false);
    EXPECT_FALSE(config.is_discarded());
    change(config, tensors);
    std::filesystem::create_directories(dir_.file("changed"));
    EXPECT_TRUE(write_safetensors(dir_.file("changed/model.safetensors"), tensors).ok());
    dir_.write("changed/config.json", config.dump());
    return convert(dir_.file("changed"));
  }
  std::unique_ptr<ModelFile> written() {
    auto file = open_model_file(out_);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }

  TempDir dir_;
  std::string out_ = dir_.file("model.gguf");
};

std::vector<int64_t> ints_of(const ModelFile& file, const std::string& key) {
  const auto values = file.get_ints(key);
  EXPECT_TRUE(values.ok() && *values) << key;
  return values.ok() && *values ? std::vector<int64_t>((*values)->begin(), (*values)->end()) : std::vector<int64_t>();
}

void remove(std::vector<NamedTensor>& tensors, std::string_view name) {
  const size_t n = tensors.size();
  std::erase_if(tensors, [&](const NamedTensor& tensor) { return tensor.name == name; });
  EXPECT_EQ(tensors.size(), n - 1) << name;
}

// llama.cpp requires these tensors as F32, whatever the type of the others.
TEST_F(ConvertRecurrent, SmallRecurrentTensorsAreF32InEveryType) {
  IBID_NEED_SHARED(shared);
  struct Case {
    const char* name;
    std::vector<const char*> floats, others;
  };
  const Case cases[] = {
      {"granitemoehybrid_mamba",
       {"blk.0.ssm_conv1d.weight", "blk.0.ssm_conv1d.bias", "blk.0.ssm_a", "blk.0.ssm_d", "blk.0.ssm_dt.bias",
        "blk.0.ssm_norm.weight", "blk.0.ffn_gate_inp.weight"},
       {"blk.0.ssm_in.weight", "blk.0.ssm_out.weight", "blk.1.attn_q.weight"}},
      {"jamba",
       {"blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "blk.0.ssm_d", "blk.0.ssm_dt_norm.weight"},
       {"blk.0.ssm_in.weight", "blk.0.ssm_x.weight"}},
      {"lfm2",
       {"blk.0.shortconv.conv.weight", "token_embd_norm.weight", "blk.1.attn_q_norm.weight"},
       {"blk.0.shortconv.in_proj.weight", "blk.0.shortconv.out_proj.weight"}},
      {"kimi_linear",
       {"blk.0.ssm_conv1d_q.weight", "blk.0.ssm_a", "blk.0.ssm_norm.weight"},
       {"blk.0.attn_q.weight", "blk.0.ssm_f_a.weight", "blk.0.ssm_beta.weight"}},
      {"qwen3_5_text",
       {"blk.0.ssm_conv1d.weight", "blk.0.ssm_a", "blk.0.ssm_dt.bias", "blk.0.ssm_norm.weight"},
       {"blk.0.attn_qkv.weight", "blk.0.attn_gate.weight", "blk.0.ssm_out.weight", "blk.1.attn_q.weight"}},
  };
  for (const char* type : {"F16", "Q8_0"}) {
    for (const Case& of : cases) {
      SCOPED_TRACE(std::string(of.name) + " as " + type);
      const Result<Conversion> converted = convert(shared + "/reference/tiny/" + of.name, type);
      ASSERT_TRUE(converted.ok()) << converted.status().to_string();
      const auto file = written();
      for (const char* name : of.floats) {
        ASSERT_NE(file->find_tensor(name), nullptr) << name;
        EXPECT_EQ(file->find_tensor(name)->dtype, DType::kF32) << name;
      }
      for (const char* name : of.others) {
        ASSERT_NE(file->find_tensor(name), nullptr) << name;
        EXPECT_EQ(dtype_name(file->find_tensor(name)->dtype), type) << name;
      }
    }
  }
}

TEST_F(ConvertRecurrent, TensorShapesKeepDimensionsOfOneAsInLlamaCpp) {
  IBID_NEED_SHARED(shared);
  const auto shape_of = [&](const char* model, const char* tensor) -> std::string {
    const Result<Conversion> converted = convert(shared + "/reference/tiny/" + model);
    EXPECT_TRUE(converted.ok()) << converted.status().to_string();
    const auto file = written();
    const TensorView* found = file->find_tensor(tensor);
    return found == nullptr ? "none" : found->shape.to_string();
  };
  EXPECT_EQ(shape_of("mamba2", "blk.0.ssm_a"), "[8, 1]");
  EXPECT_EQ(shape_of("mamba2", "blk.0.ssm_d"), "[8, 1]");
  EXPECT_EQ(shape_of("mamba2", "blk.0.ssm_norm.weight"), "[2, 64]");
  EXPECT_EQ(shape_of("jamba", "blk.0.ssm_a"), "[128, 8]");
  EXPECT_EQ(shape_of("jamba", "blk.0.ssm_d"), "[128]");
  EXPECT_EQ(shape_of("kimi_linear", "blk.0.ssm_conv1d_q.weight"), "[64, 1, 4]");
  EXPECT_EQ(shape_of("qwen3_5_text", "blk.0.ssm_a"), "[4]");
  EXPECT_EQ(shape_of("qwen3_next", "blk.0.attn_qkv.weight"), "[112, 64]");
}

TEST_F(ConvertRecurrent, LayerKindsAreWrittenAsKvHeadCountsOrAsAnInterval) {
  IBID_NEED_SHARED(shared);
  ASSERT_TRUE(convert(shared + "/reference/tiny/nemotron_h").ok());
  EXPECT_THAT(ints_of(*written(), "nemotron_h_moe.attention.head_count_kv"), ElementsAre(0, 0, 0, 2, 0));
  EXPECT_THAT(ints_of(*written(), "nemotron_h_moe.feed_forward_length"), ElementsAre(0, 88, 0, 0, 32));
  ASSERT_TRUE(convert(shared + "/reference/tiny/qwen3_next").ok());
  EXPECT_EQ(**written()->get_int("qwen3next.full_attention_interval"), 3);
  // llama.cpp converts Bamba to granitehybrid.
  ASSERT_TRUE(convert(shared + "/reference/tiny/bamba").ok());
  EXPECT_EQ(**written()->get_string("general.architecture"), "granitehybrid");
  EXPECT_TRUE(**written()->get_bool("granitehybrid.rope.scaling.finetuned"));
  EXPECT_EQ(**written()->get_int("granitehybrid.rope.dimension_count"), 8);
  ASSERT_TRUE(convert(shared + "/reference/tiny/granitemoehybrid_mamba").ok());
  EXPECT_FALSE(**written()->get_bool("granitehybrid.rope.scaling.finetuned"));
}

TEST_F(ConvertRecurrent, ModelsThatGgufLacksAreRefusedByName) {
  IBID_NEED_SHARED(shared);
  const std::string tiny = shared + "/reference/tiny/";
  for (const char* name : {"minimax", "olmo_hybrid", "zamba2"}) {
    const Status status = convert(tiny + name).status();
    EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
    EXPECT_THAT(status.message(), HasSubstr("architecture '" + std::string(name) + "' has no name in GGUF"));
    EXPECT_THAT(status.message(), HasSubstr("use the original checkpoint"));
  }
  // Time step limits, which GGUF lacks.
  Status status = convert_changed(tiny + "granitemoehybrid_mamba", [](json& config, auto&) {
                    config["time_step_limit"] = {0.001, 0.1};
                  }).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("step limits"));
  // Norm before the gate, which GGUF lacks.
  status = convert_changed(tiny + "falcon_h1_norm", [](json& config, auto&) {
             config["time_step_limit"] = nullptr;
             config["mamba_norm_before_gate"] = true;
           }).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported);
  EXPECT_THAT(status.message(), HasSubstr("recurrent layers"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

// Attention in the first layer only. llama.cpp's interval requires attention in the last layer of each period.
TEST_F(ConvertRecurrent, NonPeriodicLayersAreRefusedIfGgufStoresAnInterval) {
  IBID_NEED_SHARED(shared);
  const auto turn_around = [](json& config, std::vector<NamedTensor>& tensors) {
    config["layer_types"] = {"full_attention", "linear_attention"};
    for (NamedTensor& tensor : tensors) {
      const size_t at = tensor.name.find("layers.") + std::string_view("layers.").size();
      if (tensor.name.find("layers.") != std::string::npos) tensor.name[at] = tensor.name[at] == '0' ? '1' : '0';
    }
  };
  const Status status = convert_changed(shared + "/reference/tiny/qwen3_5_text", turn_around).status();
  EXPECT_EQ(status.code(), ErrorCode::kUnsupported) << status.to_string();
  EXPECT_THAT(status.message(), HasSubstr("not periodic, which GGUF architecture 'qwen35' cannot represent"));
  EXPECT_FALSE(std::filesystem::exists(out_));
}

TEST_F(ConvertRecurrent, DamagedCheckpointErrorsNameTheTensor) {
  IBID_NEED_SHARED(shared);
  const std::string tiny = shared + "/reference/tiny/";
  struct Case {
    const char* model;
    const char* tensor;
  };
  const Case cases[] = {{"bamba", "model.layers.0.mamba.A_log"},
                        {"jamba", "model.layers.0.mamba.x_proj.weight"},
                        {"lfm2", "model.layers.0.conv.conv.weight"},
                        {"kimi_linear", "model.layers.1.self_attn.f_b_proj.weight"},
                        {"qwen3_5_text", "model.layers.0.linear_attn.in_proj_z.weight"}};
  for (const Case& of : cases) {
    SCOPED_TRACE(of.tensor);
    const Status missing =
        convert_changed(tiny + of.model, [&](json&, auto& tensors) { remove(tensors, of.tensor); }).status();
    EXPECT_EQ(missing.code(), ErrorCode::kMissingTensor) << missing.to_string();
    const std::string name = of.tensor;  // the error has the first of its possible names
    EXPECT_THAT(missing.message(), HasSubstr(name.substr(0, name.find('.', name.find("layers.") + 7) + 1)));
    EXPECT_THAT(missing.message(), HasSubstr("is missing"));
    const Status shape = convert_changed(tiny + of.model, [&](json&, auto& tensors) {
                           for (NamedTensor& tensor : tensors) {
                             if (tensor.name != of.tensor) continue;
                             const size_t rows = tensor.view.shape[0];
                             tensor.view.data = tensor.view.data.first(tensor.view.data.size() / rows * (rows - 1));
                             tensor.view.shape.dims[0] = rows - 1;
                           }
                         }).status();
    EXPECT_EQ(shape.code(), ErrorCode::kBadShape) << shape.to_string();
    EXPECT_THAT(shape.message(), HasSubstr(of.tensor));
  }
  EXPECT_FALSE(std::filesystem::exists(out_));
}

}  // namespace
}  // namespace ibid
