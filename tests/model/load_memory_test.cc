// Loading stays within the plan of memory_plan.h: packed weights take the planned bytes, and in addition only the rows
// of one panel per thread are kept. No checkpoint is expanded to floats as a whole.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>

#include "base/memory_marks.h"
#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "model/memory_plan.h"
#include "tests/support/heap_peak.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "tests/weights/safetensors_bytes.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

constexpr int kThreads = 2;
// Memory for data other than numbers in a file with a hundred matrices: names, tensor table, jobs, thread team,
// config.json. It is a tenth of the floats of one matrix below.
constexpr size_t kBesideNumbers = size_t{300} << 10;
constexpr size_t kDim = 512, kFfn = 1536, kVocab = 1024;

ModelOptions options_of(Numerics numerics) {
  ModelOptions options{.numerics = numerics, .n_threads = kThreads, .max_seq_len = 64};
  options.max_chunk = 16;
  return options;
}

void expect_within_plan(const std::string& path, Numerics numerics) {
  const ModelOptions options = options_of(numerics);
  const HeapPeak peak;
  auto file = open_model_file(path);
  ASSERT_TRUE(file.ok()) << file.status().to_string();
  auto config = read_config(**file);
  ASSERT_TRUE(config.ok()) << config.status().to_string();
  const auto plan = plan_memory(**file, *config, options);
  ASSERT_TRUE(plan.ok()) << plan.status().to_string();
  const auto model = TransformerModel::create(**file, *std::move(config), options);
  ASSERT_TRUE(model.ok()) << model.status().to_string();
  EXPECT_EQ((*model)->weights().bytes(), plan->weights_bytes);
  // The widest rows of a panel, both as stored and as floats.
  const size_t rows = kThreads * kPanelRows * std::max(kFfn, kDim) * 2 * sizeof(float);
  EXPECT_LE(peak.bytes(), rows + kBesideNumbers);
}

TEST(LoadMemory, GgufOfEveryTypeStaysWithinThePlan) {
  for (size_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const bool in_gguf = dtype_is_quantized(dtype) && dtype != DType::kF8E4M3Scaled && dtype != DType::kF8E5M2Scaled;
    if (!in_gguf && dtype != DType::kF16 && dtype != DType::kBF16 && dtype != DType::kF32) continue;
    SCOPED_TRACE(std::string(dtype_name(dtype)));
    const TempDir dir;
    TinyModel tiny;
    tiny.n_layers = 1, tiny.dim = kDim, tiny.ffn_dim = kFfn, tiny.n_heads = 8, tiny.n_kv_heads = 2, tiny.head_dim = 64;
    tiny.vocab_size = kVocab, tiny.tied = true;
    tiny.matrix_dtype = tiny.embed_dtype = dtype;
    write_tiny_model(tiny, dir.file("m.gguf"));
    expect_within_plan(dir.file("m.gguf"), Numerics::kExact);
    if (dtype == DType::kQ4_K) expect_within_plan(dir.file("m.gguf"), Numerics::kReference);
  }
}

// --- Checkpoints that store a matrix in several tensors, with random codes.

std::string dims(std::initializer_list<size_t> sizes) {
  std::string text;
  for (const size_t size : sizes) text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text + "]";
}

std::string random_bytes(size_t n) {
  static std::mt19937 rng(1);
  std::string bytes(n, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng());
  return bytes;
}

// Returns n times the number 2^-9, as a half, a bfloat or a float.
std::string scales(const std::string& type, size_t n) {
  const std::string one = type == "F16"    ? std::string("\x00\x18", 2)
                          : type == "BF16" ? std::string("\x00\x3b", 2)
                                           : std::string("\x00\x00\x00\x3b", 4);
  std::string all;
  for (size_t i = 0; i < n; ++i) all += one;
  return all;
}

using Parts = std::vector<SafetensorsPart>;
using AddMatrix = std::function<void(Parts&, const std::string& stem, size_t n_out, size_t n_in)>;

