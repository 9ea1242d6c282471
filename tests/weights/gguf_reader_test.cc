#include "weights/gguf_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/json_limits.h"
#include "tests/support/gguf_tensors.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// A file with a value of every type and three tensors.
GgufWriter sample() {
  GgufWriter w;
  w.add_u8("u8", 200);
  w.add_i8("i8", -100);
  w.add_u16("u16", 65000);
  w.add_i16("i16", -30000);
  w.add_u32("u32", 4000000000u);
  w.add_i32("i32", -5);
  w.add_u64("u64", uint64_t{1} << 63);
  w.add_i64("i64", -(int64_t{1} << 62));
  w.add_f32("f32", 0.1f);
  w.add_f64("f64", 0.1);
  w.add_bool("yes", true);
  w.add_string("general.architecture", "llama");
  w.add_string("empty", "");
  const std::vector<std::string> words = {"a", "", "\xff\xfe", "\xc4\xa0the"};
  w.add_strings("words", words);
  w.add_i32s("ids", std::vector<int32_t>{3, -1});
  w.add_i8s("bytes", std::vector<int8_t>{1, 2});
  w.add_f32s("scores", std::vector<float>{0.5f, -2.0f});
  w.add_bools("flags", {true, false});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  add_tensor_of(w, "a", DType::kF32, {{2, 3}, 2}, values);
  add_tensor_of(w, "b", DType::kQ8_0, {{1, 32}, 2}, std::vector<float>(32, 1.0f));
  add_tensor_of(w, "c", DType::kF16, {{}, 0}, std::vector<float>{7});
  return w;
}

class GgufReader : public testing::Test {
 protected:
  std::unique_ptr<ModelFile> open(const GgufWriter& writer, OpenOptions options = {}) {
    Result<std::unique_ptr<ModelFile>> file = GgufFile::open(dir_.write("m.gguf", writer.bytes()), options);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }

  TempDir dir_;
};

TEST_F(GgufReader, ReadsIntegersOfEveryWidth) {
  const auto file = open(sample());
  EXPECT_EQ(**file->get_int("u8"), 200);
  EXPECT_EQ(**file->get_int("i8"), -100);
  EXPECT_EQ(**file->get_int("u16"), 65000);
  EXPECT_EQ(**file->get_int("i16"), -30000);
  EXPECT_EQ(**file->get_int("u32"), 4000000000);
  EXPECT_EQ(**file->get_int("i32"), -5);
  EXPECT_EQ(**file->get_int("i64"), -(int64_t{1} << 62));
  EXPECT_EQ(file->get_int("u64").status().code(), ErrorCode::kBadNumber);
}

TEST_F(GgufReader, ReadsFloatsBoolsAndStrings) {
  const auto file = open(sample());
  EXPECT_EQ(**file->get_float("f32"), double{0.1f});
  EXPECT_EQ(**file->get_float("f64"), 0.1);
  EXPECT_EQ(**file->get_float("i32"), -5.0);
  EXPECT_TRUE(**file->get_bool("yes"));
  EXPECT_EQ(**file->get_string("general.architecture"), "llama");
  EXPECT_EQ(**file->get_string("empty"), "");
}

TEST_F(GgufReader, ReadsArrays) {
  const auto file = open(sample());
  EXPECT_THAT(**file->get_strings("words"), ElementsAre("a", "", "\xff\xfe", "\xc4\xa0the"));
  EXPECT_THAT(**file->get_ints("ids"), ElementsAre(3, -1));
  EXPECT_THAT(**file->get_floats("scores"), ElementsAre(0.5, -2.0));
}

TEST_F(GgufReader, MissingKeysAreNotErrors) {
  const auto file = open(sample());
  EXPECT_FALSE(file->has("nope"));
  EXPECT_TRUE(file->has("u8"));
  EXPECT_FALSE(file->get_int("nope")->has_value());
  EXPECT_FALSE(file->get_strings("nope")->has_value());
  EXPECT_FALSE(file->companion("tokenizer.json")->has_value());
  EXPECT_EQ(file->config_json(), nullptr);
}

