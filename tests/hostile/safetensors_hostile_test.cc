// Hostile safetensors files and shard indexes, cases 43 to 53 of README.md.
#include <filesystem>

#include "tests/hostile/hostile.h"
#include "tests/weights/safetensors_bytes.h"

namespace ibid {
namespace {

void expect_header_refused(const std::string& json, std::string_view data, ErrorCode code, std::string_view words) {
  expect_refused(safetensors_bytes(json, data), code, words, "x.safetensors");
}

// The header entry of one U8 tensor.
std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets) {
  return "\"" + name + R"(":{"dtype":"U8","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

std::string with_length(uint64_t length, std::string_view rest) { return Bytes().put(length).raw(rest).text(); }

TEST(HostileSafetensors, Case001FileTruncatedInTheLengthIsRefused) {
  expect_refused("abc", ErrorCode::kTruncated, "has 3 bytes", "x.safetensors");
}

TEST(HostileSafetensors, Case043HeaderOf2To63BytesIsRefused) {
  for (const uint64_t length : {uint64_t{1} << 63, ~uint64_t{0}, ~uint64_t{7}}) {
    expect_refused(with_length(length, "{}"), ErrorCode::kBadHeader,
                   "declares a header of " + std::to_string(length) + " bytes", "x.safetensors");
  }
}

TEST(HostileSafetensors, Case044HeaderOf200MegabytesIsRefused) {
  expect_refused(with_length(200'000'000, "{}"), ErrorCode::kBadHeader, "at most 100000000", "x.safetensors");
  expect_refused(with_length(100'000'000, "{}"), ErrorCode::kTruncated, "ends inside its header", "x.safetensors");
}

TEST(HostileSafetensors, Case045HeaderThatIsNotAnObjectIsRefused) {
  expect_header_refused(" {}", "", ErrorCode::kBadHeader, "does not begin with '{'");
  expect_header_refused("[{}]", "", ErrorCode::kBadHeader, "does not begin with '{'");
  expect_header_refused(std::string("{}\0", 3), "", ErrorCode::kBadHeader, "does not end with '}' and white space");
  expect_header_refused("{} {}", "", ErrorCode::kBadHeader, "header");
  expect_header_refused("{\"a\": 1}", "", ErrorCode::kBadHeader, "tensor 'a' is not an object");
}

TEST(HostileSafetensors, Case046DuplicateKeyIsRefused) {
  expect_header_refused("{" + tensor("w", "[1]", "[0,1]") + "," + tensor("w", "[1]", "[0,1]") + "}", "x",
                        ErrorCode::kDuplicate, "\"w\"");
  expect_header_refused(R"({"w":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "x",
                        ErrorCode::kDuplicate, "\"dtype\"");
  expect_header_refused(R"({"__metadata__":{},"__metadata__":{}})", "", ErrorCode::kDuplicate, "__metadata__");
}

TEST(HostileSafetensors, Case047InvalidOffsetsAreRefused) {
  expect_header_refused("{" + tensor("w", "[1]", "[1,0]") + "}", "x", ErrorCode::kBadOffset, "run backwards");
  expect_header_refused("{" + tensor("w", "[1]", "[1,2]") + "}", "xy", ErrorCode::kBadOffset, "leaving a hole");
  expect_header_refused("{" + tensor("a", "[2]", "[0,2]") + "," + tensor("b", "[2]", "[1,3]") + "}", "xyz",
                        ErrorCode::kBadOffset, "tensor 'b' begins at byte 1, overlapping");
  expect_header_refused("{" + tensor("a", "[2]", "[0,2]") + "," + tensor("b", "[2]", "[0,2]") + "}", "xy",
                        ErrorCode::kBadOffset, "overlapping");
  expect_header_refused("{" + tensor("w", "[2]", "[0,2]") + "}", "x", ErrorCode::kTruncated, "ends at byte 2");
  expect_header_refused("{" + tensor("w", "[1]", "[0,1]") + "}", "xy", ErrorCode::kBadOffset,
                        "1 bytes follow the last tensor");
  expect_header_refused("{}", "hidden", ErrorCode::kBadOffset, "6 bytes follow");
  expect_header_refused("{" + tensor("w", "[1]", "[0]") + "}", "x", ErrorCode::kBadHeader, "must have two numbers");
  expect_header_refused("{" + tensor("w", "[1]", "[18446744073709551614,18446744073709551615]") + "}", "x",
                        ErrorCode::kBadOffset, "tensor 'w'");
}

TEST(HostileSafetensors, Case048MetadataThatIsNotStringsIsRefused) {
  expect_header_refused(R"({"__metadata__":{"a":1}})", "", ErrorCode::kBadHeader, "__metadata__ 'a' is number");
  expect_header_refused(R"({"__metadata__":{"a":{"b":"c"}}})", "", ErrorCode::kBadHeader, "'a' is object");
  expect_header_refused(R"({"__metadata__":[]})", "", ErrorCode::kBadHeader, "not an object");
}

TEST(HostileSafetensors, Case049DeeplyNestedJsonIsRefused) {
  const std::string deep(100'000, '[');
  expect_header_refused("{\"w\":" + deep + std::string(100'000, ']') + "}", "", ErrorCode::kLimitExceeded,
                        "nested deeper");
  expect_header_refused("{\"w\":" + deep + "}", "", ErrorCode::kLimitExceeded, "nested deeper");
  const TempDir dir;
  const std::string config = "{\"a\":" + deep + "}";
  dir.write("config.json", config);
  expect_path_refused(dir.path() + "/", config.size(), ErrorCode::kLimitExceeded, "config.json");
}

TEST(HostileSafetensors, ConfigWithTooManyInfinitiesIsRefused) {
  const TempDir dir;
  std::string config = "{\"a\": [NaN";
  while (config.size() < 1'000'000) config += ",-Infinity";
  dir.write("config.json", config + "]}");
  expect_path_refused(dir.path() + "/", config.size(), ErrorCode::kLimitExceeded, "not finite");
}

TEST(HostileSafetensors, Case050DimensionsThatAreNotIntegersAreRefused) {
  for (const char* dim : {"1.5", "-1", "1e2", "1.0", "\"1\"", "null", "true", "[1]", "18446744073709551616"}) {
    expect_header_refused("{" + tensor("w", std::string("[") + dim + "]", "[0,1]") + "}", "x", ErrorCode::kBadNumber,
                          "tensor 'w': shape holds");
    expect_header_refused("{" + tensor("w", "[1]", std::string("[0,") + dim + "]") + "}", "x", ErrorCode::kBadNumber,
                          "tensor 'w': data_offsets holds");
  }
  expect_header_refused("{" + tensor("w", "[1e400]", "[0,1]") + "}", "x", ErrorCode::kBadNumber, "range of double");
}

TEST(HostileSafetensors, ShapesThatDoNotMatchTheirBytesAreRefused) {
  expect_header_refused("{" + tensor("w", "[3]", "[0,2]") + "}", "xy", ErrorCode::kBadShape, "needs 3 bytes");
  expect_header_refused("{" + tensor("w", "[4294967296,4294967296]", "[0,0]") + "}", "", ErrorCode::kOverflow,
                        "tensor 'w'");
  expect_header_refused("{" + tensor("w", "[4294967296,4294967296,0]", "[0,0]") + "}", "", ErrorCode::kOverflow,
                        "tensor 'w'");
  expect_header_refused("{" + tensor("w", "[1,1,1,1,1,1]", "[0,1]") + "}", "x", ErrorCode::kBadShape, "6 numbers");
}

TEST(HostileSafetensors, UnsupportedTypesAreRefused) {
  const auto of = [](const std::string& dtype) {
    return "{\"w\":{\"dtype\":" + dtype + R"(,"shape":[1],"data_offsets":[0,1]}})";
  };
  expect_header_refused(of("\"F8_E8M0\""), "x", ErrorCode::kUnsupported, "F8_E8M0, which is not supported");
  expect_header_refused(of("\"Q4\""), "x", ErrorCode::kBadType, "'Q4', which is unknown");
  expect_header_refused(of("7"), "x", ErrorCode::kBadHeader, "has no dtype");
}

TEST(HostileSafetensors, InvalidNamesAreRefused) {
  expect_header_refused("{" + tensor("", "[1]", "[0,1]") + "}", "x", ErrorCode::kBadString, "is empty");
  expect_header_refused("{" + tensor("a\\u0000b", "[1]", "[0,1]") + "}", "x", ErrorCode::kBadString, "NUL");
  expect_header_refused("{" + tensor("a\xff", "[1]", "[0,1]") + "}", "x", ErrorCode::kBadHeader, "header");
}

// A directory whose index lists `file` as the file of the tensor "a".
class HostileShards : public testing::Test {
 protected:
  HostileShards() { dir_.write("config.json", "{}"); }

  void index(const std::string& file) {
    dir_.write("model.safetensors.index.json", R"({"weight_map": {"a": ")" + file + "\"}}");
  }
  void expect(ErrorCode code, std::string_view words, const OpenOptions& options = {}) {
    expect_path_refused(dir_.path() + "/", 4096, code, words, options);
  }

  TempDir dir_;
};

TEST_F(HostileShards, Case051MissingShardIsRefused) {
  index("model-00001-of-00001.safetensors");
  expect(ErrorCode::kMissingShard, "shard 'model-00001-of-00001.safetensors' (1 tensors) is missing");
}

TEST_F(HostileShards, Case052ShardOfAnotherModelIsRefused) {
  index("model-00001-of-00001.safetensors");
  dir_.write("model-00001-of-00001.safetensors", safetensors_bytes({{"b", "U8", "[1]", "x"}}));
  expect(ErrorCode::kMismatch, "has no tensor 'a'");
}

TEST_F(HostileShards, Case053PathsOutOfTheDirectoryAreRefused) {
  for (const char* file : {"../../etc/passwd", "/etc/passwd", "..", ".", "", "a/b", "a\\u0000b"}) {
    index(file);
    expect(ErrorCode::kUnsafePath, "is not a plain file name");
  }
  index(std::string(300, 'x'));
  expect(ErrorCode::kUnsafePath, "is not a plain file name");
  dir_.write("target", safetensors_bytes({{"a", "U8", "[1]", "x"}}));
  std::filesystem::create_symlink("target", dir_.file("link"));
  index("link");
  expect(ErrorCode::kUnsafePath, "is a symlink", {.follow_symlinks = false});
  EXPECT_TRUE(open_model_file(dir_.path()).ok());
}

TEST_F(HostileShards, InvalidShardIndexesAreRefused) {
  const auto write = [&](const std::string& text) { dir_.write("model.safetensors.index.json", text); };
  write("{}");
  expect(ErrorCode::kBadHeader, "has no object 'weight_map'");
  write("[]");
  expect(ErrorCode::kBadHeader, "has no object 'weight_map'");
  write(R"({"weight_map": {"a": 7}})");
  expect(ErrorCode::kBadHeader, "the shard of tensor 'a' is number");
  write(R"({"weight_map": {"a": "x", "a": "y"}})");
  expect(ErrorCode::kDuplicate, "\"a\"");
  write("{\"weight_map\": ");
  expect(ErrorCode::kBadHeader, "model.safetensors.index.json");
}

TEST_F(HostileShards, ShardsThatAreNotModelFilesAreRefused) {
  std::filesystem::create_directory(dir_.file("folder"));
  index("folder");
  expect(ErrorCode::kNotRegularFile, "a directory");
  dir_.write("page", "<!DOCTYPE html><html></html>");
  index("page");
  expect(ErrorCode::kBadMagic, "looks like a web page");
}

TEST_F(HostileShards, WrongTotalSizeIsAWarning) {
  dir_.write("model.safetensors.index.json",
             R"({"metadata": {"total_size": 18446744073709551615}, "weight_map": {"a": "f"}})");
  dir_.write("f", safetensors_bytes({{"a", "U8", "[1]", "x"}}));
  const auto file = open_model_file(dir_.path());
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  ASSERT_EQ((*file)->warnings().size(), 1u);
  EXPECT_THAT((*file)->warnings()[0], testing::HasSubstr("total_size"));
}

}  // namespace
}  // namespace ibid
