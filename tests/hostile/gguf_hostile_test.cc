// Hostile GGUF files, cases 1 to 42 of README.md.
#include <cstring>
#include <filesystem>

#include "tests/hostile/hostile.h"
#include "tests/support/gguf_tensors.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

using testing::HasSubstr;

constexpr auto kU32 = uint32_t{4};
constexpr auto kString = uint32_t{8};
constexpr auto kArray = uint32_t{9};
constexpr auto kTypeF32 = uint32_t{0};
constexpr auto kTypeF64 = uint32_t{28};
constexpr auto kTypeQ4_0 = uint32_t{2};

// Appends the info of one tensor. dims: as in the file, the innermost first.
Bytes put_info(Bytes bytes, std::string_view name, std::vector<uint64_t> dims, uint32_t type, uint64_t offset) {
  bytes.string(name).put(static_cast<uint32_t>(dims.size()));
  for (const uint64_t dim : dims) bytes.put(dim);
  return bytes.put(type).put(offset);
}

// Returns a file with one tensor and `data_bytes` of data.
std::string one_tensor(std::vector<uint64_t> dims, uint32_t type, uint64_t offset, size_t data_bytes) {
  return put_info(gguf(1, 0), "w", std::move(dims), type, offset).data(data_bytes).text();
}

// Returns a file with several F32 vectors of 8 values (32 bytes) at the given offsets.
std::string tensors_at(std::vector<uint64_t> offsets, size_t data_bytes) {
  Bytes bytes = gguf(offsets.size(), 0);
  for (size_t i = 0; i < offsets.size(); ++i)
    bytes = put_info(bytes, "t" + std::to_string(i), {8}, kTypeF32, offsets[i]);
  return bytes.data(data_bytes).text();
}

// Returns a file whose only key is general.alignment.
std::string aligned_to(uint32_t alignment) {
  return gguf(0, 1).string("general.alignment").put(kU32).put(alignment).text();
}

TEST(HostileGguf, Case001EmptyFileIsRefused) { expect_refused("", ErrorCode::kTruncated, "empty"); }

TEST(HostileGguf, Case002FileOfThreeBytesIsRefused) { expect_refused("GGU", ErrorCode::kTruncated, "has 3 bytes"); }

TEST(HostileGguf, Case005WrongMagicIsRefused) { expect_refused("GGML 0123456789", ErrorCode::kBadMagic, "'GGML 012'"); }

TEST(HostileGguf, Case006UnknownVersionsAreRefused) {
  for (const uint32_t version : {0u, 1u, 4u, 99u, 0xffffffffu}) {
    const Bytes bytes = Bytes().raw("GGUF").put(version).put(uint64_t{0}).put(uint64_t{0});
    expect_refused(bytes, ErrorCode::kUnsupportedVersion, "is GGUF version " + std::to_string(version));
  }
}

TEST(HostileGguf, Case007BigEndianFileIsRefused) {
  const Bytes bytes = Bytes().raw("GGUF").put(uint32_t{0x03000000}).put(uint64_t{0}).put(uint64_t{0});
  expect_refused(bytes, ErrorCode::kUnsupportedVersion, "big-endian");
}

TEST(HostileGguf, Case008GgufIsRecognisedByContentNotByName) {
  // The content decides: a GGUF file with a wrong name opens, but not as a shard that should be safetensors.
  const TempDir dir;
  GgufWriter writer;
  writer.add_u8("x", 1);
  EXPECT_TRUE(open_model_file(dir.write("renamed.safetensors", writer.bytes())).ok());
  dir.write("config.json", "{}");
  dir.write("model.safetensors", writer.bytes());
  expect_path_refused(dir.path() + "/", 100, ErrorCode::kBadMagic, "it looks like a GGUF file");
}