void add_gptq(Parts& parts, const std::string& stem, size_t n_out, size_t n_in, bool shuffled) {
  const size_t groups = n_in / 128;
  parts.push_back({stem + ".qweight", "I32", dims({n_in / 8, n_out}), random_bytes(n_in * n_out / 2)});
  parts.push_back({stem + ".qzeros", "I32", dims({groups, n_out / 8}), random_bytes(groups * n_out / 2)});
  parts.push_back({stem + ".scales", "F16", dims({groups, n_out}), scales("F16", groups * n_out)});
  std::string order;
  for (size_t k = 0; k < n_in; ++k) {
    const auto group = static_cast<int32_t>(shuffled ? k % groups : k / 128);
    order.append(reinterpret_cast<const char*>(&group), sizeof group);
  }
  parts.push_back({stem + ".g_idx", "I32", dims({n_in}), order});
}

void add_awq(Parts& parts, const std::string& stem, size_t n_out, size_t n_in) {
  const size_t groups = n_in / 128;
  parts.push_back({stem + ".qweight", "I32", dims({n_in, n_out / 8}), random_bytes(n_in * n_out / 2)});
  parts.push_back({stem + ".qzeros", "I32", dims({groups, n_out / 8}), random_bytes(groups * n_out / 2)});
  parts.push_back({stem + ".scales", "F16", dims({groups, n_out}), scales("F16", groups * n_out)});
}

void add_compressed(Parts& parts, const std::string& stem, size_t n_out, size_t n_in) {
  const size_t groups = n_in / 128;
  parts.push_back({stem + ".weight_packed", "I32", dims({n_out, n_in / 8}), random_bytes(n_in * n_out / 2)});
  parts.push_back({stem + ".weight_zero_point", "I32", dims({n_out / 8, groups}), random_bytes(groups * n_out / 2)});
  parts.push_back({stem + ".weight_scale", "BF16", dims({n_out, groups}), scales("BF16", groups * n_out)});
}

void add_f8(Parts& parts, const std::string& stem, size_t n_out, size_t n_in, bool by_block) {
  std::string codes = random_bytes(n_out * n_in);
  for (char& code : codes) code = static_cast<char>(code & 0xbf);  // finite
  parts.push_back({stem + ".weight", "F8_E4M3", dims({n_out, n_in}), codes});
  const size_t blocks = n_out / 128 * (n_in / 128);
  if (by_block) {
    parts.push_back({stem + ".weight_scale_inv", "F32", dims({n_out / 128, n_in / 128}), scales("F32", blocks)});
  } else {
    parts.push_back({stem + ".weight_scale", "F32", dims({n_out, 1}), scales("F32", n_out)});
  }
}

struct Kept {
  const char* name;
  const char* quantization;
  AddMatrix add;
};

std::vector<Kept> every_way_to_keep() {
  const auto gptq = [](bool shuffled) {
    return [=](Parts& p, const std::string& s, size_t o, size_t i) { add_gptq(p, s, o, i, shuffled); };
  };
  const auto f8 = [](bool by_block) {
    return [=](Parts& p, const std::string& s, size_t o, size_t i) { add_f8(p, s, o, i, by_block); };
  };
  constexpr const char* kGptq = R"({"quant_method": "gptq", "bits": 4})";
  return {{"gptq", kGptq, gptq(false)},
          {"gptq, columns out of order", kGptq, gptq(true)},
          {"awq", R"({"quant_method": "awq", "bits": 4})", add_awq},
          {"compressed", R"({"quant_method": "compressed-tensors", "format": "pack-quantized"})", add_compressed},
          {"f8, blocks", R"({"quant_method": "fp8", "weight_block_size": [128, 128]})", f8(true)},
          {"f8, rows", R"({"quant_method": "fbgemm_fp8"})", f8(false)}};
}

