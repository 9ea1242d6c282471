// Law 1 (same bits): the logits at a position, and the rows in the cache, are a function of the tokens up to it.
// Chunks, threads, forks, slices, cancelled calls and other sequences in the batch do not change a bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>
#include <thread>
#include <utility>

#include "kernels/layout/panel.h"
#include "kernels/ops/dispatch.h"
#include "model/forward/activations.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

constexpr size_t kLength = 150;  // more than two pages
constexpr size_t kLong = 300;    // more than an attention block

// A model and its pool.
struct Subject {
  explicit Subject(std::unique_ptr<TransformerModel> loaded)
      : model(std::move(loaded)), pool(model->kv_layout(), size_t{64} << 20) {}

  KvCacheEntry entry() { return KvCacheEntry(pool); }

  // Feeds tokens and appends one row of logits for each.
  void feed(KvCacheEntry& entry, TokenSpan tokens, std::vector<Row>& rows) {
    Logits logits;
    const SequenceChunk chunk{&entry, tokens, WantLogits::kAll};
    const Status status = model->forward(std::span(&chunk, 1), {}, logits);
    ASSERT_TRUE(status.ok()) << status.to_string();
    for (size_t i = 0; i < logits.n_rows(); ++i) rows.emplace_back(logits.row(i).begin(), logits.row(i).end());
  }

  std::unique_ptr<TransformerModel> model;
  KvPagePool pool;
};

void expect_same_rows(const std::vector<Row>& got, const std::vector<Row>& wanted) {
  ASSERT_LE(got.size(), wanted.size());
  for (size_t i = 0; i < got.size(); ++i) ASSERT_TRUE(same_bits(got[i], wanted[i])) << "logits at position " << i;
}

class SameBits : public testing::TestWithParam<WeightsAndKv> {
 protected:
  void SetUp() override {
    if (!is_worth_its_time(GetParam().matrix_dtype)) GTEST_SKIP() << kScalarKernelsAreSlow;
    // The expected bits are computed with two threads. All others are computed with one, which is faster here, because
    // no thread waits at barriers.
    const std::unique_ptr<Subject> two_threads = make(2);
    tokens_ = random_tokens(kLong, two_threads->model->vocab_size(), 7);
    KvCacheEntry entry = two_threads->entry();
    two_threads->feed(entry, tokens_, wanted_);
    wanted_kv_ = stored_rows(entry);
    subject_ = make(1);
  }

  std::unique_ptr<Subject> make(int n_threads, std::optional<Isa> isa = {}) const {
    TinyModel tiny;
    GetParam().apply_to(tiny);
    tiny.dim = tiny.n_heads * tiny.head_dim;
    // Types with blocks of 64 and 256 values need rows of 256.
    if (dtype_block(tiny.matrix_dtype).values > 32) {
      tiny.n_layers = 2, tiny.dim = 256, tiny.ffn_dim = 256, tiny.head_dim = 64;
    }
    ModelOptions options;
    options.kv_dtype = GetParam().kv_dtype;
    options.n_threads = n_threads;
    options.isa = isa;
    options.max_chunk = 512;  // so that all tokens fit into one pass on any machine
    return std::make_unique<Subject>(load_tiny_model(tiny, options));
  }

  TokenSpan first(size_t n) const { return TokenSpan(tokens_).first(n); }

  void expect_same(const KvCacheEntry& entry, const std::vector<Row>& rows) const {
    expect_same_rows(rows, wanted_);
    const Row kv = stored_rows(entry);
    ASSERT_LE(kv.size(), wanted_kv_.size());
    ASSERT_EQ(std::memcmp(kv.data(), wanted_kv_.data(), kv.size() * sizeof(float)), 0) << "stored rows differ";
  }

  std::unique_ptr<Subject> subject_;
  Tokens tokens_;
  std::vector<Row> wanted_;  // [kLong][V]
  Row wanted_kv_;
};

// Returns the chunk sizes to test. Kernels with tiles of rows are tested with every size. The scalar kernels compute
// row by row and are slow; there, a size only decides how rows are split into passes and pages, so powers of two and
// neighbours suffice.
std::vector<size_t> chunk_sizes() {
  if (*active_isa() == Isa::kRef) return {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 70};
  std::vector<size_t> every(70);
  std::iota(every.begin(), every.end(), size_t{1});
  return every;
}

