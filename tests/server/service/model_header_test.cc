#include "server/service/model_host.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"
#include "weights/gguf_writer.h"

namespace ibid::serve {
namespace {

HostedModel hosted(const std::string& path) {
  return {.name = "m", .path = path, .file_bytes = std::filesystem::file_size(path), .created_s = 1};
}

TEST(ModelHeaderTest, HeaderIsReadWithoutWeights) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  const auto zeros = [](DType dtype, size_t n) {
    const BlockSize block = dtype_block(dtype);
    return std::vector<std::byte>(n / block.values * block.bytes);
  };
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  writer.add_string("general.basename", "Tiny");
  writer.add_u32("llama.context_length", 128);
  writer.add_u32("llama.embedding_length", 32);
  writer.add_string("tokenizer.chat_template", "{{ messages }}");
  writer.add_tensor("token_embd.weight", DType::kF16, {20, 32}, zeros(DType::kF16, 20 * 32));
  writer.add_tensor("blk.0.ffn_up.weight", DType::kQ4_1, {64, 32}, zeros(DType::kQ4_1, 64 * 32));
  writer.add_tensor("output_norm.weight", DType::kF32, {32}, zeros(DType::kF32, 32));
  ASSERT_TRUE(writer.write(path).ok());
  ModelHeaders headers;
  ModelHeader header = headers.of(hosted(path));
  EXPECT_EQ(header.format, "gguf");
  EXPECT_EQ(header.family, "llama");
  EXPECT_EQ(header.basename, "Tiny");
  EXPECT_EQ(header.quantization, "Q4_1") << "the type of most weights";
  EXPECT_EQ(header.trained_context, 128u);
  EXPECT_EQ(header.embedding_dim, 32u);
  EXPECT_EQ(header.chat_template, "{{ messages }}");
  EXPECT_EQ(header.n_params, 20u * 32 + 64 * 32 + 32);

  // A replaced file is read again; an unchanged one is not.
  const HostedModel before = hosted(path);
  writer.add_u32("general.file_type", 15);
  ASSERT_TRUE(writer.write(path).ok());
  EXPECT_EQ(headers.of(before).quantization, "Q4_1");
  EXPECT_EQ(headers.of(hosted(path)).quantization, "Q4_K_M") << "the declared type";
}

TEST(ModelHeaderTest, UnreadableFileHasAnEmptyHeader) {
  const TempDir dir;
  ModelHeaders headers;
  for (const std::string& path : {dir.write("bad.gguf", "GGUF?"), dir.write("none.txt", "")}) {
    const ModelHeader header = headers.of(hosted(path));
    EXPECT_EQ(header.format, "");
    EXPECT_EQ(header.n_params, 0u);
  }
}

}  // namespace
}  // namespace ibid::serve