// Writes a Llama whose matrices are stored in this way.
void write_checkpoint(const Kept& kept, size_t n_layers, size_t dim, size_t ffn, const TempDir& dir) {
  Parts parts;
  const auto plain = [&](const std::string& name, const std::string& shape, size_t n) {
    parts.push_back({name, "BF16", shape, scales("BF16", n)});
  };
  plain("model.embed_tokens.weight", dims({kVocab, dim}), kVocab * dim);
  plain("model.norm.weight", dims({dim}), dim);
  for (size_t l = 0; l < n_layers; ++l) {
    const std::string layer = "model.layers." + std::to_string(l) + ".";
    plain(layer + "input_layernorm.weight", dims({dim}), dim);
    plain(layer + "post_attention_layernorm.weight", dims({dim}), dim);
    for (const char* name : {"q", "k", "v", "o"}) kept.add(parts, layer + "self_attn." + name + "_proj", dim, dim);
    for (const char* name : {"gate", "up"}) kept.add(parts, layer + "mlp." + name + "_proj", ffn, dim);
    kept.add(parts, layer + "mlp.down_proj", dim, ffn);
  }
  dir.write("model.safetensors", safetensors_bytes(parts));
  std::string config =
      R"({"model_type": "llama", "tie_word_embeddings": true, "rms_norm_eps": 1e-5, "rope_theta": 10000.0)";
  for (const auto& [key, value] :
       std::initializer_list<std::pair<const char*, size_t>>{{"vocab_size", kVocab},
                                                             {"hidden_size", dim},
                                                             {"intermediate_size", ffn},
                                                             {"num_hidden_layers", n_layers},
                                                             {"num_attention_heads", dim / 64},
                                                             {"max_position_embeddings", 128}}) {
    config += std::string(", \"") + key + "\": " + std::to_string(value);
  }
  dir.write("config.json", config + ", \"quantization_config\": " + kept.quantization + "}");
}

TEST(LoadMemory, CheckpointsWithSplitMatricesStayWithinThePlan) {
  for (const Kept& kept : every_way_to_keep()) {
    SCOPED_TRACE(kept.name);
    const TempDir dir;
    write_checkpoint(kept, 1, kDim, kFfn, dir);
    expect_within_plan(dir.path(), Numerics::kExact);
  }
}

// --- Resident memory, as the OS counts it.

size_t status_bytes(const std::string& wanted) {
  std::ifstream status("/proc/self/status");
  std::string key, line;
  while (status >> key) {
    size_t kib = 0;
    if (key == wanted && status >> kib) return kib * 1024;
    std::getline(status, line);
  }
  return 0;
}

// A separate process opens and loads the model. Its resident memory, which includes mapped pages of the file, may
// exceed the plan by the pages of the rows being read and the edges of huge pages only.
void expect_resident_within_plan(const std::string& path) {
  constexpr size_t kSlack = size_t{16} << 20;  // less than the file, and than the largest matrix as floats
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const size_t before = status_bytes("VmRSS:");
    auto file = open_model_file(path);
    auto config = read_config(**file);
    const auto plan = plan_memory(**file, *config, options_of(Numerics::kExact));
    const auto model = TransformerModel::create(**file, *std::move(config), options_of(Numerics::kExact));
    const size_t grown = status_bytes("VmHWM:") - before, allowed = plan->fixed_bytes() + kSlack;
    if (grown > allowed) {
      std::printf("%zu bytes of memory, planned were %zu, the file has %zu\n", grown, plan->fixed_bytes(),
                  plan->file_bytes);
      std::fflush(stdout);
    }
    _exit(model.ok() && grown <= allowed ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(LoadMemory, ResidentMemoryStaysWithinThePlan) {
  if (kMarksMemory) GTEST_SKIP() << "what a sanitizer takes is counted too";
  for (const Kept& kept : every_way_to_keep()) {
    SCOPED_TRACE(kept.name);
    const TempDir dir;
    write_checkpoint(kept, 2, 1024, 5120, dir);
    expect_resident_within_plan(dir.path());
  }
}

// The rows of the file are released while their matrix is packed, not only after it.
TEST(LoadMemory, ResidentMemoryOfOneLargeMatrixStaysWithinThePlan) {
  if (kMarksMemory) GTEST_SKIP() << "what a sanitizer takes is counted too";
  const TempDir dir;
  TinyModel tiny;
  tiny.n_layers = 1, tiny.dim = 512, tiny.n_heads = 8, tiny.head_dim = 64, tiny.vocab_size = 40960, tiny.tied = true;
  tiny.embed_dtype = DType::kF16;
  write_tiny_model(tiny, dir.file("m.gguf"));
  expect_resident_within_plan(dir.file("m.gguf"));
}

}  // namespace
}  // namespace ibid
