// Damaged and unusual weights are found and counted with any number of threads; a valid model has no findings.
#include "apps/inspect/weight_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "model/architectures/architectures.h"
#include "tests/apps/command_line_fixture.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/random_blocks.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

class WeightCheck : public CommandLine {
 protected:
  // Returns a model of four layers with tensor `name` modified by `change`.
  std::string changed(const std::string& name, const std::function<void(std::span<float>)>& change) {
    TinyModel tiny;
    tiny.n_layers = 4;
    const std::string path = dir_.file("changed.gguf");
    write_tiny_model(tiny, path);
    std::string bytes = read_whole_file(path);
    {
      const auto file = *open_model_file(path);
      const TensorView* tensor = file->find_tensor(name);
      const std::string_view before(reinterpret_cast<const char*>(tensor->data.data()), tensor->data.size());
      std::vector<float> values(tensor->shape.elements());
      std::memcpy(values.data(), before.data(), before.size());
      change(values);
      const size_t at = bytes.find(before);
      std::memcpy(bytes.data() + at, values.data(), before.size());
    }
    return dir_.write("changed.gguf", bytes);
  }

  static WeightReport report_of(const std::string& path, int n_threads = 1) {
    const auto file = *open_model_file(path);
    const Result<ModelConfig> config = read_config(*file);
    const ModelConfig* known = config.ok() ? &*config : nullptr;
    return *check_weights(*file, tensor_uses(*file, known), known, n_threads, [](uint64_t) {});
  }
  static std::vector<std::string> words(const WeightReport& report) {
    std::vector<std::string> all;
    for (const Finding& finding : report.findings) {
      all.push_back(std::string(finding_name(finding.kind)) + "|" + finding.tensor + "|" +
                    std::to_string(finding.count));
    }
    return all;
  }
};

TEST_F(WeightCheck, ValidModelHasNoFindings) {
  const WeightReport report = report_of(tiny_model());
  EXPECT_TRUE(report.sound());
  EXPECT_THAT(words(report), IsEmpty());
  EXPECT_GT(report.n_values, 100'000u);
}

TEST_F(WeightCheck, NonFiniteValuesAreCounted) {
  const std::string path = changed("blk.1.ffn_up.weight", [](std::span<float> values) {
    values[3] = kNaN;
    values[70] = kNaN;
    values[71] = -kInfinity;
  });
  const WeightReport report = report_of(path);
  EXPECT_FALSE(report.sound());
  EXPECT_THAT(words(report), ElementsAre("nan|blk.1.ffn_up.weight|2", "infinity|blk.1.ffn_up.weight|1"));
  EXPECT_THAT(report.findings[0].text, HasSubstr("2 of 6,144 values are NaN"));
  const Outcome said = run("inspect --check " + path);
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, HasSubstr("damaged: blk.1.ffn_up.weight: 2 of 6,144 values are NaN\n"));
  EXPECT_THAT(said.out, HasSubstr("\ndamaged: "));
}

TEST_F(WeightCheck, NonFiniteBlockScalesAreFound) {
  const Shape shape{{4, 512}, 2};
  for (const DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ8_0, DType::kQ4_K, DType::kQ6_K, DType::kIQ4_XS}) {
    GgufWriter writer;
    writer.add_string("general.architecture", "none");
    if (dtype == DType::kIQ4_XS) {
      writer.add_tensor("blk.0.attn_q.weight", dtype, shape, random_blocks(dtype, shape.elements(), 1.0f, 1));
    } else {
      std::vector<float> values(shape.elements());
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
      add_tensor_of(writer, "blk.0.attn_q.weight", dtype, shape, values);
    }
    const std::string bytes = writer.bytes();
    EXPECT_TRUE(report_of(dir_.write("blocks.gguf", bytes)).sound()) << dtype_name(dtype);
    // Sets each pair of bytes of a block to 0x7e00, a 16-bit NaN; one of the pairs is the scale.
    const BlockSize block = dtype_block(dtype);
    const size_t data = bytes.size() - shape.elements() / block.values * block.bytes;
    bool found = false;
    for (size_t i = 0; i + 1 < block.bytes && !found; ++i) {
      std::string broken = bytes;
      broken[data + block.bytes + i] = 0;
      broken[data + block.bytes + i + 1] = 0x7e;
      found = !report_of(dir_.write("blocks.gguf", broken)).sound();
    }
    EXPECT_TRUE(found) << dtype_name(dtype);
  }
}

