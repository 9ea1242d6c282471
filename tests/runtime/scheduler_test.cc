// Sessions that share passes: the members of a pass, cancelled and failing members, and that rows and logits do not
// depend on the other members.
#include "runtime/scheduler/scheduler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "runtime/generate/feeding.h"
#include "tests/support/failing_new.h"
#include "tests/support/fake_model.h"
#include "tests/support/manual_clock.h"
#include "tests/support/no_threads.h"
#include "tests/support/process_threads.h"

namespace ibid {
namespace {

Tokens some_ids(size_t n, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Tokens ids(n);
  for (TokenId& id : ids) id = static_cast<TokenId>(rng() % 256);
  return ids;
}

// Every pass takes pass_ms plus a millisecond for each row; records the rows of each pass.
class TimedModel : public FakeModel {
 public:
  explicit TimedModel(ManualClock& clock) : FakeModel({.max_seq_len = 16'384, .max_chunk = 512}), clock_(clock) {}

  int64_t pass_ms = 1;  // besides one for each row

  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override {
    std::vector<size_t> rows;
    for (const SequenceChunk& chunk : batch) rows.push_back(chunk.tokens.size());
    TRY(FakeModel::forward(batch, std::move(stop), logits));
    int64_t n = pass_ms;
    for (const size_t r : rows) n += static_cast<int64_t>(r);
    clock_.advance(n * 1'000'000);
    passes.push_back(rows);
    return {};
  }

  std::vector<std::vector<size_t>> passes;

 private:
  ManualClock& clock_;
};

// Decodes one token per pass until it is cancelled.
class Decoder : public Task {
 public:
  Decoder(KvCacheEntry& entry, std::shared_ptr<Waker> waker)
      : Task(Priority::kNormal, {}, waker), waker_(waker), entry_(entry) {}

  void end() {
    cancel();
    while (!is_over()) waker_->wait();
  }

 private:
  Action next(SequenceChunk& chunk) noexcept override {
    if (is_cancelled()) return Action::kOver;
    if (entry_.length() > 4000) entry_.slice_to_length(0);
    chunk = {&entry_, {&id_, 1}, WantLogits::kLast};
    return Action::kFeed;
  }
  void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override {
    CHECK(status.ok() && n_rows == 1 && rows.logits.n_rows() > rows.first);
    id_ = (id_ + 1) % 256;
  }

  const std::shared_ptr<Waker> waker_;
  KvCacheEntry& entry_;
  TokenId id_ = 0;
};

// Gives way, and records the positions of the rows that it reads.
class Scorer : public Task {
 public:
  Scorer(KvCacheEntry& entry, Tokens ids, std::shared_ptr<Waker> waker)
      : Task(Priority::kNormal, {}, waker), n_read(ids.size()), waker_(waker), entry_(entry), ids_(std::move(ids)) {}

  void wait() {
    while (!is_over()) waker_->wait();
  }

  std::vector<size_t> n_read;  // by position

 private:
  Action next(SequenceChunk& chunk) noexcept override {
    const TokenSpan rest = TokenSpan(ids_).subspan(entry_.length());
    if (rest.empty()) return Action::kOver;
    chunk = {&entry_, rest.first(std::min(rest.size(), kScoreRows)), WantLogits::kAll};
    return Action::kFeed;
  }
  void read_row(size_t position, std::span<const float> logits) noexcept override {
    n_read[position] += logits.empty() ? 0 : 1;
  }
  void computed(size_t n_rows, Status status, const LogitsRows& rows) noexcept override {
    CHECK(status.ok() && n_rows > 0 && rows.logits.n_rows() >= rows.first + n_rows);
  }
  bool gives_way() const noexcept override { return true; }

  const std::shared_ptr<Waker> waker_;
  KvCacheEntry& entry_;
  const Tokens ids_;
};

struct SchedulerTest : testing::Test {
  TimedModel model{clock};
  KvPagePool pool{model.kv_layout(), 256u << 20};
  std::unique_ptr<Scheduler> scheduler = Scheduler::create(model, clock).value();

  Status feed(KvCacheEntry& entry, TokenSpan ids, Logits& logits, std::stop_token stop = {},
              Priority priority = Priority::kNormal) {
    return ibid::feed(*scheduler, entry, ids, WantLogits::kLast, stop, logits, priority);
  }
  void expect_cold_rows(const KvCacheEntry& entry) {
    FakeModel cold({.max_seq_len = 16'384, .max_chunk = 16'384});
    KvCacheEntry replayed(pool);
    Logits unused;
    const Tokens ids(entry.tokens().begin(), entry.tokens().end());
    const SequenceChunk all{&replayed, ids, WantLogits::kNone};
    ASSERT_TRUE(cold.forward({&all, 1}, {}, unused).ok());
    EXPECT_EQ(FakeModel::rows_of(entry), FakeModel::rows_of(replayed));
  }
  // Blocks the first pass until `go`.
  void hold_first_pass() {
    model.before_layer = [this](size_t, size_t) {
      inside = true;
      while (!go) std::this_thread::yield();
      return Status();
    };
  }
  void wait_until_inside() {
    while (!inside) std::this_thread::yield();
  }

  ManualClock clock;
  std::atomic<bool> inside{false}, go{false};
};

// One allocation fails in the passes that three sequences share: a task that gets the error has not been fed and
// retries, and in the end every sequence is as computed alone.
TEST(SchedulerMemoryTest, TaskWhoseAllocationFailedCanRetry) {
  constexpr size_t kSequences = 3, kPrompt = 20, kIds = 28;
  size_t n_shared = 0, n_refused = 0;
  for (size_t n = 0;; ++n) {
    SCOPED_TRACE(n);
    FakeModel model;
    KvPagePool pool(model.kv_layout(), 1u << 20);
    const auto scheduler = Scheduler::create(model, system_clock()).value();
    std::vector<KvCacheEntry> entries;
    for (size_t i = 0; i < kSequences; ++i) entries.emplace_back(pool);
    std::array<size_t, kSequences> refused{};
    const auto run = [&](size_t i, const Tokens& ids) {
      for (size_t length = 0; length < kIds; length = entries[i].length()) {
        const TokenSpan next = TokenSpan(ids).subspan(length, length < kPrompt ? kPrompt - length : 1);
        Logits logits;  // a new one, so that copying the rows allocates
        const Status status = feed(*scheduler, entries[i], next, WantLogits::kLast, {}, logits);
        CHECK(status.ok() || status.code() == ErrorCode::kOutOfMemory);
        refused[i] += status.ok() ? 0 : 1;
        CHECK(!status.ok() || entries[i].length() == length + next.size());
      }
    };
    bool has_failed = false;
    {
      std::atomic<bool> start{false};
      std::atomic<size_t> ready{0};
      std::vector<std::jthread> threads;
      for (size_t i = 0; i < kSequences; ++i) {
        threads.emplace_back([&, i, ids = some_ids(kIds, i)] {
          ++ready;
          start.wait(false);
          run(i, ids);
        });
      }
      while (ready < kSequences) std::this_thread::yield();
      FailingNew once(n, false, FailingNew::Threads::kAll);
      start = true;
      start.notify_all();
      threads.clear();
      once.stop();
      has_failed = once.has_failed();
    }
    n_shared += scheduler->stats().n_shared_passes;
    for (size_t i = 0; i < kSequences; ++i) {
      n_refused += refused[i];
      const Tokens ids = some_ids(kIds, i);
      ASSERT_TRUE(std::equal(ids.begin(), ids.end(), entries[i].tokens().begin(), entries[i].tokens().end()));
    }
    if (!has_failed) break;
  }
  EXPECT_GT(n_shared, 0u);
  EXPECT_GT(n_refused, 0u);
}

TEST_F(SchedulerTest, LonePromptIsPrefilledInLargestPasses) {
  KvCacheEntry entry(pool);
  Logits logits;
  ASSERT_TRUE(feed(entry, some_ids(1200, 1), logits).ok());
  EXPECT_EQ(model.passes, (std::vector<std::vector<size_t>>{{512}, {512}, {176}}));
  EXPECT_EQ(scheduler->stats().n_shared_passes, 0u);
}

TEST_F(SchedulerTest, WaitingTasksShareTheNextPass) {
  hold_first_pass();
  constexpr size_t kOthers = 7;
  std::vector<KvCacheEntry> entries;
  std::vector<Logits> logits(kOthers + 1);
  for (size_t i = 0; i <= kOthers; ++i) entries.emplace_back(pool);
  std::vector<std::jthread> threads;
  const auto run = [&](size_t i) {
    const Tokens ids = some_ids(1 + i % 8, i);
    EXPECT_TRUE(feed(entries[i], ids, logits[i]).ok());
  };
  threads.emplace_back(run, size_t{0});
  wait_until_inside();
  for (size_t i = 1; i <= kOthers; ++i) threads.emplace_back(run, i);
  // They must wait now; this is not observable, so give them time.
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  go = true;
  threads.clear();
  EXPECT_EQ(scheduler->stats().n_passes, 2u);
  EXPECT_EQ(scheduler->stats().most_sequences, kOthers);
  for (size_t i = 0; i <= kOthers; ++i) {
    expect_cold_rows(entries[i]);
    FakeModel alone({.max_seq_len = 16'384, .max_chunk = 512});
    KvCacheEntry entry(pool);
    Logits expected;
    const Tokens ids = some_ids(1 + i % 8, i);
    const SequenceChunk chunk{&entry, ids, WantLogits::kLast};
    ASSERT_TRUE(alone.forward({&chunk, 1}, {}, expected).ok());
    ASSERT_EQ(logits[i].n_rows(), 1u);
    EXPECT_TRUE(std::ranges::equal(logits[i].row(0), expected.row(0))) << i;
  }
}

TEST_F(SchedulerTest, WaitingForTheModelCanBeCancelled) {
  hold_first_pass();
  KvCacheEntry first(pool), second(pool);
  std::jthread runs([&] {
    Logits logits;
    EXPECT_TRUE(feed(first, some_ids(1, 1), logits).ok());
  });
  wait_until_inside();
  std::stop_source source;
  ErrorCode code = ErrorCode::kOk;
  std::jthread waits([&] {
    Logits logits;
    code = feed(second, some_ids(1, 2), logits, source.get_token()).code();
  });
  source.request_stop();
  go = true;
  waits.join();
  EXPECT_EQ(code, ErrorCode::kCancelled);
  EXPECT_EQ(second.length(), 0u);
  runs.join();
  EXPECT_EQ(first.length(), 1u);
  Logits logits;
  EXPECT_TRUE(feed(second, some_ids(1, 2), logits).ok()) << "later tasks still run";
}

TEST_F(SchedulerTest, ErrorIsReturnedToTheTaskThatCausedIt) {
  hold_first_pass();
  KvCacheEntry first(pool), good(pool), bad(pool);
  const auto run = [&](KvCacheEntry& entry, Tokens ids, ErrorCode wanted) {
    Logits logits;
    EXPECT_EQ(feed(entry, ids, logits).code(), wanted);
  };
  std::vector<std::jthread> threads;
  threads.emplace_back([&] { run(first, some_ids(3, 1), ErrorCode::kOk); });
  wait_until_inside();
  threads.emplace_back([&] { run(good, some_ids(3, 2), ErrorCode::kOk); });
  threads.emplace_back([&] { run(bad, {1, 99'999, 2}, ErrorCode::kInvalidArgument); });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  go = true;
  threads.clear();
  EXPECT_EQ(bad.length(), 0u);
  EXPECT_EQ(good.length(), 3u);
  expect_cold_rows(good);
}

// One session prefills a long prompt while another decodes. Time is the model's: a millisecond per row.
TEST_F(SchedulerTest, LongPromptKeepsTheLatencyTargetOfADecodingTask) {
  constexpr size_t kPrompt = 4000;
  KvCacheEntry reads(pool), decodes(pool);
  Logits logits;
  // The model's speed is known from here on.
  ASSERT_TRUE(feed(reads, some_ids(64, 3), logits).ok());
  for (TokenId id = 0; id < 3; ++id) ASSERT_TRUE(feed(decodes, {&id, 1}, logits).ok());
  const size_t n_before = model.passes.size();
  Decoder decoder(decodes, std::make_shared<Waker>());
  ASSERT_TRUE(scheduler->submit(decoder).ok());
  ASSERT_TRUE(feed(reads, some_ids(kPrompt, 4), logits).ok());
  decoder.end();
  size_t n_shared = 0, n_alone_between = 0, n_alone = 0, prefill_ms = 0;
  for (size_t i = n_before; i < model.passes.size(); ++i) {
    const std::vector<size_t>& pass = model.passes[i];
    size_t ms = 1;
    for (const size_t rows : pass) ms += rows;
    EXPECT_LE(ms, 40u + 2u) << "the target and a step";
    if (pass.size() == 1) {
      EXPECT_EQ(pass[0], 1u) << "a prompt pass had no decoder row";
      ++n_alone;
      continue;
    }
    prefill_ms += ms;
    if (n_shared++ > 0) n_alone_between += n_alone;
    n_alone = 0;
  }
  EXPECT_GT(n_shared, 20u);
  EXPECT_EQ(n_alone_between, 0u) << "a pass had no prompt rows";
  // Alone: 1 ms per row, and one per pass of 512.
  EXPECT_LE(prefill_ms * 7 / 10, kPrompt + kPrompt / 512 + 1);
  expect_cold_rows(reads);
}

// The counters of the rule: beside a decoder, a piece of scored rows at most doubles a pass, and all pieces together
// take at most a fifth of the time.
TEST_F(SchedulerTest, ScoredRowsAreLimitedWhileAnotherTaskDecodes) {
  for (const int64_t pass_ms : {1, 20, 300}) {
    model.pass_ms = pass_ms;
    scheduler = Scheduler::create(model, clock).value();  // it knows no cost
    KvCacheEntry scores(pool), decodes(pool);
    Decoder decoder(decodes, std::make_shared<Waker>());
    Scorer scorer(scores, some_ids(200, 4), std::make_shared<Waker>());
    const size_t n_before = model.passes.size();
    ASSERT_TRUE(scheduler->submit(decoder).ok());
    ASSERT_TRUE(scheduler->submit(scorer).ok());
    scorer.wait();
    decoder.end();
    EXPECT_THAT(scorer.n_read, testing::Each(1u));
    int64_t all_ms = 0, pieces_ms = 0, n_pieces = 0, before = 0;
    for (size_t i = n_before; i < model.passes.size() && pieces_ms < 200; ++i) {
      const std::vector<size_t>& pass = model.passes[i];
      const auto decoding = std::ranges::count(pass, size_t{1});
      const int64_t rows = static_cast<int64_t>(std::accumulate(pass.begin(), pass.end(), size_t{0}));
      ASSERT_GE(decoding, 1) << "every pass decodes";
      const int64_t piece = rows - 1;
      EXPECT_LE(piece, pass_ms + 1) << "a gap doubled";
      EXPECT_LE(piece, std::max<int64_t>(2 * before, 1));
      EXPECT_LE(5 * pieces_ms, all_ms) << "pieces before this one";
      if (piece > 0) before = piece, ++n_pieces;
      pieces_ms += piece;
      all_ms += pass_ms + rows;
    }
    EXPECT_EQ(pieces_ms, 200) << "milliseconds are rows";
    EXPECT_GT(n_pieces, 2);
    EXPECT_EQ(scheduler->stats().n_scored_rows, 200u);
    expect_cold_rows(scores);
  }
}

TEST_F(SchedulerTest, ScoredRowsShareAPassWithinTheirLimit) {
  hold_first_pass();
  KvCacheEntry first(pool), a(pool), b(pool);
  Logits logits;
  std::jthread holds([&] { EXPECT_TRUE(feed(first, some_ids(1, 1), logits).ok()); });
  wait_until_inside();
  Scorer one(a, some_ids(100, 2), std::make_shared<Waker>()), two(b, some_ids(300, 3), std::make_shared<Waker>());
  ASSERT_TRUE(scheduler->submit(one).ok());
  ASSERT_TRUE(scheduler->submit(two).ok());
  go = true;
  one.wait();
  two.wait();
  holds.join();
  size_t n_rows = 0;
  for (size_t i = 1; i < model.passes.size(); ++i) {
    const size_t rows = std::accumulate(model.passes[i].begin(), model.passes[i].end(), size_t{0});
    EXPECT_LE(rows, kScoreRows);
    n_rows += rows;
  }
  EXPECT_EQ(n_rows, 400u);
  EXPECT_EQ(model.passes[1].size(), 2u) << "they share a pass";
  EXPECT_THAT(one.n_read, testing::Each(1u));
  EXPECT_THAT(two.n_read, testing::Each(1u));
  expect_cold_rows(b);
}

TEST_F(SchedulerTest, LowPriorityIsDelayedButNotStarved) {
  KvCacheEntry low(pool), decodes(pool);
  Decoder decoder(decodes, std::make_shared<Waker>());
  ASSERT_TRUE(scheduler->submit(decoder).ok());
  Logits logits;
  EXPECT_TRUE(feed(low, some_ids(200, 5), logits, {}, Priority::kLow).ok());
  decoder.end();
  EXPECT_GT(clock.steady_ns(), 1'000'000'000) << "it ran at once";
  EXPECT_LT(clock.steady_ns(), 60'000'000'000);
  expect_cold_rows(low);
}

// The scheduler starts one thread, which ends with it.
TEST_F(SchedulerTest, SchedulerStartsOneThread) {
  const size_t with_one = n_threads_here();
  {
    const auto another = Scheduler::create(model, clock).value();
    EXPECT_EQ(n_threads_here(), with_one + 1);
  }
  EXPECT_EQ(n_threads_here(), with_one);
  const NoThreads none;
  EXPECT_EQ(Scheduler::create(model, clock).status().code(), ErrorCode::kOutOfMemory);
}

// For any interleaving a sequence's rows are those of its tokens, and a cancelled or failed call changed nothing.
TEST_F(SchedulerTest, ConcurrentSequencesWithCancelsKeepTheirRows) {
  std::vector<std::jthread> threads;
  std::mutex checking;
  for (uint64_t t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 rng(t);
      KvCacheEntry entry(pool);
      Logits logits;
      for (int turn = 0; turn < 12; ++turn) {
        const auto priority = static_cast<Priority>(rng() % 3);
        std::stop_source source;
        const size_t before = entry.length();
        const Tokens ids = some_ids(1 + rng() % 150, rng());
        std::jthread canceller;
        if (rng() % 3 == 0) canceller = std::jthread([&] { source.request_stop(); });
        const Status status = feed(entry, ids, logits, source.get_token(), priority);
        EXPECT_THAT(status.code(), testing::AnyOf(ErrorCode::kOk, ErrorCode::kCancelled));
        EXPECT_TRUE(!status.ok() || entry.length() == before + ids.size());
        for (int i = 0; i < 10 && status.ok(); ++i) {
          const TokenId id = static_cast<TokenId>(rng() % 256);
          EXPECT_TRUE(feed(entry, {&id, 1}, logits, {}, priority).ok());
        }
        if (entry.length() > 600) entry.slice_to_length(rng() % 300);
      }
      const std::lock_guard lock(checking);
      expect_cold_rows(entry);
    });
  }
  threads.clear();
  EXPECT_GT(scheduler->stats().n_shared_passes, 0u);
}

}  // namespace
}  // namespace ibid
