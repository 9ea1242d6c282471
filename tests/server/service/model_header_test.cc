#include "server/service/model_host.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid::serve {
namespace {

HostedModel hosted(const std::string& path) {
  return {.name = "m", .path = path, .file_bytes = std::filesystem::file_size(path), .created_s = 1};
}

TEST(ModelHeaderTest, HeaderIsReadWithoutWeights) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  TinyModel tiny;
  tiny.matrix_dtype = DType::kQ4_1;
  tiny.head_dtype = DType::kQ4_1;
  GgufWriter writer = tiny_model_writer(tiny);
  writer.add_string("tokenizer.chat_template", "{{ messages }}");
  writer.add_string("general.basename", "Tiny");
  ASSERT_TRUE(writer.write(path).ok());
  ModelHeaders headers;
  ModelHeader header = headers.of(hosted(path));
  EXPECT_EQ(header.format, "gguf");
  EXPECT_EQ(header.family, "llama");
  EXPECT_EQ(header.basename, "Tiny");
  EXPECT_EQ(header.quantization, "Q4_1") << "the type of most weights";
  EXPECT_EQ(header.trained_context, tiny.context);
  EXPECT_EQ(header.embedding_dim, tiny.dim);
  EXPECT_EQ(header.chat_template, "{{ messages }}");
  const size_t n_of_layer = 2 * tiny.dim * 64 + 2 * tiny.dim * 32 + 3 * tiny.dim * tiny.ffn_dim + 2 * tiny.dim;
  EXPECT_EQ(header.n_params, tiny.n_layers * n_of_layer + 2 * tiny.vocab_size * tiny.dim + tiny.dim);

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