TEST(HostileGguf, Case009OtherKindsOfFilesAreRefusedByKind) {
  expect_refused("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", ErrorCode::kBadMagic,
                 "looks like a Git LFS pointer");
  expect_refused("  <!DOCTYPE html><html>", ErrorCode::kBadMagic, "looks like a web page");
  expect_refused("<HTML><body>not found", ErrorCode::kBadMagic, "looks like a web page");
  expect_refused(std::string("PK\x03\x04\x14\0\0\0\0\0", 10), ErrorCode::kBadMagic, "looks like a zip archive");
  expect_refused(std::string("\x80\x02}q\x01(X\0\0\0", 10), ErrorCode::kBadMagic, "pickle");
  expect_refused(std::string(64, '\0'), ErrorCode::kBadMagic, "begins with zeros");
  expect_refused("{\"weight_map\": {}}", ErrorCode::kBadMagic, "JSON text");
  const std::string importances("\x03\0\0\0\x13\0\0\0blk.0.attn_q.weight\1\0\0\0", 31);
  expect_refused(importances, ErrorCode::kBadMagic, "looks like an importance matrix");
  expect_refused("version https://git-lfs.github.com/spec/v1\n", ErrorCode::kBadMagic, "looks like a Git LFS pointer",
                 "model.safetensors");
}

TEST(HostileGguf, Case010KeyCountOf2To63IsRefused) {
  expect_refused(gguf(0, uint64_t{1} << 63), ErrorCode::kLimitExceeded, "9223372036854775808");
}

TEST(HostileGguf, Case011TensorCountOf2To60IsRefused) {
  expect_refused(gguf(uint64_t{1} << 60, 0), ErrorCode::kLimitExceeded, "the number of tensors");
}

