#include "weights/safetensors_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/support/temp_dir.h"
#include "tests/weights/safetensors_bytes.h"
#include "weights/safetensors_header.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string floats(std::initializer_list<float> values) {
  return std::string(reinterpret_cast<const char*>(values.begin()), values.size() * sizeof(float));
}

Result<SafetensorsHeader> parse(const std::string& bytes) {
  return parse_safetensors_header(std::as_bytes(std::span(bytes)), "t");
}

class SafetensorsReader : public testing::Test {
 protected:
  std::unique_ptr<ModelFile> open(const std::string& path, OpenOptions options = {}) {
    Result<std::unique_ptr<ModelFile>> file = open_model_file(path, options);
    EXPECT_TRUE(file.ok()) << file.status().to_string();
    return std::move(file).value();
  }
  ErrorCode code(const std::string& path, OpenOptions options = {}) {
    return open_model_file(path, options).status().code();
  }

  // A directory with config.json and two shards.
  void write_sharded() {
    dir_.write("config.json", R"({"hidden_size": 4})");
    dir_.write("model-00001-of-00002.safetensors", safetensors_bytes({{"a", "F32", "[2]", floats({1, 2})}}));
    dir_.write("model-00002-of-00002.safetensors",
               safetensors_bytes({{"c", "F32", "[1]", floats({3})}, {"b", "F32", "[]", floats({4})}}));
    dir_.write("model.safetensors.index.json",
               R"({"metadata": {"total_size": 16}, "weight_map": {
                   "a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors",
                   "c": "model-00002-of-00002.safetensors"}})");
  }

  TempDir dir_;
};

TEST_F(SafetensorsReader, OpensASingleFileWithoutConfig) {
  const auto file = open(dir_.write("x.safetensors", safetensors_bytes({{"w", "F32", "[1, 2]", floats({5, 6})}})));
  EXPECT_EQ(file->container(), Container::kSafetensors);
  EXPECT_THAT(file->tensor_names(), ElementsAre("w"));
  EXPECT_EQ(file->find_tensor("w")->shape.to_string(), "[1, 2]");
  EXPECT_EQ(file->config_json(), nullptr);
  EXPECT_FALSE(file->has("hidden_size"));
  EXPECT_FALSE(file->get_int("hidden_size")->has_value());
}

TEST_F(SafetensorsReader, OpensADirectoryWithOneFile) {
  dir_.write("config.json", R"({"hidden_size": 4})");
  dir_.write("model.safetensors", safetensors_bytes({{"w", "BF16", "[2]", "abcd"}}));
  const auto file = open(dir_.path());
  EXPECT_EQ(file->path(), dir_.path());
  EXPECT_EQ(**file->get_int("hidden_size"), 4);
  EXPECT_EQ(file->find_tensor("w")->dtype, DType::kBF16);
  EXPECT_EQ(file->find_tensor("w")->data.size(), 4u);
  EXPECT_EQ(file->find_tensor("v"), nullptr);
  EXPECT_TRUE(file->check_unchanged().ok());
}