TEST_P(SameBits, BitsDoNotDependOnChunkSize) {
  for (const size_t chunk : chunk_sizes()) {
    SCOPED_TRACE("chunks of " + std::to_string(chunk));
    KvCacheEntry entry = subject_->entry();
    std::vector<Row> rows;
    for (size_t begin = 0; begin < kLength; begin += chunk) {
      subject_->feed(entry, first(kLength).subspan(begin, std::min(chunk, kLength - begin)), rows);
    }
    expect_same(entry, rows);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SameBits, BitsDoNotDependOnHowTokensAreSplitIntoPasses) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    KvCacheEntry entry = subject_->entry();
    std::vector<Row> rows;
    for (size_t begin = 0; begin < kLong;) {
      const size_t n = std::min<size_t>(1 + random() % 130, kLong - begin);
      subject_->feed(entry, first(kLong).subspan(begin, n), rows);
      begin += n;
    }
    expect_same(entry, rows);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SameBits, BitsDoNotDependOnThreads) {
  for (const int n_threads : {2, 3}) {
    SCOPED_TRACE(std::to_string(n_threads) + " threads");
    const std::unique_ptr<Subject> other = make(n_threads);
    KvCacheEntry entry = other->entry();
    std::vector<Row> rows;
    other->feed(entry, first(100), rows);
    other->feed(entry, first(kLong).subspan(100, 1), rows);
    other->feed(entry, first(kLong).subspan(101), rows);
    expect_same(entry, rows);
  }
}

// Each pass of one sequence has another number of threads, as in a team with OversubscriptionPolicy::kSkipLateThreads.
TEST_P(SameBits, BitsDoNotDependOnThreadsOfEachPass) {
  std::vector<std::unique_ptr<Subject>> teams;
  for (const int n_threads : {3, 1, 2}) teams.push_back(make(n_threads));
  KvCacheEntry entry = teams[0]->entry();
  std::vector<Row> rows;
  const size_t sizes[] = {30, 1, 1, 9, 40, 1, 2, 70, 3};
  for (size_t i = 0, begin = 0; begin < kLong; ++i) {
    const size_t n = std::min(sizes[i % std::size(sizes)], kLong - begin);
    teams[i % teams.size()]->feed(entry, first(kLong).subspan(begin, n), rows);
    begin += n;
  }
  expect_same(entry, rows);
}

// A thread that is very late in the first layer is left out of the following layers.
TEST_P(SameBits, BitsDoNotChangeIfAThreadIsLate) {
  const std::unique_ptr<Subject> other = make(2);
  bool late = false;
  other->model->set_layer_observer([&](size_t) {
    if (!std::exchange(late, true)) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  });
  KvCacheEntry entry = other->entry();
  std::vector<Row> rows;
  for (size_t begin = 0; begin < kLong; begin += 50) other->feed(entry, first(kLong).subspan(begin, 50), rows);
  expect_same(entry, rows);
}

TEST_P(SameBits, RejectedTokensDoNotChangeLaterBits) {
  const Tokens other = random_tokens(90, subject_->model->vocab_size(), 99);
  for (const size_t keep : {1u, 15u, 16u, 17u, 63u, 64u, 65u, 100u, 128u}) {
    SCOPED_TRACE("cut to " + std::to_string(keep));
    KvCacheEntry entry = subject_->entry();
    std::vector<Row> rows;
    std::vector<Row> ignored;
    subject_->feed(entry, first(keep), rows);
    subject_->feed(entry, other, ignored);
    (void)entry.slice_to_at_most(keep);
    subject_->feed(entry, first(kLong).subspan(keep), rows);
    expect_same(entry, rows);
    if (HasFatalFailure()) return;
  }
}

TEST_P(SameBits, ForksAreIndependentOfEachOther) {
  const Tokens other = random_tokens(80, subject_->model->vocab_size(), 5);
  for (const size_t at : {10u, 64u, 100u}) {
    SCOPED_TRACE("forked at " + std::to_string(at));
    KvCacheEntry entry = subject_->entry();
    std::vector<Row> rows;
    subject_->feed(entry, first(at), rows);
    KvCacheEntry branch = entry.fork().value();
    std::vector<Row> branch_rows;
    std::vector<Row> rest = rows;
    // Both entries write to the page that they shared, in turn.
    subject_->feed(branch, TokenSpan(other).first(3), branch_rows);
    subject_->feed(entry, first(kLong).subspan(at, 5), rest);
    subject_->feed(branch, TokenSpan(other).subspan(3), branch_rows);
    subject_->feed(entry, first(kLong).subspan(at + 5), rest);
    expect_same(entry, rest);

    KvCacheEntry cold = subject_->entry();
    std::vector<Row> cold_rows;
    Tokens whole(tokens_.begin(), tokens_.begin() + static_cast<std::ptrdiff_t>(at));
    whole.insert(whole.end(), other.begin(), other.end());
    subject_->feed(cold, whole, cold_rows);
    ASSERT_EQ(stored_rows(branch), stored_rows(cold));
    for (size_t i = 0; i < branch_rows.size(); ++i) ASSERT_TRUE(same_bits(branch_rows[i], cold_rows[at + i]));
  }
}