TEST(HostileGguf, Case012CountsBeyondTheFileAreRefused) {
  // A count above our limit is treated as an attack, a smaller one as a truncated file.
  expect_refused(gguf(0, 1'000'000), ErrorCode::kLimitExceeded, "metadata entries is 1000000");
  expect_refused(gguf(0, 60'000), ErrorCode::kTruncated, "metadata entries = 60000");
  expect_refused(gguf(250'000, 0), ErrorCode::kTruncated, "tensors = 250000");
}

TEST(HostileGguf, Case013ArrayCountOf2To40IsRefused) {
  for (const uint32_t element : {0u, kU32, 7u, kString, 12u}) {
    expect_refused(gguf(0, 1).string("k").put(kArray).put(element).put(uint64_t{1} << 40), ErrorCode::kLimitExceeded,
                   "the length of key 'k' is 1099511627776");
    expect_refused(gguf(0, 1).string("k").put(kArray).put(element).put(uint64_t{1} << 27), ErrorCode::kTruncated,
                   "the length of key 'k'");
  }
}

TEST(HostileGguf, Case014StringLengthOf2To64IsRefused) {
  expect_refused(gguf(0, 1).string("k").put(kString).put(~uint64_t{0}).raw("abc"), ErrorCode::kBadString,
                 "key 'k' holds a string of 18446744073709551615 bytes");
  expect_refused(gguf(0, 1).put(~uint64_t{0}).raw(std::string(100, 'k')), ErrorCode::kBadString, "at most 65535");
  // The hostile length is in the middle of an array, after valid strings.
  Bytes array = gguf(0, 1).string("k").put(kArray).put(kString).put(uint64_t{3}).string("a");
  expect_refused(array.put(~uint64_t{0} - 7).string("b"), ErrorCode::kBadString, "key 'k'");
}

TEST(HostileGguf, Case015KeyOfOneGibibyteIsRefused) {
  expect_refused(gguf(0, 1).put(uint64_t{1} << 30).raw(std::string(100, 'k')), ErrorCode::kBadString,
                 "has 1073741824 bytes");
  expect_refused(put_info(gguf(1, 0), std::string(65, 'n'), {1}, kTypeF32, 0), ErrorCode::kBadString,
                 "the name of tensor 0 has 65 bytes, at most 64");
}

TEST(HostileGguf, Case016InvalidUtf8AndNulInNamesAreRefused) {
  expect_refused(gguf(0, 1).string(std::string_view("a\0b", 3)).put(kU32).put(1u), ErrorCode::kBadString, "NUL");
  expect_refused(gguf(0, 1).string("a\xff").put(kU32).put(1u), ErrorCode::kBadString, "not valid UTF-8");
  expect_refused(gguf(0, 1).string("\xc0\x80").put(kU32).put(1u), ErrorCode::kBadString, "not valid UTF-8");
  expect_refused(put_info(gguf(1, 0), std::string("w\0", 2), {1}, kTypeF32, 0), ErrorCode::kBadString, "NUL");
}

TEST(HostileGguf, Case017EmptyKeyOrTensorNameIsRefused) {
  expect_refused(gguf(0, 1).string("").put(kU32).put(uint64_t{1}), ErrorCode::kBadString, "metadata key 0 is empty");
  expect_refused(put_info(gguf(1, 0), "", {1}, kTypeF32, 0).data(32), ErrorCode::kBadString, "tensor 0 is empty");
}

TEST(HostileGguf, Case018DuplicateKeyIsRefused) {
  GgufWriter writer;
  writer.add_u8("a", 1);
  writer.add_u8("b", 1);
  writer.add_string("a", "two");
  expect_refused(writer.bytes(), ErrorCode::kDuplicate, "key 'a' appears twice");
}

TEST(HostileGguf, Case019DuplicateTensorIsRefused) {
  GgufWriter writer;
  for (const char* name : {"w", "v", "w"}) add_tensor_of(writer, name, DType::kF32, {{1}, 1}, std::vector<float>{1});
  expect_refused(writer.bytes(), ErrorCode::kDuplicate, "tensor 'w' appears twice");
}

TEST(HostileGguf, Case020TooManyOrDuplicateKeysAreRefused) {
  // Five million keys are too many and refused. Fewer keys are sorted, so hash collisions have no effect.
  expect_refused(gguf(0, 5'000'000), ErrorCode::kLimitExceeded, "5000000");
  GgufWriter writer;
  for (uint32_t i = 0; i < 65'535; ++i) writer.add_u8("the.same.prefix." + std::to_string(i), 1);
  writer.add_u8("the.same.prefix.7", 1);
  expect_refused(writer.bytes(), ErrorCode::kDuplicate, "key 'the.same.prefix.7' appears twice");
}

TEST(HostileGguf, Case021NestedArraysAreRefused) {
  Bytes bytes = gguf(0, 1).string("k").put(kArray).put(kArray).put(uint64_t{1});
  for (int i = 0; i < 1000; ++i) bytes.put(kArray).put(uint64_t{1});
  expect_refused(bytes, ErrorCode::kLimitExceeded, "key 'k' is an array of arrays");
}

TEST(HostileGguf, Case022UnknownValueTypeIsRefused) {
  for (const uint32_t type : {13u, 255u, 0x80000000u, 0xffffffffu}) {
    expect_refused(gguf(0, 1).string("k").put(type).put(uint64_t{0}), ErrorCode::kBadType,
                   "key 'k' has value type " + std::to_string(type));
    expect_refused(gguf(0, 1).string("k").put(kArray).put(type).put(uint64_t{0}), ErrorCode::kBadType,
                   "has value type " + std::to_string(type));
  }
}

TEST(HostileGguf, Case023UnknownTensorTypeIsRefused) {
  expect_refused(one_tensor({1}, 9999, 0, 32), ErrorCode::kBadType, "tensor 'w' is of type 9999");
  expect_refused(one_tensor({1}, 0xffffffffu, 0, 32), ErrorCode::kBadType, "tensor 'w'");
  expect_refused(one_tensor({256}, 15, 0, 292), ErrorCode::kUnsupported, "(Q8_K), which is not supported");
}

TEST(HostileGguf, Case024RemovedTensorTypeIsRefused) {
  for (const uint32_t type : {4u, 5u, 31u, 38u}) {
    expect_refused(one_tensor({32}, type, 0, 64), ErrorCode::kUnsupported, "which was removed from the format");
  }
}

TEST(HostileGguf, Case025BoolWithValueSevenIsRefused) {
  expect_refused(gguf(0, 1).string("k").put(uint32_t{7}).put(uint8_t{7}), ErrorCode::kBadType,
                 "key 'k' is BOOL and holds 7");
  expect_refused(gguf(0, 1).string("k").put(kArray).put(uint32_t{7}).put(uint64_t{2}).raw("\x01\x02"),
                 ErrorCode::kBadType, "key 'k' is BOOL and holds 2");
}

TEST(HostileGguf, Case026ScoresOfTheWrongTypeAreNotReadAsFloats) {
  // If the array were read as floats, the bytes after it would be used as scores.
  const TempDir dir;
  GgufWriter writer;
  writer.add_i8s("tokenizer.ggml.scores", std::vector<int8_t>{1, 2, 3});
  const auto file = open_model_file(dir.write("m.gguf", writer.bytes()));
  ASSERT_TRUE(file.ok());
  const Status status = (*file)->get_floats("tokenizer.ggml.scores").status();
  EXPECT_EQ(status.code(), ErrorCode::kBadType);
  EXPECT_THAT(status.message(), HasSubstr("key 'tokenizer.ggml.scores' is ARRAY of I8, expected ARRAY of F32"));
}

TEST(HostileGguf, Case027TooManyDimensionsAreRefused) {
  expect_refused(one_tensor({1, 1, 1, 1, 1}, kTypeF32, 0, 32), ErrorCode::kBadShape, "tensor 'w' has 5 dimensions");
  const Bytes bytes = gguf(1, 0).string("w").put(~uint32_t{0}).put(uint64_t{1}).put(uint64_t{1});
  expect_refused(bytes, ErrorCode::kBadShape, "has 4294967295 dimensions");
}

TEST(HostileGguf, Case028ZeroDimensionsDoNotHideOverflow) {
  // A tensor without elements is valid, but a zero must not hide that the product of the others exceeds 64 bits.
  expect_refused(one_tensor({uint64_t{1} << 40, uint64_t{1} << 40, 0}, kTypeF32, 0, 32), ErrorCode::kOverflow,
                 "tensor 'w'");
}

TEST(HostileGguf, Case029NegativeDimensionIsRefused) {
  expect_refused(one_tensor({~uint64_t{0}}, kTypeF32, 0, 32), ErrorCode::kBadShape, "negative");
  expect_refused(one_tensor({4, uint64_t{1} << 63}, kTypeF32, 0, 32), ErrorCode::kBadShape, "negative");
}

TEST(HostileGguf, Case030ElementCountsThatOverflowAreRefused) {
  // These products wrap to 0, to 1 (274177 * 67280421310721 = 2^64 + 1), and to a negative number.
  expect_refused(one_tensor({uint64_t{1} << 32, uint64_t{1} << 32}, kTypeF32, 0, 32), ErrorCode::kOverflow, "elements");
  expect_refused(one_tensor({274177, 67280421310721}, kTypeF32, 0, 32), ErrorCode::kOverflow, "elements");
  expect_refused(one_tensor({uint64_t{1} << 62, 2}, kTypeF32, 0, 32), ErrorCode::kOverflow, "elements");
}

TEST(HostileGguf, Case031ByteCountsThatOverflowAreRefused) {
  // 2^61 doubles have 2^64 bytes, which would wrap to 0. For blocks the count is divided before it is multiplied.
  expect_refused(one_tensor({uint64_t{1} << 61}, kTypeF64, 0, 32), ErrorCode::kOverflow, "bytes");
  expect_refused(one_tensor({uint64_t{1} << 62}, kTypeQ4_0, 0, 32), ErrorCode::kTruncated, "tensor 'w'");
}

TEST(HostileGguf, Case032RowsOfPartialBlocksAreRefused) {
  expect_refused(one_tensor({33}, kTypeQ4_0, 0, 64), ErrorCode::kBadShape, "rows of 33 values, Q4_0 needs");
  // 2 x 16 values fill one block, but no row is a whole number of blocks.
  expect_refused(one_tensor({16, 2}, kTypeQ4_0, 0, 64), ErrorCode::kBadShape, "rows of 16 values");
  expect_refused(one_tensor({}, kTypeQ4_0, 0, 64), ErrorCode::kBadShape, "rows of 1 values");
}

TEST(HostileGguf, Case033AlignmentZeroIsRefused) {
  expect_refused(aligned_to(0), ErrorCode::kBadAlignment, "'general.alignment' is 0");
}

TEST(HostileGguf, Case034AlignmentThreeIsRefused) {
  expect_refused(aligned_to(3), ErrorCode::kBadAlignment, "'general.alignment' is 3");
}

TEST(HostileGguf, Case035AlignmentOf2To31IsRefused) {
  expect_refused(aligned_to(1u << 31), ErrorCode::kBadAlignment, "is 2147483648, expected a power of two");
  expect_refused(aligned_to(8192), ErrorCode::kBadAlignment, "is 8192");
}

TEST(HostileGguf, Case036AlignmentOfAnotherTypeIsRefused) {
  expect_refused(gguf(0, 1).string("general.alignment").put(kString).string("32"), ErrorCode::kBadAlignment,
                 "'general.alignment' is STRING, expected U32");
  expect_refused(gguf(0, 1).string("general.alignment").put(uint32_t{10}).put(uint64_t{32}), ErrorCode::kBadAlignment,
                 "is U64, expected U32");
}

TEST(HostileGguf, Case037UnalignedOffsetIsRefused) {
  expect_refused(one_tensor({1}, kTypeF32, 4, 64), ErrorCode::kBadAlignment, "tensor 'w' is at offset 4");
}

TEST(HostileGguf, Case038OffsetPastTheEndIsRefused) {
  expect_refused(one_tensor({8}, kTypeF32, 1 << 20, 32), ErrorCode::kBadOffset, "beyond the end of the file");
}

TEST(HostileGguf, Case039OffsetsAndSizesThatWrapAreRefused) {
  expect_refused(one_tensor({8}, kTypeF32, ~uint64_t{31}, 32), ErrorCode::kBadOffset, "beyond the end of the file");
  expect_refused(one_tensor({uint64_t{1} << 60}, kTypeF32, 0, 32), ErrorCode::kTruncated, "tensor 'w'");
}

TEST(HostileGguf, Case040OverlappingTensorsAreRefused) {
  expect_refused(tensors_at({0, 0}, 64), ErrorCode::kBadOffset, "overlapping");
  expect_refused(tensors_at({0, 32, 32}, 96), ErrorCode::kBadOffset, "tensor 't2' is at offset 32, overlapping");
}

TEST(HostileGguf, Case041HoleBetweenTensorsIsRefused) {
  expect_refused(tensors_at({0, 64}, 96), ErrorCode::kBadOffset, "leaving a hole; expected 32");
  expect_refused(tensors_at({32}, 64), ErrorCode::kBadOffset, "leaving a hole; expected 0");
}

TEST(HostileGguf, Case042TenGigabytesAfterTheLastTensorAreAWarning) {
  const TempDir dir;
  const std::string path = dir.write("m.gguf", tensors_at({0}, 32));
  std::filesystem::resize_file(path, 10'000'000'000);  // sparse
  const AllocationWatch watch;
  const auto file = open_model_file(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  EXPECT_LE(watch.peak_bytes(), allowed_heap(1000));
  ASSERT_EQ((*file)->warnings().size(), 1u);
  EXPECT_THAT((*file)->warnings()[0], HasSubstr("bytes follow the last tensor"));
  EXPECT_EQ((*file)->find_tensor("t0")->data.size(), 32u);
}

// tests/weights/gguf_split_test.cc tests missing and inconsistent parts.
TEST(HostileGguf, SplitModelWithMissingPartsIsRefused) {
  GgufWriter writer;
  writer.add_u16("split.count", 3);
  writer.add_u16("split.no", 0);
  expect_refused(writer.bytes(), ErrorCode::kMissingShard, "the other parts cannot be found");
}

TEST(HostileGguf, MessagesDoNotContainControlCharactersOfTheFile) {
  const Bytes bytes = gguf(0, 1).string("\x1b[2J" + std::string(1000, 'k')).put(uint32_t{99});
  const TempDir dir;
  const std::string message = open_model_file(dir.write("m.gguf", bytes.text())).status().message();
  EXPECT_THAT(message, HasSubstr("'?[2Jkkk"));
  EXPECT_LT(message.size(), 400u);
}

}  // namespace
}  // namespace ibid
