// A model gives the same logits as a directory and as the GGUF that llama.cpp's converter would write.
//
// write_gguf_twins.py in this folder writes the GGUF files, as an independent implementation of the format, with the
// package `gguf` of PyPI. $IBID_GGUF_TWINS is their directory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>

#include "model/architectures/architectures.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

std::vector<float> logits_of(const std::string& path) {
  const auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  const auto model = load_language_model(**file, {.kv_dtype = KvDType::kF32, .n_threads = 1});
  CHECK(model.ok()) << model.status().to_string();
  const Tokens tokens = random_tokens(100, (*model)->vocab_size(), 5);
  KvPagePool pool((*model)->kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  Logits logits;
  const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
  const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
  CHECK(status.ok()) << status.to_string();
  std::vector<float> all;
  for (size_t i = 0; i < logits.n_rows(); ++i) all.insert(all.end(), logits.row(i).begin(), logits.row(i).end());
  return all;
}

// True if the file's RoPE factors are rounded to 32 bits, which changes the logits slightly.
bool rope_is_rounded(const ModelConfig& config) {
  for (const RopeRule& rule : config.ropes) {
    if (!rule.frequency_factors.empty() || rule.magnitude != 1) return true;
  }
  return false;
}

// True if the GGUF has the model's factors multiplied into its weights.
bool has_factors(const ModelConfig& of_directory) { return of_directory.recurrent.v_scale != 1; }

TEST(GgufTwins, GgufAndDirectoryGiveTheSameLogits) {
  IBID_NEED_SHARED(shared);
  const char* reference_kernels = std::getenv("IBID_GGUF_TWINS");
  if (reference_kernels == nullptr)
    GTEST_SKIP() << "no twins: run write_gguf_twins.py, and set IBID_GGUF_TWINS to its output";
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(reference_kernels)) {
    if (entry.path().extension() == ".gguf") paths.insert(entry.path());
  }
  size_t n_equal = 0;
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.string());
    const auto file = open_model_file(path);
    ASSERT_TRUE(file.ok()) << file.status().to_string();
    const auto config = read_config(**file);
    ASSERT_TRUE(config.ok()) << config.status().to_string();
    const std::vector<float> got = logits_of(path);
    // If the checkpoint was changed before the conversion, the changed checkpoint is next to it.
    const std::filesystem::path changed = std::filesystem::path(path).replace_extension();
    const std::string original =
        std::filesystem::exists(changed) ? changed.string() : shared + "/reference/tiny/" + path.stem().string();
    const std::vector<float> wanted = logits_of(original);
    ASSERT_EQ(got.size(), wanted.size());
    float largest = 0;
    for (size_t i = 0; i < got.size(); ++i) largest = std::max(largest, std::abs(got[i] - wanted[i]));
    std::printf("%-18s max |dlogit| %.1e\n", path.stem().c_str(), static_cast<double>(largest));
    n_equal += largest == 0 ? 1 : 0;
    const auto directory = open_model_file(original);
    EXPECT_LE(largest, has_factors(*read_config(**directory)) || rope_is_rounded(*config) ? 1e-4f : 0.0f);
  }
  EXPECT_GE(n_equal, 58u);
}

}  // namespace
}  // namespace ibid
