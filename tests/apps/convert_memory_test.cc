// `ibid convert` works in pieces: its peak memory, mapped file pages included, depends neither on the number nor on the
// size of the tensors.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/memory_marks.h"
#include "tests/support/temp_dir.h"
#include "weights/gguf_writer.h"

namespace ibid {
namespace {

constexpr uint64_t kCols = 4096, kRowsOfAPiece = 2048;  // 32 MB of floats, one piece
constexpr size_t kSlack = size_t{12} << 20;             // tolerance for models of at least 256 MB in total

// Returns the peak memory of a conversion in bytes.
size_t peak_of_converting(const std::string& in, const std::string& out, const std::string& type) {
  std::vector<std::string> arguments = {IBID_PROGRAM, "convert", in, out};
  if (!type.empty()) arguments.insert(arguments.end(), {"--type", type});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const int nothing = ::open("/dev/null", O_WRONLY);
    ::dup2(nothing, STDOUT_FILENO);
    ::execv(argv[0], argv.data());
    _exit(127);
  }
  int status = 0;
  rusage usage{};
  EXPECT_EQ(::wait4(child, &status, 0, &usage), child);
  EXPECT_EQ(status, 0);
  return static_cast<size_t>(usage.ru_maxrss) * 1024;
}

// Writes a sparse file: `begin`, then zeros up to `size`.
void write_sparse(const std::string& path, const std::string& begin, uint64_t size) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  ASSERT_GE(file, 0);
  EXPECT_EQ(::write(file, begin.data(), begin.size()), static_cast<ssize_t>(begin.size()));
  EXPECT_EQ(::ftruncate(file, static_cast<off_t>(size)), 0);
  ::close(file);
}

std::string write_gguf(const TempDir& dir, size_t n_tensors, uint64_t n_rows) {
  GgufWriter writer;
  writer.add_string("general.architecture", "llama");
  uint64_t bytes = 0;
  for (size_t i = 0; i < n_tensors; ++i) {
    writer.declare_tensor("blk." + std::to_string(i) + ".ffn_up.weight", DType::kF32, Shape{{n_rows, kCols}, 2});
    bytes += writer.padded_bytes(n_rows * kCols * sizeof(float));
  }
  const std::string header = writer.header();
  write_sparse(dir.file("in.gguf"), header, header.size() + bytes);
  return dir.file("in.gguf");
}

TEST(ConvertMemory, PeakMemoryDoesNotGrowWithGgufSize) {
  if (kMarksMemory) GTEST_SKIP() << "a sanitizer uses additional memory";
  const TempDir dir;
  const std::string out = dir.file("out.gguf");
  for (const std::string type : {"Q8_0", ""}) {
    SCOPED_TRACE(type);
    const size_t one = peak_of_converting(write_gguf(dir, 1, kRowsOfAPiece), out, type);
    const size_t eight = peak_of_converting(write_gguf(dir, 8, kRowsOfAPiece), out, type);
    const size_t large = peak_of_converting(write_gguf(dir, 1, 8 * kRowsOfAPiece), out, type);
    EXPECT_LE(eight, one + kSlack);
    EXPECT_LE(large, one + kSlack);
  }
}

constexpr uint64_t kDim = 1024;

// Writes a llama with one layer and no tokenizer.
std::string write_directory(const TempDir& dir, uint64_t ffn_dim) {
  const std::string dim = std::to_string(kDim), ffn = std::to_string(ffn_dim);
  std::string header = "{";
  uint64_t bytes = 0;
  const auto add = [&](const std::string& name, std::initializer_list<uint64_t> shape) {
    uint64_t values = 1;
    std::string dims;
    for (const uint64_t n : shape) values *= n, dims += (dims.empty() ? "" : ",") + std::to_string(n);
    header += (bytes == 0 ? "\"" : ",\"") + name + R"(":{"dtype":"BF16","shape":[)" + dims + R"(],"data_offsets":[)" +
              std::to_string(bytes) + "," + std::to_string(bytes + 2 * values) + "]}";
    bytes += 2 * values;
  };
  add("model.embed_tokens.weight", {64, kDim});
  add("model.norm.weight", {kDim});
  const std::string layer = "model.layers.0.";
  for (const char* norm : {"input_layernorm.weight", "post_attention_layernorm.weight"}) add(layer + norm, {kDim});
  for (const char* name : {"q", "k", "v", "o"}) {
    add(layer + "self_attn." + name + "_proj.weight", {kDim, kDim});
  }
  add(layer + "mlp.gate_proj.weight", {ffn_dim, kDim});
  add(layer + "mlp.up_proj.weight", {ffn_dim, kDim});
  add(layer + "mlp.down_proj.weight", {kDim, ffn_dim});
  header += "}";
  const uint64_t length = header.size();
  const std::string begin = std::string(reinterpret_cast<const char*>(&length), sizeof length) + header;
  write_sparse(dir.file("model.safetensors"), begin, begin.size() + bytes);
  dir.write("config.json", R"({"model_type": "llama", "vocab_size": 64, "num_hidden_layers": 1, "rms_norm_eps": 1e-5,
      "num_attention_heads": 8, "num_key_value_heads": 8, "max_position_embeddings": 128, "tie_word_embeddings": true,
      "hidden_size": )" + dim + R"(, "intermediate_size": )" +
                               ffn + "}");
  return dir.path();
}

TEST(ConvertMemory, PeakMemoryDoesNotGrowWithADirectory) {
  if (kMarksMemory) GTEST_SKIP() << "a sanitizer uses additional memory";
  const TempDir dir, outs;
  const std::string out = outs.file("out.gguf");
  for (const std::string type : {"Q8_0", ""}) {
    SCOPED_TRACE(type);
    const size_t small = peak_of_converting(write_directory(dir, 16384), out, type);  // 96 MB in three matrices
    const size_t large = peak_of_converting(write_directory(dir, 65536), out, type);  // 384 MB
    EXPECT_LE(large, small + kSlack);
  }
}

}  // namespace
}  // namespace ibid
