// Law 1 (same bits) for every architecture: in each tiny checkpoint of Hugging Face that loads, and in the committed
// ones, no way of feeding a sequence changes a bit of a logit, a stored row or a state, for every KV type. The
// sequences are longer and shorter than the windows and chunks of these models.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "tests/model/checkpoint_directories.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

constexpr size_t kLength = 150;  // more than two pages, if the model has that many positions

class CheckpointBits : public testing::TestWithParam<KvDType> {
 protected:
  size_t check_all(const std::string& parent) const;

  struct Fed {
    std::vector<Row> logits;  // one row per position
    Row kv, states;
  };

  std::unique_ptr<TransformerModel> load(const ModelFile& file, int n_threads) const {
    Result<ModelConfig> config = read_config(file);
    CHECK(config.ok()) << config.status().to_string();
    ModelOptions options{.kv_dtype = GetParam(), .n_threads = n_threads};
    options.max_chunk = kLength;
    auto model = TransformerModel::create(file, *std::move(config), options);
    CHECK(model.ok()) << model.status().to_string();
    return *std::move(model);
  }

  // Feeds the tokens. If `other` is set, each batch also has a chunk of that sequence, before this one.
  static void feed(TransformerModel& model, KvCacheEntry& entry, TokenSpan tokens, KvCacheEntry* other, Fed& fed) {
    Logits logits;
    std::vector<SequenceChunk> batch;
    if (other != nullptr) batch.push_back({other, tokens.first(1), WantLogits::kNone});
    batch.push_back({&entry, tokens, WantLogits::kAll});
    const Status status = model.forward(batch, {}, logits);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < logits.n_rows(); ++i) fed.logits.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }

  static Fed feed_in_chunks(TransformerModel& model, TokenSpan tokens, size_t chunk, bool company) {
    KvPagePool pool(model.kv_layout(), size_t{64} << 20);
    KvCacheEntry entry(pool), other(pool);
    Fed fed;
    for (size_t begin = 0; begin < tokens.size(); begin += chunk) {
      const TokenSpan part = tokens.subspan(begin, std::min(chunk, tokens.size() - begin));
      feed(model, entry, part, company ? &other : nullptr, fed);
    }
    keep_bits(model, entry, fed);
    return fed;
  }

  // Stores the KV rows; and the states after one more token, so that all splits end their last pass at one position.
  static void keep_bits(TransformerModel& model, KvCacheEntry& entry, Fed& fed) {
    fed.kv = stored_rows(entry);
    Fed unused;
    feed(model, entry, Tokens{1}, nullptr, unused);
    fed.states = stored_states(entry);
  }

  // Slices and feeds again, then continues on a fork.
  static Fed feed_with_detours(TransformerModel& model, TokenSpan tokens) {
    KvPagePool pool(model.kv_layout(), size_t{64} << 20);
    KvCacheEntry entry(pool);
    Fed fed, unused;
    feed(model, entry, tokens.first(40), nullptr, fed);
    feed(model, entry, tokens.last(50), nullptr, unused);
    (void)entry.slice_to_at_most(33);  // recurrent models slice to the last resume point before it
    fed.logits.resize(entry.length());
    feed(model, entry, tokens.subspan(entry.length(), 40 - entry.length()), nullptr, fed);
    Result<KvCacheEntry> copy = entry.fork();
    CHECK(copy.ok()) << copy.status().to_string();
    feed(model, *copy, tokens.subspan(40), nullptr, fed);
    keep_bits(model, *copy, fed);
    return fed;
  }

  // Feeds each pass with three more tokens, which are then rejected.
  static Fed feed_with_refused_drafts(TransformerModel& model, TokenSpan tokens) {
    KvPagePool pool(model.kv_layout(), size_t{64} << 20);
    KvCacheEntry entry(pool), other(pool);
    Fed fed;
    for (size_t i = 0; entry.length() < tokens.size(); ++i) {
      const size_t begin = entry.length(), n = std::min(1 + i % 4, tokens.size() - begin);
      Tokens drafted(tokens.begin() + static_cast<ptrdiff_t>(begin),
                     tokens.begin() + static_cast<ptrdiff_t>(begin + n));
      for (TokenId wrong : {3, 1, 4}) drafted.push_back(wrong);
      if (begin + drafted.size() > model.max_seq_len()) drafted.resize(n);
      const bool company = i % 3 == 2 && other.length() < tokens.size();
      feed(model, entry, drafted, company ? &other : nullptr, fed);
      (void)entry.slice_to_at_most(begin + n);
      fed.logits.resize(begin + n);
    }
    keep_bits(model, entry, fed);
    return fed;
  }

  static void expect_same(const Fed& got, const Fed& wanted) {
    ASSERT_EQ(got.logits.size(), wanted.logits.size());
    for (size_t i = 0; i < got.logits.size(); ++i) {
      ASSERT_TRUE(same_bits(got.logits[i], wanted.logits[i])) << "logits at position " << i;
    }
    ASSERT_TRUE(same_bits(got.kv, wanted.kv)) << "stored rows differ";
    ASSERT_TRUE(same_bits(got.states, wanted.states)) << "states differ";
  }
};

// Returns the number of directories in `parent` with a model that loads.
size_t CheckpointBits::check_all(const std::string& parent) const {
  size_t n_models = 0;
  for (const std::string& path : checkpoint_directories(parent)) {
    SCOPED_TRACE(path);
    const auto file = open_model_file(path);
    if (!file.ok() || !read_config(**file).ok()) continue;  // reference_logits_test.cc checks why it does not load
    ++n_models;
    const std::unique_ptr<TransformerModel> two = load(**file, 2), one = load(**file, 1);
    const size_t length = std::min(kLength, two->max_seq_len() - 1);
    const Tokens tokens = random_tokens(length, two->vocab_size(), 7);
    const Fed wanted = feed_in_chunks(*two, tokens, length, false);
    for (const size_t chunk : {1, 7, 64}) {
      SCOPED_TRACE("chunks of " + std::to_string(chunk));
      expect_same(feed_in_chunks(*one, tokens, chunk, false), wanted);
    }
    SCOPED_TRACE("other ways");
    expect_same(feed_in_chunks(*two, tokens, 3, false), wanted);
    expect_same(feed_in_chunks(*one, tokens, 19, true), wanted);
    expect_same(feed_with_detours(*one, tokens), wanted);
    expect_same(feed_with_refused_drafts(*two, tokens), wanted);
    if (HasFatalFailure()) return n_models;
  }
  return n_models;
}

TEST_P(CheckpointBits, BitsDoNotDependOnPassesThreadsBatchesOrDrafts) {
  // The test of the committed models runs the same scalar kernels, so this one may be skipped.
  if (*active_isa() == Isa::kRef) GTEST_SKIP() << kScalarKernelsAreSlow;
  IBID_NEED_SHARED(shared);
  EXPECT_GE(check_all(shared + "/reference/tiny"), 62u);
}

TEST_P(CheckpointBits, BitsOfCommittedModelsDoNotDependOnPassesThreadsBatchesOrDrafts) {
  EXPECT_EQ(check_all(golden_dir() + "/families"), 29u);
}

INSTANTIATE_TEST_SUITE_P(Kv, CheckpointBits, testing::ValuesIn(kEveryKvDType),
                         [](const auto& kv) { return std::string(kv_dtype_name(kv.param)); });

}  // namespace
}  // namespace ibid
