#include "runtime/session/session_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace ibid {
namespace {

// A sequence of ten pages that can resume at every 50th position.
class SavedStatesTest : public testing::Test {
 protected:
  // Each state takes n_bytes.
  void have_states_of(size_t n_bytes) {
    entry_.reset();
    const KvLayout layout = KvLayout::make(std::vector(1, KvRowShape{1, 4}), KvDType::kF32,
                                           std::vector(1, StateShape{n_bytes / sizeof(float), 1}));
    pool_ = std::make_unique<KvPagePool>(layout, 10 * layout.page_bytes() + 20 * layout.state_bytes());
    entry_.emplace(*pool_);
    std::vector<StateSnapshot> states;
    for (size_t at = 50; at <= 640; at += 50) states.push_back({at, pool_->allocate_states(1)->front(), nullptr, 0});
    states.push_back({640, pool_->allocate_states(1)->front(), nullptr, 0});
    ASSERT_TRUE(entry_->adopt(*pool_->allocate(10), Tokens(640, 7), std::move(states)).ok());
  }
  std::vector<size_t> chosen(std::vector<size_t> positions) {
    std::vector<size_t> at;
    for (const StateSnapshot& state : states_for(*entry_, positions)) at.push_back(state.position);
    return at;
  }

  std::unique_ptr<KvPagePool> pool_;
  std::optional<KvCacheEntry> entry_;
};

const size_t kRowBytes = 10 * KvLayout::make(1, 1, 4, KvDType::kF32).page_bytes();

TEST_F(SavedStatesTest, RequestedStatesAreSavedBeforeTheDeepestStates) {
  have_states_of(64);
  EXPECT_THAT(chosen({640, 120}), testing::ElementsAre(640, 100, 600, 550, 500, 450, 400, 350, 300, 250, 200, 150, 50));
}

TEST_F(SavedStatesTest, StatesTakeNoMoreBytesThanRows) {
  have_states_of(kRowBytes / 4);
  EXPECT_THAT(chosen({640, 120}), testing::ElementsAre(640, 100, 600, 550));
  have_states_of(2 * kRowBytes);
  EXPECT_THAT(chosen({640, 120}), testing::ElementsAre(640, 100)) << "requested states are always saved";
}

}  // namespace
}  // namespace ibid