TEST_F(GgufReader, TypeErrorsNameBothTypes) {
  const auto file = open(sample());
  const Status status = file->get_int("general.architecture").status();
  EXPECT_EQ(status.code(), ErrorCode::kBadType);
  EXPECT_THAT(status.message(), HasSubstr("m.gguf: key 'general.architecture' is STRING, expected an integer"));
  EXPECT_EQ(file->get_int("yes").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_int("f32").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_bool("u8").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_float("yes").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_string("u8").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_strings("general.architecture").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_ints("scores").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(file->get_ints("u8").status().code(), ErrorCode::kBadType);
}

TEST_F(GgufReader, TensorShapesAreOutermostFirst) {
  const auto file = open(sample());
  EXPECT_THAT(file->tensor_names(), ElementsAre("a", "b", "c"));
  const TensorView* a = file->find_tensor("a");
  ASSERT_NE(a, nullptr);
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_EQ(a->shape.to_string(), "[2, 3]");
  EXPECT_EQ(a->data.size(), 24u);
  float last = 0;
  std::memcpy(&last, a->data.data() + 20, sizeof(last));
  EXPECT_EQ(last, 6.0f);
  EXPECT_EQ(file->find_tensor("b")->data.size(), 34u);
  EXPECT_EQ(file->find_tensor("c")->shape.rank, 0u);
  EXPECT_EQ(file->find_tensor("c")->data.size(), 2u);
  EXPECT_EQ(file->find_tensor("d"), nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(file->find_tensor("b")->data.data()) % 32, 0u);
}

// ggml reads a missing dimension as 1, and some writers write all four.
TEST_F(GgufReader, OuterDimensionsOfOneAreDropped) {
  const std::pair<Shape, const char*> kShapes[] = {
      {{{1, 1, 2, 3}, 4}, "[2, 3]"}, {{{1, 1, 1, 6}, 4}, "[6]"}, {{{1, 2, 1, 3}, 4}, "[2, 1, 3]"},
      {{{1, 6}, 2}, "[1, 6]"},       {{{1}, 1}, "[1]"},          {{{1, 1, 1, 1}, 4}, "[1]"},
      {{{1, 1, 0, 3}, 4}, "[0, 3]"}};
  for (const auto& [shape, shown] : kShapes) {
    GgufWriter writer;
    add_tensor_of(writer, "a", DType::kF32, shape, std::vector<float>(shape.elements()));
    const auto file = open(writer);
    EXPECT_EQ(file->find_tensor("a")->shape.to_string(), shown);
  }
}

TEST_F(GgufReader, IntegersCanBeReadAsBools) {
  GgufWriter writer;
  writer.add_u32("on", 1);
  writer.add_i32("off", 0);
  writer.add_i32("other", -1);
  const auto file = open(writer);
  EXPECT_TRUE(**file->get_bool("on"));
  EXPECT_FALSE(**file->get_bool("off"));
  EXPECT_EQ(file->get_bool("other").status().code(), ErrorCode::kBadType);
}

TEST_F(GgufReader, ReadsTheAlignmentOfTheFile) {
  for (const uint64_t alignment : {uint64_t{1}, uint64_t{8}, uint64_t{64}, uint64_t{4096}}) {
    GgufWriter w(alignment);
    add_tensor_of(w, "a", DType::kF16, {{3}, 1}, std::vector<float>{1, 2, 3});
    add_tensor_of(w, "b", DType::kF16, {{1}, 1}, std::vector<float>{4});
    const auto file = open(w);
    uint16_t b = 0;
    std::memcpy(&b, file->find_tensor("b")->data.data(), sizeof(b));
    EXPECT_EQ(fp16_to_float(b), 4.0f) << alignment;
  }
}

TEST_F(GgufReader, AcceptsZeroSizedTensors) {
  GgufWriter w;
  w.add_tensor("none", DType::kF32, {0, 5}, {});
  add_tensor_of(w, "a", DType::kF32, {{1}, 1}, std::vector<float>{1});
  w.add_tensor("nothing", DType::kF32, {3, 0}, {});
  const auto file = open(w);
  EXPECT_EQ(file->find_tensor("none")->data.size(), 0u);
  EXPECT_EQ(file->find_tensor("a")->data.size(), 4u);
}

TEST_F(GgufReader, ReadsVersionTwo) {
  std::string bytes = sample().bytes();
  bytes[4] = 2;
  EXPECT_TRUE(GgufFile::open(dir_.write("v2.gguf", bytes)).ok());
}

TEST_F(GgufReader, VocabularyOnlyOptionNeedsNoTensors) {
  std::string bytes = sample().bytes();
  bytes.resize(bytes.size() - 100);  // no data
  const std::string path = dir_.write("v.gguf", bytes);
  EXPECT_EQ(GgufFile::open(path).status().code(), ErrorCode::kTruncated);
  const auto file = GgufFile::open(path, {.vocabulary_only = true});
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE((*file)->tensor_names().empty());
  EXPECT_EQ(**(*file)->get_int("u8"), 200);
}

TEST_F(GgufReader, MetadataOnlyFilesOpen) {
  GgufWriter w;
  w.add_u8("x", 1);
  EXPECT_EQ(**open(w)->get_int("x"), 1);
  EXPECT_FALSE(open(GgufWriter())->has("x"));
}

TEST_F(GgufReader, EmbeddedTokenizerJsonIsReadAsACompanionFile) {
  GgufWriter w;
  w.add_string("tokenizer.huggingface.json", "{}");
  const auto file = open(w);
  EXPECT_EQ(**file->companion("tokenizer.json"), "{}");
  EXPECT_FALSE(file->companion("tokenizer_config.json")->has_value());
}

TEST_F(GgufReader, DescribesMetadata) {
  std::vector<ModelFile::MetadataLine> lines = open(sample())->describe_metadata();
  ASSERT_EQ(lines.size(), 18u);
  EXPECT_EQ(lines[6].key, "u64");
  EXPECT_EQ(lines[6].type, "U64");
  EXPECT_EQ(lines[6].value, "9223372036854775808");
  EXPECT_EQ(lines[11].value, "llama");
  EXPECT_EQ(lines[13].type, "ARRAY of STRING");
  EXPECT_EQ(lines[13].value, "['a', '', '\xef\xbf\xbd\xef\xbf\xbd', '\xc4\xa0the']");
  EXPECT_EQ(lines[17].value, "[true, false]");

  GgufWriter w;
  w.add_i32s("many", std::vector<int32_t>(100, 1));
  w.add_string("long", std::string(10000, 'x'));
  lines = open(w)->describe_metadata();
  EXPECT_EQ(lines[0].value, "[1, 1, 1, 1, 1, 1, 1, 1, ... 100 in all]");
  EXPECT_LT(lines[1].value.size(), 300u);
}

TEST_F(GgufReader, StringsPointIntoTheMapping) {
  const auto file = open(sample());
  const char* first = (**file->get_string("general.architecture")).data();
  EXPECT_EQ((**file->get_string("general.architecture")).data(), first);
}

TEST(RealModelGguf, OpensWithItsVocabularyAndTensors) {
  IBID_NEED_REAL_MODEL(path);
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->container(), Container::kGguf);
  EXPECT_EQ(**(*file)->get_string("general.architecture"), "llama");
  EXPECT_EQ(**(*file)->get_int("llama.block_count"), 30);
  EXPECT_EQ((**(*file)->get_strings("tokenizer.ggml.tokens")).size(), 49152u);
  const TensorView* embed = (*file)->find_tensor("token_embd.weight");
  ASSERT_NE(embed, nullptr);
  EXPECT_EQ(embed->shape.to_string(), "[49152, 576]");
  EXPECT_TRUE((*file)->warnings().empty());
  EXPECT_TRUE((*file)->check_unchanged().ok());
}

}  // namespace
}  // namespace ibid
