// Law 1 (same bits) with evicted window parts: in a pool that is too small, pages before the window are evicted while
// the sequence grows, and no kernel may read them. The expected bits are computed with all rows in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/check.h"
#include "model/architectures/architectures.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

constexpr size_t kTextLength = 1000, kWindow = 48;
constexpr size_t kLongestPass = 200;

// Loads a llama with windows in all layers except the last. Sets them in the configuration: files have no key for them.
std::unique_ptr<TransformerModel> load_windowed(KvDType kv_dtype, int n_threads, std::optional<Isa> isa = {}) {
  const TempDir dir;
  write_tiny_model({.context = 1024, .matrix_dtype = DType::kQ8_0}, dir.file("tiny.gguf"));
  const auto file = open_model_file(dir.file("tiny.gguf"));
  CHECK(file.ok()) << file.status().to_string();
  Result<ModelConfig> config = read_config(**file);
  CHECK(config.ok()) << config.status().to_string();
  for (size_t layer = 0; layer + 1 < config->n_layers; ++layer) config->layers[layer].window = kWindow;
  const ModelOptions options{.kv_dtype = kv_dtype, .n_threads = n_threads, .isa = isa, .max_chunk = kTextLength};
  auto model = TransformerModel::create(**file, *std::move(config), options);
  CHECK(model.ok()) << model.status().to_string();
  return *std::move(model);
}

// Returns memory for all rows of the layer without a window, and for eleven pages of the others: what a pass needs.
size_t tight_budget(const KvLayout& layout) {
  const size_t n_windows = KvLayout::pages_for(kWindow + kLongestPass + kAttentionBlock + 2 * kPagePositions);
  return KvLayout::pages_for(kTextLength + kPagePositions) * layout.part_bytes(PagePart::kAll) +
         n_windows * layout.part_bytes(PagePart::kWindow);
}

struct Outcome {
  std::vector<Row> logits;  // per position
  Row rows;
};

class GoneWindows : public testing::TestWithParam<KvDType> {
 protected:
  static void feed(TransformerModel& model, KvCacheEntry& entry, TokenSpan tokens, Outcome& out) {
    const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
    Logits logits;
    const Status status = model.forward({&chunk, 1}, {}, logits);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < logits.n_rows(); ++i) out.logits.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }

  // Feeds passes of these sizes, which are repeated as needed, each with n_refused more tokens that are then rejected.
  static void feed_all(TransformerModel& model, KvCacheEntry& entry, TokenSpan tokens, const std::vector<size_t>& sizes,
                       size_t n_refused, Outcome& out) {
    for (size_t i = 0; entry.length() < tokens.size(); ++i) {
      const size_t begin = entry.length(), n = std::min(sizes[i % sizes.size()], tokens.size() - begin);
      Tokens ids(tokens.begin() + static_cast<ptrdiff_t>(begin), tokens.begin() + static_cast<ptrdiff_t>(begin + n));
      ids.insert(ids.end(), n_refused, 5);
      ASSERT_NO_FATAL_FAILURE(feed(model, entry, ids, out));
      (void)entry.slice_to_at_most(begin + n);
      ASSERT_EQ(entry.length(), begin + n) << "a refused draft costs nothing else";
      out.logits.resize(begin + n);
    }
    out.rows = stored_rows(entry);
  }

  static void expect_same(const Outcome& got, const Outcome& wanted) {
    ASSERT_LE(got.logits.size(), wanted.logits.size());
    for (size_t i = 0; i < got.logits.size(); ++i) {
      ASSERT_TRUE(same_bits(got.logits[i], wanted.logits[i])) << "logits at position " << i;
    }
    ASSERT_TRUE(same_bits(got.rows, wanted.rows)) << "stored rows differ";
  }

  void SetUp() override {
    const auto model = load_windowed(GetParam(), 2);
    tokens_ = random_tokens(kTextLength, model->vocab_size(), 7);
    KvPagePool pool(model->kv_layout(), size_t{64} << 20);
    KvCacheEntry entry(pool);
    ASSERT_NO_FATAL_FAILURE(feed(*model, entry, tokens_, wanted_));
    ASSERT_TRUE(pool.has_window(entry.pages()[0]));
    wanted_.rows = stored_rows(entry);
  }

  void expect_all_ways(TransformerModel& model, const std::vector<size_t>& sizes, size_t n_refused) {
    KvPagePool pool(model.kv_layout(), tight_budget(model.kv_layout()));
    KvCacheEntry entry(pool);
    Outcome out;
    ASSERT_NO_FATAL_FAILURE(feed_all(model, entry, tokens_, sizes, n_refused, out));
    ASSERT_NO_FATAL_FAILURE(expect_same(out, wanted_));
    for (size_t page = 0; page < 5; ++page) EXPECT_FALSE(pool.has_window(entry.pages()[page])) << page;
  }

  Tokens tokens_;
  Outcome wanted_;
};

TEST_P(GoneWindows, BitsDoNotDependOnPassesDraftsOrThreads) {
  for (const int n_threads : {1, 2, 3}) {
    SCOPED_TRACE(std::to_string(n_threads) + " threads");
    const auto model = load_windowed(GetParam(), n_threads);
    // In short passes threads mostly wait for each other, so fewer ways suffice with several threads.
    std::vector<std::vector<size_t>> ways = {{90, 1, 1, 7}};
    if (n_threads == 1) ways = {{kLongestPass}, {64}, {1}, {90, 1, 1, 7}};
    for (const std::vector<size_t>& sizes : ways) {
      SCOPED_TRACE("passes of " + testing::PrintToString(sizes));
      for (const size_t n_refused : {0u, 5u}) {
        expect_all_ways(*model, sizes, n_refused);
        if (HasFailure()) return;
      }
    }
  }
}

TEST_P(GoneWindows, BitsDoNotDependOnInstructionSet) {
  if (an_isa_is_forced()) GTEST_SKIP() << "all instruction sets are compared where none is forced";
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    SCOPED_TRACE(isa_name(isa));
    expect_all_ways(*load_windowed(GetParam(), 2, isa), {150, 1, 3}, 2);
    if (HasFailure()) return;
  }
}

// Slicing to a position whose window was evicted resumes at an earlier one; feeding again gives the same bits.
TEST_P(GoneWindows, SliceToAnEvictedWindowResumesAtAnEarlierPosition) {
  const auto model = load_windowed(GetParam(), 1);
  for (const size_t n : {999u, 800u, 500u, 320u, 100u}) {
    SCOPED_TRACE("cut to " + std::to_string(n));
    KvPagePool pool(model->kv_layout(), tight_budget(model->kv_layout()));
    KvCacheEntry entry(pool);
    Outcome out;
    ASSERT_NO_FATAL_FAILURE(feed_all(*model, entry, tokens_, {64}, 0, out));
    ASSERT_FALSE(pool.has_window(entry.pages()[0]));
    (void)entry.slice_to_at_most(n);
    ASSERT_LE(entry.length(), n);
    out.logits.resize(entry.length());
    ASSERT_NO_FATAL_FAILURE(feed_all(*model, entry, tokens_, {50}, 0, out));
    expect_same(out, wanted_);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Kv, GoneWindows, testing::ValuesIn(kEveryKvDType),
                         [](const auto& kv) { return std::string(kv_dtype_name(kv.param)); });

}  // namespace
}  // namespace ibid
