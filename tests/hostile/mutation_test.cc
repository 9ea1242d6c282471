// Valid files truncated at every byte, with every bit flipped and with hostile numbers at every offset: cases 3 and 4
// of README.md, and cases that it does not list. Any result is accepted except a crash, a hang or an allocation beyond
// the file's size; sanitizers check the reads.
#include <array>
#include <cstring>
#include <functional>

#include "tests/hostile/hostile.h"
#include "tests/support/gguf_tensors.h"
#include "tests/weights/safetensors_bytes.h"
#include "weights/gguf_header.h"
#include "weights/gguf_writer.h"
#include "weights/safetensors_header.h"

namespace ibid {
namespace {

std::string sample_gguf() {
  GgufWriter w;
  w.add_string("general.architecture", "llama");
  w.add_u32("general.alignment", 32);
  w.add_u32("llama.block_count", 1);
  w.add_f32("eps", 1e-5f);
  w.add_bool("flag", true);
  const std::vector<std::string> words = {"<s>", "a", "", "\xc4\xa0the"};
  w.add_strings("tokenizer.ggml.tokens", words);
  w.add_f32s("tokenizer.ggml.scores", std::vector<float>{0, 1, 2, 3});
  w.add_bools("flags", {true, false, true});
  add_tensor_of(w, "token_embd.weight", DType::kQ8_0, {{2, 32}, 2}, std::vector<float>(64, 0.5f));
  add_tensor_of(w, "norm", DType::kF32, {{5}, 1}, std::vector<float>(5, 1.0f));
  add_tensor_of(w, "blk.0.attn_q.weight", DType::kQ4_K, {{1, 256}, 2}, std::vector<float>(256, 0.25f));
  return w.bytes();
}

std::string sample_safetensors() {
  return safetensors_bytes({{"a", "F32", "[2,1]", "12345678"}, {"b", "F16", "[]", "12"}, {"c", "U8", "[0]", ""}});
}

// Offset at which the header of sample_gguf() ends.
size_t header_bytes(const std::string& gguf) {
  const auto header = parse_gguf_header(std::as_bytes(std::span(gguf)), "sample", true);
  CHECK(header.ok()) << header.status().message();
  return static_cast<size_t>(header->tensors[0].view.data.data() - std::as_bytes(std::span(gguf)).data());
}

// Parses a copy of `bytes` of exactly this length, so that a sanitizer detects every read beyond it.
ErrorCode parse_gguf(std::string_view bytes) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const AllocationWatch watch;
  const auto header = parse_gguf_header(std::as_bytes(std::span(copy)), "mutant", true);
  EXPECT_LE(watch.peak_bytes(), allowed_heap(bytes.size()));
  if (!header.ok()) return header.status().code();
  uint64_t sum = 0;
  for (const GgufTensorInfo& tensor : header->tensors) {
    for (const std::byte byte : tensor.view.data) sum += static_cast<uint64_t>(byte);
  }
  for (const GgufEntry& entry : header->entries) {
    for (const std::byte byte : entry.payload) sum += static_cast<uint64_t>(byte);
    EXPECT_EQ(header->find(entry.key), &entry);
  }
  EXPECT_LT(sum, bytes.size() * 1000);
  return ErrorCode::kOk;
}

ErrorCode parse_safetensors(std::string_view bytes) {
  const std::vector<char> copy(bytes.begin(), bytes.end());
  const AllocationWatch watch;
  const auto header = parse_safetensors_header(std::as_bytes(std::span(copy)), "mutant");
  EXPECT_LE(watch.peak_bytes(), allowed_heap(bytes.size()));
  if (!header.ok()) return header.status().code();
  uint64_t sum = 0;
  for (const SafetensorsTensor& tensor : header->tensors) {
    for (const std::byte byte : tensor.view.data) sum += static_cast<uint64_t>(byte);
  }
  EXPECT_LT(sum, bytes.size() * 1000);
  return ErrorCode::kOk;
}

using Parser = std::function<ErrorCode(std::string_view)>;

void flip_every_bit(std::string bytes, size_t end, const Parser& parse) {
  for (size_t i = 0; i < end; ++i) {
    for (int bit = 0; bit < 8; ++bit) {
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
      parse(bytes);
      bytes[i] = static_cast<char>(bytes[i] ^ (1 << bit));
    }
  }
  EXPECT_EQ(parse(bytes), ErrorCode::kOk) << "the sample itself must be valid";
}

template <typename T>
void put_numbers_everywhere(const std::string& sound, size_t end, const Parser& parse) {
  constexpr T kTop = static_cast<T>(T{1} << (8 * sizeof(T) - 1));
  for (size_t i = 0; i + sizeof(T) <= end; ++i) {
    for (const T number : {T{0}, T{1}, T{31}, T{255}, static_cast<T>(kTop - 1), kTop, static_cast<T>(kTop + 1),
                           static_cast<T>(~T{0} - 7), static_cast<T>(~T{0})}) {
      std::string bytes = sound;
      std::memcpy(bytes.data() + i, &number, sizeof(number));
      parse(bytes);
    }
  }
}

TEST(Mutations, Case003GgufTruncatedAtAnyByteOfTheHeaderIsRefused) {
  const std::string sound = sample_gguf();
  const size_t end = header_bytes(sound);
  for (size_t n = 0; n < end; ++n) {
    EXPECT_EQ(error_code_name(parse_gguf(sound.substr(0, n))), "Truncated") << n << " bytes";
  }
}

TEST(Mutations, Case003TruncatedMappedFilesAreRefused) {
  const std::string sound = sample_gguf();
  const size_t end = header_bytes(sound);
  const TempDir dir;
  for (size_t n = 0; n < end; n += 7) {
    const std::string path = dir.write("cut.gguf", std::string_view(sound).substr(0, n));
    EXPECT_EQ(open_model_file(path).status().code(), ErrorCode::kTruncated) << n << " bytes";
  }
}

TEST(Mutations, Case004GgufTruncatedInTheDataIsRefused) {
  const std::string sound = sample_gguf();
  const size_t last = 144;  // size of the last tensor, a block of Q4_K; padding follows it
  const size_t end = header_bytes(sound) + 96 + 32 + last;
  for (size_t n = header_bytes(sound); n < end; ++n) {
    EXPECT_EQ(error_code_name(parse_gguf(sound.substr(0, n))), "Truncated") << n << " bytes";
  }
  EXPECT_EQ(parse_gguf(sound.substr(0, end)), ErrorCode::kOk) << "padding after the last tensor may be missing";
}

TEST(Mutations, GgufWithAnyHeaderBitFlippedIsReadOrRefused) {
  const std::string sound = sample_gguf();
  flip_every_bit(sound, header_bytes(sound), parse_gguf);
}

TEST(Mutations, GgufWithHostileNumbersAtAnyOffsetIsReadOrRefused) {
  const std::string sound = sample_gguf();
  put_numbers_everywhere<uint32_t>(sound, header_bytes(sound), parse_gguf);
  put_numbers_everywhere<uint64_t>(sound, header_bytes(sound), parse_gguf);
}

TEST(Mutations, GgufFilesWithFlippedBytesAreReadOrRefused) {
  const std::string sound = sample_gguf();
  const TempDir dir;
  size_t opened = 0;
  for (size_t i = 0; i < header_bytes(sound); i += 5) {
    std::string bytes = sound;
    bytes[i] = static_cast<char>(~bytes[i]);
    const auto file = open_model_file(dir.write("flipped.gguf", bytes));
    if (!file.ok()) continue;
    ++opened;
    touch_everything(**file);
  }
  EXPECT_GT(opened, 0u) << "a flipped byte of a value leaves a file that opens";
}

TEST(Mutations, Case003SafetensorsTruncatedAtAnyByteIsRefused) {
  const std::string sound = sample_safetensors();
  for (size_t n = 0; n < sound.size(); ++n) {
    EXPECT_EQ(error_code_name(parse_safetensors(sound.substr(0, n))), "Truncated") << n << " bytes";
  }
}

TEST(Mutations, SafetensorsWithAnyBitFlippedIsReadOrRefused) {
  const std::string sound = sample_safetensors();
  flip_every_bit(sound, sound.size() - 10, parse_safetensors);
}

TEST(Mutations, SafetensorsWithHostileNumbersAtAnyOffsetIsReadOrRefused) {
  const std::string sound = sample_safetensors();
  put_numbers_everywhere<uint64_t>(sound, sound.size(), parse_safetensors);
}

TEST(Mutations, ShardIndexWithAnyBitFlippedOrTruncatedIsReadOrRefused) {
  const std::string sound = R"({"metadata":{"total_size":3},"weight_map":{"a":"1.safetensors","b":"2.safetensors"}})";
  const Parser parse = [](std::string_view text) { return parse_shard_index(text, "index").status().code(); };
  flip_every_bit(sound, sound.size(), parse);
  for (size_t n = 0; n < sound.size(); ++n) EXPECT_EQ(parse(sound.substr(0, n)), ErrorCode::kBadHeader) << n;
}

}  // namespace
}  // namespace ibid