TEST_P(SameBits, SequenceWithAnAdoptedPrefixGivesTheSameBits) {
  KvCacheEntry giver = subject_->entry();
  std::vector<Row> ignored;
  subject_->feed(giver, first(170), ignored);
  for (const size_t shared : {64u, 128u, 150u}) {
    SCOPED_TRACE(std::to_string(shared) + " positions taken over");
    const size_t n_pages = KvLayout::pages_for(shared);
    KvCacheEntry taker = subject_->entry();
    const auto pages_end = giver.pages().begin() + static_cast<std::ptrdiff_t>(n_pages);
    ASSERT_TRUE(taker.adopt({giver.pages().begin(), pages_end}, first(shared)).ok());
    std::vector<Row> rows(wanted_.begin(), wanted_.begin() + static_cast<std::ptrdiff_t>(shared));
    subject_->feed(taker, first(kLong).subspan(shared), rows);
    expect_same(taker, rows);
  }
}

TEST_P(SameBits, CancelledPassesChangeNothing) {
  TransformerModel& model = *subject_->model;
  KvCacheEntry entry = subject_->entry();
  std::vector<Row> rows;
  subject_->feed(entry, first(70), rows);
  const Row before = stored_rows(entry);
  for (size_t layer = 0; layer < model.config().n_layers; ++layer) {
    std::stop_source stop;
    model.set_layer_observer([&](size_t at) {
      if (at == layer) stop.request_stop();
    });
    Logits logits;
    const SequenceChunk chunk{&entry, first(kLong).subspan(70, 40), WantLogits::kLast};
    EXPECT_EQ(model.forward(std::span(&chunk, 1), stop.get_token(), logits).code(), ErrorCode::kCancelled);
    EXPECT_EQ(entry.length(), 70u);
    EXPECT_EQ(stored_rows(entry), before);
  }
  model.set_layer_observer({});
  subject_->feed(entry, first(kLong).subspan(70), rows);
  expect_same(entry, rows);
}

TEST_P(SameBits, BitsDoNotDependOnBatch) {
  constexpr size_t kSequences = 4;
  const size_t vocab_size = subject_->model->vocab_size();
  std::vector<KvCacheEntry> entries;
  std::vector<Tokens> texts;
  std::vector<std::vector<Row>> rows(kSequences);
  for (size_t s = 0; s < kSequences; ++s) {
    entries.push_back(subject_->entry());
    texts.push_back(s == 0 ? tokens_ : random_tokens(kLong, vocab_size, static_cast<uint32_t>(50 + s)));
  }
  // Use mixed batches: long chunks next to single tokens, and some sequences absent.
  const size_t steps[][kSequences] = {{40, 1, 17, 0}, {1, 30, 1, 5}, {1, 1, 1, 1}, {100, 0, 64, 1}, {3, 90, 2, 60}};
  for (const auto& step : steps) {
    std::vector<SequenceChunk> batch;
    std::vector<size_t> who;
    for (size_t s = 0; s < kSequences; ++s) {
      if (step[s] == 0) continue;
      batch.push_back({&entries[s], TokenSpan(texts[s]).subspan(entries[s].length(), step[s]), WantLogits::kAll});
      for (size_t i = 0; i < step[s]; ++i) who.push_back(s);
    }
    Logits logits;
    ASSERT_TRUE(subject_->model->forward(batch, {}, logits).ok());
    ASSERT_EQ(logits.n_rows(), who.size());
    for (size_t i = 0; i < who.size(); ++i) rows[who[i]].emplace_back(logits.row(i).begin(), logits.row(i).end());
  }
  for (size_t s = 0; s < kSequences; ++s) {
    SCOPED_TRACE("sequence " + std::to_string(s));
    KvCacheEntry alone = subject_->entry();
    std::vector<Row> alone_rows;
    subject_->feed(alone, TokenSpan(texts[s]).first(entries[s].length()), alone_rows);
    expect_same_rows(rows[s], alone_rows);
    EXPECT_EQ(stored_rows(entries[s]), stored_rows(alone));
  }
}

