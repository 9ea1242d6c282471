#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>

#include "apps/inspect/explanation.h"
#include "apps/inspect/facts.h"
#include "base/file_ops.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

using testing::HasSubstr;

TEST(Fact, NumbersAndRangesAreFormatted) {
  EXPECT_EQ(ranges_text({0, 1, 2, 3, 6, 8, 9}), "0-3, 6, 8-9");
  EXPECT_EQ(ranges_text({0, 2, 4, 6}, 2), "0, 2, ...");
  EXPECT_EQ(ranges_text({}), "");
  EXPECT_EQ(grouped_text(134515008), "134,515,008");
  EXPECT_EQ(grouped_text(999), "999");
  EXPECT_EQ(short_number_text(1e6), "1000000");
  EXPECT_EQ(short_number_text(1e-5), "1e-05");
}

class Inspect : public CommandLine {
 protected:
  Json json_of(const std::string& arguments) const {
    const Outcome outcome = run("inspect --json " + arguments);
    const Result<Json> json = parse_json(outcome.out, "inspect");
    EXPECT_TRUE(json.ok()) << outcome.out << outcome.err;
    return json.ok() ? *json : Json::object();
  }
};

// Wording for chunked attention, query growth and input weighting.
TEST_F(Inspect, DescribesLlama4) {
  const Outcome text = run("inspect " + golden_dir() + "/families/llama4_text");
  EXPECT_THAT(text.out, HasSubstr("per head, without a weight, in layers with rope, after rope"));
  EXPECT_THAT(text.out,
              HasSubstr("queries scaled by their position in layers without rope; in chunks of 64: layers 0"));
  EXPECT_THAT(text.out, HasSubstr("router: sigmoids of the chosen, which weigh their inputs"));
}

// A key bias of 211 in one layer keeps its keys in 16 bits: 2 heads x (32 - 4) more bytes per position.
TEST_F(Inspect, ReportsLayersThatStoreKvInMoreBitsAndTheirCost) {
  const TempDir dir;
  TinyModel tiny{.head_dim = 32, .biases = true};
  tiny.without = "blk.1.attn_k.bias";
  GgufWriter writer = tiny_model_writer(tiny);
  std::vector<float> bias(64, 0.1f);
  bias[5] = bias[40] = 211;
  add_tensor_of(writer, tiny.without, DType::kF32, Shape{{64}, 1}, bias);
  ASSERT_TRUE(writer.write(dir.file("m.gguf")).ok());
  const Json rows = json_of(dir.file("m.gguf"))["kv_rows"];
  const size_t extra = 2 * (32 - sizeof(float));
  for (const char* type : {"int8", "k8v4"}) {
    EXPECT_EQ(rows[type]["keys_in_16_bits"], Json({1})) << type;
    EXPECT_FALSE(rows[type].contains("values_in_16_bits")) << type;
    EXPECT_EQ(rows[type]["extra_bytes_per_position"], extra) << type;
  }
  EXPECT_THAT(run("inspect " + dir.file("m.gguf")).out,
              HasSubstr("keys in 16 bits: layers 1 (1 of 3); 56 B more per position"));
}

// inspect reports the error that loading would give.
TEST_F(Inspect, UnknownTensorIsReportedAsTheReasonWhyTheModelCannotRun) {
  const TempDir dir;
  GgufWriter writer = tiny_model_writer({});
  add_tensor_of(writer, "blk.1.attn_sub_norm.weight", DType::kF32, Shape{{64}, 1}, std::vector<float>(64, 1.0f));
  ASSERT_TRUE(writer.write(dir.file("m.gguf")).ok());
  const Outcome text = run("inspect " + dir.file("m.gguf"));
  EXPECT_THAT(text.out + text.err,
              HasSubstr("unknown tensor blk.1.attn_sub_norm.weight in a model of architecture llama"));
  EXPECT_THAT(text.out, testing::Not(HasSubstr("runs: yes")));
}