TEST_F(WeightCheck, ZeroRowsAndZeroMatricesAreReported) {
  const std::string rows = changed("blk.2.attn_q.weight", [](std::span<float> values) {
    std::fill_n(values.begin(), 2 * 64, 0.0f);
    values[64] = -0.0f;
  });
  EXPECT_THAT(words(report_of(rows)), ElementsAre("zero rows|blk.2.attn_q.weight|2"));
  EXPECT_TRUE(report_of(rows).sound());
  EXPECT_EQ(run("inspect --check " + rows).status, 0);
  const std::string all =
      changed("blk.2.attn_q.weight", [](std::span<float> values) { std::ranges::fill(values, 0.0f); });
  EXPECT_THAT(words(report_of(all)), ElementsAre("all zero|blk.2.attn_q.weight|64"));
  EXPECT_FALSE(report_of(all).sound());
}

TEST_F(WeightCheck, OutliersAreReportedAsAnomaliesNotAsDamage) {
  const auto times = [](float factor) {
    return [factor](std::span<float> values) {
      for (float& value : values) value *= factor;
    };
  };
  EXPECT_THAT(words(report_of(changed("blk.3.ffn_down.weight", times(100)))),
              ElementsAre("far matrix|blk.3.ffn_down.weight|0"));
  EXPECT_THAT(words(report_of(changed("blk.3.ffn_down.weight", times(2)))), IsEmpty());
  const std::string row =
      changed("blk.0.attn_v.weight", [&](std::span<float> values) { times(1000)(values.first(64)); });
  EXPECT_THAT(words(report_of(row)), testing::Contains("far rows|blk.0.attn_v.weight|1"));
  const std::string norm = changed("blk.0.attn_norm.weight", [](std::span<float> values) { values[5] = 4000; });
  EXPECT_THAT(words(report_of(norm)), ElementsAre("norm outlier|blk.0.attn_norm.weight|1"));
}

TEST_F(WeightCheck, FindingsDoNotDependOnThreads) {
  const std::string path = changed("token_embd.weight", [](std::span<float> values) {
    for (size_t i = 0; i < values.size(); i += 501) values[i] = kNaN;
    std::fill_n(values.begin(), 64, 0.0f);
    values[700] = 1e30f;
  });
  const auto file = *open_model_file(path);
  const WeightReport one = report_of(path, 1);
  EXPECT_FALSE(one.findings.empty());
  for (const int n_threads : {2, 3, 7}) EXPECT_EQ(words(report_of(path, n_threads)), words(one)) << n_threads;
}

TEST_F(WeightCheck, DifferentVocabularySizesAreReported) {
  const auto file = *open_model_file(tiny_model());
  ModelConfig config = *read_config(*file);
  std::vector<TensorUse> uses = tensor_uses(*file, &config);
  EXPECT_THAT(check_vocabulary(uses, &config, nullptr), IsEmpty());
  config.vocab_size = 121;
  ASSERT_EQ(check_vocabulary(uses, &config, nullptr).size(), 1u);
  EXPECT_EQ(check_vocabulary(uses, &config, nullptr)[0].text, "it has 120 rows, the configuration says 121");
}

TEST_F(WeightCheck, MoreTokensThanEmbeddingRowsAreReportedAsDamage) {
  GgufWriter writer = tiny_model_writer({});
  std::vector<std::string> tokens;
  for (int i = 0; i < 130; ++i) tokens.push_back("t" + std::to_string(i));
  writer.add_string("tokenizer.ggml.model", "gpt2");
  writer.add_string("tokenizer.ggml.pre", "smollm");
  writer.add_strings("tokenizer.ggml.tokens", tokens);
  writer.add_strings("tokenizer.ggml.merges", std::vector<std::string>());
  const std::string path = dir_.file("tokens.gguf");
  ASSERT_TRUE(writer.write(path).ok());
  const Outcome said = run("inspect --check " + path);
  EXPECT_EQ(said.status, 1);
  EXPECT_THAT(said.out, HasSubstr("the vocabulary has 130 tokens, token_embd.weight only 120 rows"));
}

TEST(RowSums, HandleValuesWhoseSquaresOverflowOrUnderflow) {
  ValueSums large;
  large.add(std::vector<float>{1e30f, 1e30f});
  EXPECT_EQ(large.n_infinite, 0u);
  EXPECT_NEAR(large.squares, 2e60, 1e54);
  ValueSums small;
  small.add(std::vector<float>(33, 1e-30f));
  EXPECT_FALSE(small.all_zero);
  EXPECT_GT(small.squares, 0);
  ValueSums none;
  none.add(std::vector<float>(33, -0.0f));
  EXPECT_TRUE(none.all_zero);
}

TEST(RowSums, RowsFarFromTheMedianMagnitudeAreCounted) {
  RmsHistogram rows;
  for (int i = 0; i < 100; ++i) rows.add(0.02);
  rows.add(1.0);
  rows.add(0.0001);
  rows.add(0.03);
  EXPECT_EQ(rows.n_far(5), 2u);
  EXPECT_EQ(rows.n_far(8), 0u);
}

}  // namespace
}  // namespace ibid
