// Tests the contents of the cold tier after its process was killed, or after a power loss.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <tuple>

#include "cache/tier/file_tier.h"
#include "tests/cache/tier_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kKills = 20;  // forks of an instrumented process are slow
#elif defined(__SANITIZE_ADDRESS__)
constexpr int kKills = 200;
#else
constexpr int kKills = 500;  // for each kind of model
#endif

// Models with and without recurrent layers and windows.
class FileTierCrash : public TierTest, public testing::WithParamInterface<std::tuple<TinyKind, bool>> {
 protected:
  FileTierCrash() : TierTest(tiny_layout(std::get<0>(GetParam()))) { durable_ = std::get<1>(GetParam()); }
  bool has_windows() const { return layout_.window() > 0; }
  // Returns the tokens that the turn'th call writes. Conversations have four turns, each continuing the previous one;
  // with windows they are so long that pages leave the windows.
  Tokens turn_ids(uint64_t round, size_t turn) const {
    const Tokens all = random_tokens(1000 * round + turn / 4, 750);
    return Tokens(all.begin(), all.begin() + static_cast<ptrdiff_t>((has_windows() ? 450 : 37) + 90 * (turn % 4)));
  }
  // In all turns of a conversation except the last, the window parts before the window are evicted. So first parts are
  // written, and later superseded.
  Status read_turn(KvCacheEntry& entry, uint64_t round, size_t turn) {
    TRY(feed_in_passes(entry, turn_ids(round, turn), has_windows() ? 64 : 400));
    if (turn % 4 < 3) lose_windows(pool_, entry);
    return {};
  }
};

INSTANTIATE_TEST_SUITE_P(NotDurable, FileTierCrash,
                         testing::Combine(testing::ValuesIn(kEveryTinyKind), testing::Values(false)));

// A child process writes turns, and reports each after flush() returned ok. It is killed in a random I/O call. The
// parent checks the directory.
TEST_P(FileTierCrash, KilledProcessLeavesOnlyWholePagesAndAllFlushedPages) {
  std::mt19937_64 rng(1);
  size_t n_acknowledged = 0, n_found = 0;
  for (int kill = 0; kill < kKills; ++kill) {
    if (kill % 25 == 0) std::filesystem::remove_all(directory_);
    const uint64_t round = static_cast<uint64_t>(kill);
    // A few turns; with windows or states each has more files.
    const int last_call = static_cast<int>(rng() % (has_windows() ? 600 : 300));
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      FaultyFileOps killing;
      killing.before_call = [&](std::string_view) {
        if (killing.calls() >= last_call) ::kill(::getpid(), SIGKILL);
      };
      const Result<std::unique_ptr<FileTier>> tier = FileTier::open(options(), pool_, killing, *clock_);
      for (size_t turn = 0; tier.ok() && turn < 40; ++turn) {
        KvCacheEntry entry(pool_);
        if (!read_turn(entry, round, turn).ok()) break;
        (*tier)->write_behind("", entry);
        if (!(*tier)->flush().ok() || ::write(ends[1], "x", 1) != 1) break;
      }
      ::_exit(1);
    }
    ::close(ends[1]);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the child ended before its last call";
    size_t acknowledged = 0;
    for (char byte = 0; ::read(ends[0], &byte, 1) == 1;) ++acknowledged;
    ::close(ends[0]);

    const auto tier = open();
    ASSERT_NE(tier, nullptr);
    ASSERT_EQ(tier->stats().quarantined, 0u) << "a torn page got its final name";
    for (size_t turn = 0; turn < acknowledged; ++turn) {
      const Tokens ids = turn_ids(round, turn);
      KvCacheEntry entry(pool_);
      ASSERT_EQ(tier->extend("", ids, entry), ids.size()) << "kill " << kill << ", turn " << turn;
    }
    // Everything written of the turn in progress must be right; and so must an earlier turn.
    n_found += found(*tier, "", turn_ids(round, acknowledged)) > 0 ? 1 : 0;
    if (acknowledged > 0) static_cast<void>(found(*tier, "", turn_ids(round, rng() % acknowledged)));
    ASSERT_FALSE(HasFailure()) << kill;
    n_acknowledged += acknowledged;
  }
  EXPECT_GT(n_acknowledged, static_cast<size_t>(kKills) / 4) << "the child was always killed before its first turn";
  EXPECT_GT(n_found, 0u) << "no child was killed in the middle of a turn";
}

class FileTierPowerLoss : public FileTierCrash {};

INSTANTIATE_TEST_SUITE_P(Durable, FileTierPowerLoss,
                         testing::Combine(testing::ValuesIn(kEveryTinyKind), testing::Bool()));

// A power loss loses or tears any subset of the unsynced data. If files are synced, everything that flush() reported as
// stored is found. If not, it may be lost, but nothing is ever wrong.
TEST_P(FileTierPowerLoss, PowerLossLeavesNoWrongPageAndAllFlushedPages) {
  std::mt19937_64 rng(2);
  size_t n_states = 0, n_complete = 0, n_torn = 0;
  while (n_states < 500) {
    MemoryFileOps memory;
    FaultyFileOps stopping(memory);
    const size_t n_calls = (layout_.n_states() > 0 ? 350 : 250) + (has_windows() ? 100 : 0);
    stopping.crash_at_call(static_cast<int>(rng() % n_calls));
    size_t acknowledged = 0;
    {
      const Result<std::unique_ptr<FileTier>> tier = FileTier::open(options(), pool_, stopping, *clock_);
      for (; tier.ok() && acknowledged < 8; ++acknowledged) {
        KvCacheEntry entry(pool_);
        ASSERT_TRUE(read_turn(entry, 7, acknowledged).ok());
        (*tier)->write_behind("", entry);
        if (!(*tier)->flush().ok()) break;
      }
    }
    for (int state = 0; state < 10; ++state, ++n_states) {
      const std::unique_ptr<MemoryFileOps> left = memory.after_power_loss(rng);
      files_ = left.get();
      const auto tier = open();
      ASSERT_NE(tier, nullptr);
      for (size_t turn = 0; turn < 8; ++turn) {
        const Tokens ids = turn_ids(7, turn);
        const size_t n = found(*tier, "", ids);
        if (turn < acknowledged && durable_) {
          ASSERT_EQ(n, ids.size()) << "turn " << turn << " of " << acknowledged;
        }
        n_complete += n == ids.size() ? 1 : 0;
      }
      n_torn += tier->stats().quarantined;
      ASSERT_FALSE(HasFailure()) << "state " << n_states;
    }
    files_ = &system_file_ops();
  }
  // Without syncing about one file in thirty is complete. That is rarely enough, because a state needs complete pages
  // too, and with windows there are six pages or more.
  const bool is_rarely_whole = !durable_ && layout_.n_states() > 0;
  if (durable_ || !has_windows()) {
    EXPECT_GT(n_complete, is_rarely_whole ? 0u : 50u);
  }
  // Files can be torn only if they are renamed without syncing.
  EXPECT_EQ(n_torn > 0, !durable_);
}

}  // namespace
}  // namespace ibid