TEST_F(Inspect, DescribesLlama) {
  const std::string path = tiny_model();
  const Outcome text = run("inspect " + path);
  EXPECT_THAT(text.out, HasSubstr("  norms              RMSNorm before attention and MLP, epsilon 1e-05\n"));
  EXPECT_THAT(text.out, HasSubstr("  attention          grouped-query, 4 heads of 16, 2 KV heads\n"));
  EXPECT_THAT(text.out, HasSubstr("  positions          rope plain, base 10000\n"));
  EXPECT_THAT(text.out, HasSubstr("  windows            the whole sequence: all layers\n"));
  EXPECT_THAT(text.out, HasSubstr("  MLP                SwiGLU (SiLU, gated), 96 wide\n"));
  EXPECT_THAT(text.out, HasSubstr("  vocabulary         120, separate LM head\n"));
  const Json json = json_of(path);
  EXPECT_EQ(json["model"]["parameters"]["total"], json["model"]["parameters"]["active"]);
  EXPECT_EQ(json["model"]["attention"]["kv_heads"], 2);
  EXPECT_EQ(json["memory"]["needs"][0]["context"], 1024);
  EXPECT_GT(json["memory"]["needs"][0]["f32_bytes"], json["memory"]["needs"][0]["f16_bytes"]);
  EXPECT_GT(json["memory"]["needs"][0]["f16_bytes"], json["memory"]["needs"][0]["int8_bytes"]);
  EXPECT_EQ(json["memory"]["needs"][0]["fits"]["int8"], true);
  uint64_t bytes = 0;
  for (const Json& share : json["types"]) bytes += share["bytes"].get<uint64_t>();
  uint64_t of_tensors = 0;
  for (const Json& tensor : json["tensors"]) of_tensors += tensor["bytes"].get<uint64_t>();
  EXPECT_EQ(bytes, of_tensors) << "every tensor belongs to one class";
}

TEST_F(Inspect, CountsTotalAndActiveExpertParameters) {
  TinyModel tiny;
  tiny.n_experts = 8;
  tiny.shared_ffn_dim = 32;
  const std::string path = dir_.file("moe.gguf");
  write_tiny_model(tiny, path);
  const Json json = json_of(path);
  const Json& experts = json["model"]["experts"];
  EXPECT_EQ(experts["experts"], 8);
  EXPECT_EQ(experts["active"], 2);
  EXPECT_EQ(experts["shared_width"], 32);
  const uint64_t of_experts = 3 * 8 * 3 * 32 * 64, all = json["model"]["parameters"]["total"].get<uint64_t>();
  EXPECT_EQ(json["model"]["parameters"]["active"], all - of_experts / 4 * 3);
  EXPECT_THAT(run("inspect " + path).out, HasSubstr("2 of 8 experts, 32 wide"));
}

TEST_F(Inspect, ShowsTheMetadataOfAnUnknownArchitecture) {
  GgufWriter writer;
  writer.add_string("general.architecture", "perceiver");
  writer.add_u32("perceiver.block_count", 7);
  writer.add_u32("perceiver.context_length", 2048);
  writer.add_string("tokenizer.ggml.model", "t5");
  add_tensor_of(writer, "blk.0.attn_q.weight", DType::kQ8_0, Shape{{32, 64}, 2}, std::vector<float>(32 * 64, 0.5f));
  const std::string path = dir_.file("unknown.gguf");
  ASSERT_TRUE(writer.write(path).ok());
  const Outcome text = run("inspect " + path);
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("runs: no, "));
  EXPECT_THAT(text.out, HasSubstr("  layers             7\n"));
  EXPECT_THAT(text.out, HasSubstr("  trained context    2048\n"));
  EXPECT_THAT(text.out, HasSubstr("  attention          Q8_0          1    2.18 kB  100.0 %\n"));
  EXPECT_THAT(text.out, HasSubstr("  family             Unigram\n"));
  EXPECT_EQ(run("inspect --check " + path).status, 1) << "the model does not run";
  EXPECT_THAT(run("inspect --check " + path).out, HasSubstr("sound: 1 tensor, 2,048 weights"));
}