TEST_F(SafetensorsReader, OpensShardsThroughTheirIndex) {
  write_sharded();
  const auto file = open(dir_.path());
  EXPECT_THAT(file->tensor_names(), ElementsAre("a", "c", "b"));
  float b = 0;
  std::memcpy(&b, file->find_tensor("b")->data.data(), sizeof(b));
  EXPECT_EQ(b, 4.0f);
  EXPECT_EQ(file->find_tensor("b")->shape.rank, 0u);
  EXPECT_TRUE(file->warnings().empty());
  uintmax_t bytes = 0;
  for (const char* name : {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    bytes += std::filesystem::file_size(dir_.file(name));
  }
  EXPECT_EQ(file->file_bytes(), bytes);
}

TEST_F(SafetensorsReader, UnlistedTensorsAreIgnoredWithAWarning) {
  write_sharded();
  dir_.write("model-00001-of-00002.safetensors",
             safetensors_bytes({{"a", "F32", "[2]", floats({1, 2})}, {"stray", "F32", "[1]", floats({9})}}));
  const auto file = open(dir_.path());
  EXPECT_THAT(file->tensor_names(), ElementsAre("a", "c", "b"));
  ASSERT_EQ(file->warnings().size(), 1u);
  EXPECT_THAT(file->warnings()[0], HasSubstr("1 tensors"));
}

TEST_F(SafetensorsReader, ShardsMayBeSymlinksUnlessForbidden) {
  write_sharded();
  std::filesystem::create_directory(dir_.file("blobs"));
  std::filesystem::rename(dir_.file("model-00001-of-00002.safetensors"), dir_.file("blobs/1"));
  std::filesystem::create_symlink("blobs/1", dir_.file("model-00001-of-00002.safetensors"));
  EXPECT_TRUE(open(dir_.path())->find_tensor("a") != nullptr);
  EXPECT_EQ(code(dir_.path(), {.follow_symlinks = false}), ErrorCode::kUnsafePath);
}

TEST_F(SafetensorsReader, VocabularyOnlyOptionNeedsNoWeights) {
  dir_.write("tokenizer.json", "{}");
  EXPECT_EQ(code(dir_.path()), ErrorCode::kNotFound);
  const auto file = open(dir_.path(), {.vocabulary_only = true});
  EXPECT_TRUE(file->tensor_names().empty());
  EXPECT_EQ(**file->companion("tokenizer.json"), "{}");
}

TEST_F(SafetensorsReader, CompanionFilesAreReadOnlyByPlainName) {
  const std::string path = dir_.write("x.safetensors", safetensors_bytes(std::vector<SafetensorsPart>{}));
  dir_.write("tokenizer.json", "{\"a\": 1}");
  dir_.write("empty.json", "");
  std::filesystem::create_directory(dir_.file("folder"));
  const auto file = open(path);
  EXPECT_EQ(**file->companion("tokenizer.json"), "{\"a\": 1}");
  EXPECT_EQ(**file->companion("empty.json"), "");
  EXPECT_FALSE(file->companion("chat_template.jinja")->has_value());
  EXPECT_EQ(file->companion("../etc/passwd").status().code(), ErrorCode::kUnsafePath);
  EXPECT_EQ(file->companion("folder").status().code(), ErrorCode::kNotRegularFile);
}

TEST_F(SafetensorsReader, EveryDtypeHasItsSize) {
  const auto file = open(dir_.write("x.safetensors", safetensors_bytes({{"f32", "F32", "[1]", "aaaa"},
                                                                        {"f16", "F16", "[1]", "aa"},
                                                                        {"bf16", "BF16", "[1]", "aa"},
                                                                        {"f64", "F64", "[1]", "aaaaaaaa"},
                                                                        {"i8", "I8", "[1]", "a"},
                                                                        {"i16", "I16", "[1]", "aa"},
                                                                        {"i32", "I32", "[1]", "aaaa"},
                                                                        {"i64", "I64", "[1]", "aaaaaaaa"},
                                                                        {"u8", "U8", "[1]", "a"},
                                                                        {"bool", "BOOL", "[1]", "a"},
                                                                        {"none", "F32", "[0, 3]", ""}})));
  EXPECT_EQ(file->tensor_names().size(), 11u);
  EXPECT_EQ(file->find_tensor("i64")->dtype, DType::kI64);
  EXPECT_EQ(file->find_tensor("bool")->dtype, DType::kBool);
  EXPECT_EQ(file->find_tensor("none")->data.size(), 0u);
}

TEST_F(SafetensorsReader, DescribesMetadata) {
  dir_.write("config.json", R"({"model_type": "llama", "rope_scaling": {"factor": 8.0}})");
  const auto file = open(dir_.write("x.safetensors", safetensors_bytes({{"w", "U8", "[1]", "a"}})));
  const auto lines = file->describe_metadata();
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].value, "llama");
  EXPECT_EQ(lines[1].value, R"({"factor":8.0})");
  EXPECT_EQ(lines[2].key, "__metadata__.format");
}

TEST(SafetensorsHeader, TensorsAreInTheOrderOfTheirData) {
  const std::string json =
      R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[1,2]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  const auto header = parse(safetensors_bytes(json, "xy"));
  ASSERT_TRUE(header.ok()) << header.status().to_string();
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "b");
}

