#include "runtime/generate/checkpoint_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ibid {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(CheckpointPositionsTest, StatesOfAContextTakeAQuarterOfTheBudget) {
  const StateShare share = state_share(1000, 65'536, 4 * 64 * 1000);
  EXPECT_EQ(share.n_most, 64u);
  EXPECT_EQ(share.spacing, 1024u);
  EXPECT_EQ(state_share(1000, 4096, 1u << 30).spacing, 512u) << "at least";
  EXPECT_EQ(state_share(1000, 4096, 1).spacing, 4096u) << "one state for any budget";
}

TEST(CheckpointPositionsTest, CheckpointsAreWhereLaterPromptsMayDiverge) {
  const StateShare share{.spacing = 512, .n_most = 100};
  EXPECT_THAT(CheckpointPositions(0, 1200, {.first_turn_boundary = 30}, share).positions(),
              ElementsAre(30, 512, 1024, 1184));
  EXPECT_THAT(CheckpointPositions(600, 1200, {.first_turn_boundary = 30}, share).positions(), ElementsAre(1024, 1184));
  EXPECT_THAT(CheckpointPositions(1150, 1200, {.first_turn_boundary = 30}, share).positions(), IsEmpty())
      << "one short pass";
  EXPECT_THAT(CheckpointPositions(0, 40, {.first_turn_boundary = 30}, share).positions(), ElementsAre(30));
  EXPECT_THAT(CheckpointPositions(0, 1200, {.first_turn_boundary = 30}, StateShare()).positions(), IsEmpty());
}

TEST(StateBordersTest, CheckpointsPreferLastAnswersAndAreSpacedApart) {
  const BranchPoints branch_points{.first_turn_boundary = 0, .answers = {100, 150, 300, 500, 600, 610, 900, 990, 1190}};
  EXPECT_THAT(CheckpointPositions(0, 1200, branch_points, {.spacing = 4096, .n_most = 100}).positions(),
              ElementsAre(150, 300, 500, 900, 1184))
      << "the others are less than 128 after a border, or in the prompt's end";
  EXPECT_THAT(CheckpointPositions(200, 1200, branch_points, {.spacing = 4096, .n_most = 100}).positions(),
              ElementsAre(500, 900, 1184));
  EXPECT_THAT(CheckpointPositions(0, 1200, branch_points, {.spacing = 4096, .n_most = 3}).positions(),
              ElementsAre(500, 900, 1184));
}

TEST(CheckpointPositionsTest, PassesEndAtTheNextCheckpoint) {
  const CheckpointPositions checkpoints(0, 1200, {.first_turn_boundary = 30}, {.spacing = 512, .n_most = 100});
  EXPECT_EQ(checkpoints.next(0, 1200), 30u);
  EXPECT_EQ(checkpoints.next(30, 1200), 512u);
  EXPECT_EQ(checkpoints.next(30, 200), 200u);
  EXPECT_EQ(checkpoints.next(1184, 1200), 1200u);
  EXPECT_EQ(checkpoints.last(29), 0u);
  EXPECT_EQ(checkpoints.last(30), 30u);
  EXPECT_EQ(checkpoints.last(1100), 1024u);
}

}  // namespace
}  // namespace ibid