TEST_F(Inspect, ShowsTheMetadataIfTensorsCannotBeRead) {
  GgufWriter writer = tiny_model_writer({});
  std::string bytes = writer.bytes();
  const size_t type = bytes.find("token_embd.weight") + 17 + 4 + 2 * 8;  // skips the name, the rank and two dimensions
  bytes[type] = 99;
  const std::string path = dir_.write("type.gguf", bytes);
  const Outcome text = run("inspect " + path);
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("runs: no, "));
  EXPECT_THAT(text.out, HasSubstr("token_embd.weight"));
  EXPECT_THAT(text.out, HasSubstr("  architecture       llama\n  layers             3\n"));
  EXPECT_THAT(run("inspect --check " + path).out, HasSubstr("no weights could be read\n"));
}

std::map<std::string, Json> features_of(std::string_view source) {
  const Result<ChatTemplate> compiled = ChatTemplate::compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  std::map<std::string, Json> features;
  for (const Fact& fact : template_facts(*compiled)) features[fact.name] = fact.value;
  return features;
}

TEST(TemplateProbe, ReportsFeaturesThatATemplateRendersNotThoseThatItMentions) {
  // Its source tests tools but does not render them, and mentions thinking only in a comment.
  auto plain = features_of(
      "{# enable_thinking #}{% if tools %}{% endif %}"
      "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}");
  EXPECT_EQ(plain["tools"]["offered"], false);
  EXPECT_EQ(plain["thinking"]["switches"].size(), 0u);
  EXPECT_EQ(plain["generation prompt"], "<|assistant|>");
  EXPECT_EQ(plain["a question"], "<|user|>Hello\n<|assistant|>");
  EXPECT_EQ(plain["system role"], "yes");
  EXPECT_EQ(plain["roles"], "any");
  EXPECT_EQ(plain["content"]["parts"], false);
  EXPECT_EQ(plain["date"], false);
  EXPECT_EQ(plain["a new turn"], "its own");
  auto strict = features_of(
      "{% for m in messages %}{% if m.role == 'system' %}{{ raise_exception('no system') }}{% endif %}"
      "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('turns') }}{% endif %}"
      "{{ m.content }}{{ messages|length }}{% endfor %}{{ strftime_now('%Y') }}");
  EXPECT_EQ(strict["system role"], "refused");
  EXPECT_EQ(strict["roles"], "take turns");
  EXPECT_EQ(strict["date"], true);
  EXPECT_EQ(strict["a new turn"], "whole");
  EXPECT_EQ(strict["generation prompt"], "");
  EXPECT_EQ(features_of("{{ raise_exception('never') }}").size(), 1u);
}

TEST(TemplateProbe, ReportsTheFeaturesOfKnownTemplates) {
  IBID_NEED_SHARED(shared);
  struct Wanted {
    const char* name;
    const char* switches;  // "variable=default" for each switch, in order
    bool offered, called, several;
    bool reasoning_kept;
  };
  const Wanted all[] = {
      {"Qwen-Qwen3-0.6B", "enable_thinking=on ", true, true, true, false},
      {"HuggingFaceTB-SmolLM3-3B", "enable_thinking=on /no_think=on ", false, false, false, false},
      {"Qwen-Qwen2.5-7B-Instruct", "", true, true, true, false},
      {"openai-gpt-oss-120b", "reasoning_effort=neither ", true, true, false, false},
      {"microsoft-Phi-3.5-mini-instruct", "", false, false, false, false},
      {"ibm-granite-granite-3.3-2B-Instruct", "thinking=off ", true, false, false, false},
      {"pkg-smollm2", "", false, false, false, false},
  };
  for (const Wanted& wanted : all) {
    const auto source =
        read_file(system_file_ops(), shared + "/reference/templates/templates/" + wanted.name + ".jinja", 1 << 20);
    ASSERT_TRUE(source.ok());
    auto features = features_of(*source);
    std::string switches;
    for (const Json& known : features["thinking"]["switches"]) {
      switches += known["variable"].get<std::string>() + "=" + known["default"].get<std::string>() + " ";
    }
    EXPECT_EQ(switches, wanted.switches) << wanted.name;
    EXPECT_EQ(features["tools"]["offered"], wanted.offered) << wanted.name;
    EXPECT_EQ(features["tools"]["called"], wanted.called) << wanted.name;
    EXPECT_EQ(features["tools"]["several"], wanted.several) << wanted.name;
    EXPECT_EQ(features["thinking"]["reasoning_kept"], wanted.reasoning_kept) << wanted.name;
  }
}

}  // namespace
}  // namespace ibid
