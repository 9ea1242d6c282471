#include "weights/gguf_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>

#include "tests/support/gguf_tensors.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_reader.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// One part: its split keys, and its tensors, each a vector of four elements equal to `value`.
struct Part {
  uint16_t number, count;
  std::optional<int32_t> tensors_of_all;
  std::vector<std::pair<std::string, float>> tensors;
};

std::string bytes_of(const Part& part) {
  GgufWriter w;
  if (part.number == 0) w.add_string("general.architecture", "llama");
  w.add_u16("split.no", part.number);
  w.add_u16("split.count", part.count);
  if (part.tensors_of_all) w.add_i32("split.tensors.count", *part.tensors_of_all);
  for (const auto& [name, value] : part.tensors) {
    add_tensor_of(w, name, DType::kF32, {{4}, 1}, std::vector<float>(4, value));
  }
  return w.bytes();
}

class GgufSplitFiles : public testing::Test {
 protected:
  GgufSplitFiles() {
    write("m-00001-of-00003.gguf", {0, 3, 4, {{"b", 1}}});
    write("m-00002-of-00003.gguf", {1, 3, 4, {{"a", 2}, {"d", 3}}});
    write("m-00003-of-00003.gguf", {2, 3, 4, {{"c", 4}}});
  }

  void write(const std::string& name, const Part& part) { dir_.write(name, bytes_of(part)); }
  Result<std::unique_ptr<ModelFile>> open(const std::string& name, OpenOptions options = {}) {
    return open_model_file(dir_.file(name), options);
  }
  void expect_refused(const std::string& name, ErrorCode code, const std::string& words) {
    const Status status = open(name).status();
    EXPECT_EQ(status.code(), code) << status.to_string();
    EXPECT_THAT(status.message(), HasSubstr(words));
  }

  TempDir dir_;
};

TEST_F(GgufSplitFiles, AnyPartOpensTheWholeModel) {
  uint64_t bytes = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir_.path())) bytes += entry.file_size();
  for (const char* name : {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00003-of-00003.gguf"}) {
    const auto file = open(name);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    EXPECT_EQ((*file)->path(), dir_.file(name));
    EXPECT_THAT((*file)->tensor_names(), ElementsAre("b", "a", "d", "c"));
    EXPECT_EQ((*file)->get_string("general.architecture").value(), "llama");
    EXPECT_EQ((*file)->file_bytes(), bytes);
    float value;
    std::memcpy(&value, (*file)->find_tensor("d")->data.data(), sizeof value);
    EXPECT_EQ(value, 3.0f);
    (*file)->release(*(*file)->find_tensor("d"));
    EXPECT_TRUE((*file)->check_unchanged().ok());
  }
}

TEST_F(GgufSplitFiles, VocabularyNeedsOnlyTheFirstPart) {
  std::filesystem::remove(dir_.file("m-00002-of-00003.gguf"));
  const auto file = open("m-00003-of-00003.gguf", {.vocabulary_only = true});
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_EQ((*file)->get_string("general.architecture").value(), "llama");
}

TEST_F(GgufSplitFiles, ChangedPartIsDetected) {
  const auto file = open("m-00001-of-00003.gguf");
  ASSERT_TRUE(file.ok());
  std::filesystem::resize_file(dir_.file("m-00003-of-00003.gguf"), 10);
  EXPECT_EQ((*file)->check_unchanged().code(), ErrorCode::kChangedOnDisk);
}

TEST_F(GgufSplitFiles, RefusesMissingAndInconsistentParts) {
  write("n-00001-of-00002.gguf", {0, 2, 2, {{"a", 1}}});
  expect_refused("n-00001-of-00002.gguf", ErrorCode::kMissingShard, "'n-00002-of-00002.gguf', is missing");
  write("n-00002-of-00002.gguf", {0, 2, 2, {{"b", 1}}});
  expect_refused("n-00001-of-00002.gguf", ErrorCode::kMissingShard, "it is part 1 of 2, expected part 2 of 2");
  write("n-00002-of-00002.gguf", {1, 2, 2, {{"a", 1}}});
  expect_refused("n-00001-of-00002.gguf", ErrorCode::kDuplicate, "tensor 'a' is in two parts");
  write("n-00002-of-00002.gguf", {1, 2, 3, {{"b", 1}}});
  EXPECT_TRUE(open("n-00002-of-00002.gguf").ok());  // only the first part's count of tensors is checked
  write("n-00001-of-00002.gguf", {0, 2, 3, {{"a", 1}}});
  expect_refused("n-00002-of-00002.gguf", ErrorCode::kTruncated, "'split.tensors.count' is 3, the parts have 2");
  write("n-00001-of-00002.gguf", {0, 3, 2, {{"a", 1}}});
  expect_refused("n-00002-of-00002.gguf", ErrorCode::kMissingShard, "part 1 of 3, expected part 1 of 2");
}

TEST_F(GgufSplitFiles, RefusesInvalidSplitKeys) {
  write("other.gguf", {0, 2, {}, {}});
  expect_refused("other.gguf", ErrorCode::kMissingShard, "does not end in '-00001-of-00002.gguf'");
  write("n-00003-of-00002.gguf", {2, 2, {}, {}});
  expect_refused("n-00003-of-00002.gguf", ErrorCode::kBadNumber, "key 'split.no' is 2, expected 0 to 1");
  write("n-00001-of-60000.gguf", {0, 60000, {}, {}});
  expect_refused("n-00001-of-60000.gguf", ErrorCode::kLimitExceeded, "'split.count' is 60000");
  GgufWriter no_number;
  no_number.add_u16("split.count", 2);
  dir_.write("n.gguf", no_number.bytes());
  expect_refused("n.gguf", ErrorCode::kBadNumber, "'split.no' is missing");
  GgufWriter text;
  text.add_string("split.count", "two");
  dir_.write("t.gguf", text.bytes());
  expect_refused("t.gguf", ErrorCode::kBadType, "'split.count' is STRING, expected an integer");
}

TEST_F(GgufSplitFiles, OpensAModelOfOnePart) {
  write("whatever.gguf", {0, 1, 1, {{"a", 1}}});
  EXPECT_TRUE(open("whatever.gguf").ok());
}

}  // namespace
}  // namespace ibid
