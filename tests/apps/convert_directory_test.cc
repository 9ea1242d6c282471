// A Hugging Face directory and the GGUF that `ibid convert` makes of it are one model: the same bits in every
// logit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "apps/convert/convert_model.h"
#include "model/architectures.h"
#include "model/load_model.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

using testing::HasSubstr;

std::vector<Row> logits_of(const std::string& path) {
  const auto file = open_model_file(path);
  CHECK(file.ok()) << file.status().to_string();
  const auto model = load_language_model(**file, {.kv_dtype = KvDType::kF16, .n_threads = 2});
  CHECK(model.ok()) << model.status().to_string();
  KvPagePool pool((*model)->kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  const Tokens tokens = random_tokens(100, (*model)->vocab_size(), 5);
  const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
  Logits logits;
  const Status status = (*model)->forward(std::span(&chunk, 1), {}, logits);
  CHECK(status.ok()) << status.to_string();
  std::vector<Row> rows;
  for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  return rows;
}

// Models that load and are not converted; each is refused before anything is written.
bool is_refused(const std::string& name) { return name == "gemma3n_text" || name == "gemma4_text"; }

TEST(ConvertDirectory, GivesTheSameBitsForEveryTinyCheckpoint) {
  IBID_NEED_SHARED(shared);
  const TempDir dir;
  const std::string out = dir.file("model.gguf");
  std::set<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(shared + "/reference/tiny")) {
    if (entry.is_directory()) paths.insert(entry.path());
  }
  size_t n_converted = 0;
  for (const std::filesystem::path& path : paths) {
    SCOPED_TRACE(path.filename().string());
    const auto file = open_model_file(path.string());
    if (!file.ok() || !read_config(**file).ok()) continue;  // an architecture that does not load
    const Result<Conversion> converted = convert_model(path.string(), out, nullptr);
    if (is_refused(path.filename().string())) {
      EXPECT_EQ(converted.status().code(), ErrorCode::kUnsupported) << converted.status().to_string();
      continue;
    }
    EXPECT_TRUE(converted.ok()) << converted.status().to_string();
    if (!converted.ok()) continue;
    EXPECT_EQ(std::filesystem::file_size(out), converted->bytes);
    const std::vector<Row> wanted = logits_of(path.string()), got = logits_of(out);
    ASSERT_EQ(got.size(), wanted.size());
    size_t n_equal = 0;
    for (size_t i = 0; i < got.size(); ++i) n_equal += same_bits(got[i], wanted[i]) ? 1 : 0;
    EXPECT_EQ(n_equal, got.size());
    ++n_converted;
  }
  EXPECT_GE(n_converted, 44u);
}

}  // namespace
}  // namespace ibid