// As the reference does, which leaves white space to its parser of JSON.
TEST(SafetensorsHeader, WhiteSpaceAfterTheHeaderIsPadding) {
  for (const std::string padding : {"", " ", "\n", "\t\r\n  ", "\n\n\n\n"}) {
    for (const std::string metadata : {"", R"("__metadata__": null)", R"("__metadata__": {})"}) {
      const std::string file = safetensors_bytes("{" + metadata + "}" + padding, "");
      const auto header = parse_safetensors_header(std::as_bytes(std::span(file)), "x");
      EXPECT_TRUE(header.ok()) << header.status().message();
    }
  }
  for (const std::string& text : {std::string("{}\0", 3), std::string("{}\v"), std::string("{}x"), std::string("\n{}"),
                                  std::string(R"({"__metadata__": 7})"), std::string(R"({"__metadata__": [null]})")}) {
    const std::string file = safetensors_bytes(text, "");
    EXPECT_FALSE(parse_safetensors_header(std::as_bytes(std::span(file)), "x").ok()) << text;
  }
}

TEST(SafetensorsHeader, AcceptsAFileWithoutTensors) {
  EXPECT_TRUE(parse(safetensors_bytes("{}", "")).ok());
  EXPECT_TRUE(parse(safetensors_bytes("{}    ", "")).ok());
}

class JsonValuesTest : public testing::Test {
 protected:
  const Json root_ = Json::parse(R"({
    "n": 32, "negative": -1, "whole": 4096.0, "half": 1.5, "huge": 18446744073709551615, "big": 1e300,
    "theta": 10000, "eps": 1e-6, "tied": true, "name": "llama", "none": null,
    "types": ["full", "sliding"], "ids": [1, 2], "mixed": [1, "a"], "factors": [1, 1.5],
    "rope_scaling": {"factor": 8.0, "none": null, "deep": {"x": 1}}, "a.b": 7, "a": {"b": 8}})");
  const JsonValues values_{&root_, "config.json"};
};

TEST_F(JsonValuesTest, ReadsScalars) {
  EXPECT_EQ(**values_.get_int("n"), 32);
  EXPECT_EQ(**values_.get_int("negative"), -1);
  EXPECT_EQ(**values_.get_int("whole"), 4096);
  EXPECT_EQ(**values_.get_float("theta"), 10000.0);
  EXPECT_EQ(**values_.get_float("eps"), 1e-6);
  EXPECT_TRUE(**values_.get_bool("tied"));
  EXPECT_EQ(**values_.get_string("name"), "llama");
}

TEST_F(JsonValuesTest, ReadsArrays) {
  EXPECT_THAT(**values_.get_strings("types"), ElementsAre("full", "sliding"));
  EXPECT_THAT(**values_.get_ints("ids"), ElementsAre(1, 2));
  EXPECT_THAT(**values_.get_floats("factors"), ElementsAre(1.0, 1.5));
  EXPECT_EQ(values_.get_ints("mixed").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values_.get_ints("n").status().code(), ErrorCode::kBadType);
}

TEST_F(JsonValuesTest, DottedPathIsReadIfTheWholeKeyIsMissing) {
  EXPECT_EQ(**values_.get_float("rope_scaling.factor"), 8.0);
  EXPECT_EQ(**values_.get_int("rope_scaling.deep.x"), 1);
  EXPECT_EQ(**values_.get_int("a.b"), 7);
  EXPECT_EQ(values_.find("rope_scaling.missing"), nullptr);
  EXPECT_EQ(values_.find("n.x"), nullptr);
  EXPECT_EQ(values_.find("."), nullptr);
}

TEST_F(JsonValuesTest, NullIsReadAsMissing) {
  EXPECT_EQ(values_.find("none"), nullptr);
  EXPECT_FALSE(values_.get_int("none")->has_value());
  EXPECT_FALSE(values_.get_int("rope_scaling.none")->has_value());
}

TEST_F(JsonValuesTest, ErrorForANonIntegerNamesTheKey) {
  const Status status = values_.get_int("half").status();
  EXPECT_EQ(status.code(), ErrorCode::kBadNumber);
  EXPECT_EQ(status.message(), "config.json: key 'half' is '1.5', expected a whole number of at most 63 bits");
  EXPECT_EQ(values_.get_int("huge").status().code(), ErrorCode::kBadNumber);
  EXPECT_EQ(values_.get_int("big").status().code(), ErrorCode::kBadNumber);
  EXPECT_EQ(values_.get_int("tied").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values_.get_int("name").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values_.get_float("name").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values_.get_bool("n").status().code(), ErrorCode::kBadType);
  EXPECT_EQ(values_.get_string("n").status().code(), ErrorCode::kBadType);
}

}  // namespace
}  // namespace ibid