// A pass reads blocks that eight branches of a conversation share only once, which must not change a bit.
TEST_P(SameBits, BranchesThatShareBlocksGiveTheSameBits) {
  constexpr size_t kBranches = 8;
  for (const int n_threads : {1, 2}) {
    SCOPED_TRACE(std::to_string(n_threads) + " threads");
    const std::unique_ptr<Subject> other = make(n_threads);
    KvCacheEntry trunk = other->entry();
    std::vector<Row> ignored;
    other->feed(trunk, first(280), ignored);
    std::vector<KvCacheEntry> entries;
    std::vector<Tokens> texts;
    std::vector<std::vector<Row>> rows(kBranches);
    for (size_t s = 0; s < kBranches; ++s) {
      entries.push_back(*trunk.fork());
      texts.push_back(s == 0 ? Tokens(tokens_.begin() + 280, tokens_.end())
                             : random_tokens(20, other->model->vocab_size(), static_cast<uint32_t>(70 + s)));
    }
    // First feed one token to each branch; then drafts, and a longer chunk among them.
    for (const size_t longest : {1u, 1u, 9u}) {
      std::vector<SequenceChunk> batch;
      std::vector<size_t> who;
      for (size_t s = 0; s < kBranches; ++s) {
        const size_t n_rows = longest - std::min(longest - 1, 2 * s);
        batch.push_back(
            {&entries[s], TokenSpan(texts[s]).subspan(entries[s].length() - 280, n_rows), WantLogits::kAll});
        who.insert(who.end(), n_rows, s);
      }
      Logits logits;
      const size_t shared_before = other->model->blocks_shared();
      ASSERT_TRUE(other->model->forward(batch, {}, logits).ok());
      EXPECT_EQ(other->model->blocks_shared() - shared_before, kBranches - 1);
      for (size_t i = 0; i < who.size(); ++i) rows[who[i]].emplace_back(logits.row(i).begin(), logits.row(i).end());
    }
    for (size_t s = 0; s < kBranches; ++s) {
      SCOPED_TRACE("branch " + std::to_string(s));
      KvCacheEntry alone = *trunk.fork();
      std::vector<Row> alone_rows;
      for (size_t i = 0; i < rows[s].size(); ++i) other->feed(alone, TokenSpan(texts[s]).subspan(i, 1), alone_rows);
      expect_same_rows(rows[s], alone_rows);
      EXPECT_EQ(stored_rows(entries[s]), stored_rows(alone));
    }
    for (size_t i = 0; i < rows[0].size(); ++i) ASSERT_TRUE(same_bits(rows[0][i], wanted_[280 + i]));
  }
}

TEST_P(SameBits, BitsDoNotDependOnInstructionSetOrThreads) {
  if (an_isa_is_forced()) GTEST_SKIP() << "all instruction sets are compared where none is forced";
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    for (const int n_threads : {1, 2, 3}) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", " + std::to_string(n_threads) + " threads");
      const std::unique_ptr<Subject> other = make(n_threads, isa);
      KvCacheEntry entry = other->entry();
      std::vector<Row> rows;
      other->feed(entry, first(40), rows);
      other->feed(entry, first(kLong).subspan(40, 1), rows);
      other->feed(entry, first(kLength).subspan(41), rows);
      expect_same(entry, rows);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SameBits, testing::ValuesIn(kEveryPanelType),
                         [](const auto& test) { return test.param.name; });

// In wide models gate and up are computed in parts of the rows and columns of a pass, whose sizes depend on its rows.
TEST(SameBitsOfWideModels, BitsDoNotDependOnHowGateAndUpAreSplit) {
  for (const DType type : {DType::kF32, DType::kQ8_0}) {
    TinyModel tiny;
    tiny.n_layers = 2, tiny.dim = 4096, tiny.ffn_dim = 512 + 16, tiny.matrix_dtype = type, tiny.biases = true;
    if (type == DType::kQ8_0) tiny.ffn_dim = 512 + 32;
    ASSERT_LT(Activations::gate_part_rows(tiny.dim), kLong) << "one part has all rows";
    const Tokens tokens = random_tokens(kLong, tiny.vocab_size, 8);
    ModelOptions options;
    options.n_threads = 2;
    options.max_chunk = 512;
    Subject at_once(load_tiny_model(tiny, options)), by_few(load_tiny_model(tiny, options));
    KvCacheEntry whole = at_once.entry(), parts = by_few.entry();
    std::vector<Row> wanted, got;
    at_once.feed(whole, tokens, wanted);
    for (size_t at = 0; at < kLong; at += 10) by_few.feed(parts, TokenSpan(tokens).subspan(at, 10), got);
    expect_same_rows(got, wanted);
    EXPECT_EQ(stored_rows(parts), stored_rows(whole)) << dtype_name(type);
  }
}

// Every panel type must occur as the type of the layers, not only of the head.
TEST(SameBitsCases, CasesCoverEveryPanelType) {
  for (int type = 0; type <= static_cast<int>(PanelType::kPF); ++type) {
    // GGUF has no 8-bit floats, so no tiny model has them; F8Linear tests the law for their kernels.
    if (panel_is_f8(static_cast<PanelType>(type))) continue;
    const bool there = std::any_of(std::begin(kEveryPanelType), std::end(kEveryPanelType), [&](const WeightsAndKv& c) {
      return panel_type_for(c.matrix_dtype) == static_cast<PanelType>(type);
    });
    EXPECT_TRUE(there) << panel_type_name(static_cast<PanelType>(type));
  }
}

}  // namespace
}  // namespace ibid
