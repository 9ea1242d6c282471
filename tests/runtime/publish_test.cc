// Publication of a recurrent model's prompt during its prefill, and the prefills that wait for it.
#include "runtime/generate/answer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/support/fake_model.h"

namespace ibid {
namespace {

using Earlier = PendingPrefixes::Earlier;
using testing::ElementsAre;
using testing::Pair;

constexpr size_t kSpacing = 512;

// A prompt that is prefilled pass by pass, from border to border. Records what is published.
struct Prompt {
  Prompt(size_t n_prompt, size_t first_turn_boundary)
      : ids(n_prompt, 7), checkpoints(0, n_prompt, {.first_turn_boundary = first_turn_boundary}, kShare) {
    shared.pending = &pending;
    shared.publish = [this](KvCacheEntry& read, bool whole) {
      published.emplace_back(read.length(), whole);
      return whole;
    };
  }

  void read_to(size_t end) {
    std::vector<SequenceChunk> batch{{&entry, TokenSpan(ids).subspan(entry.length(), end - entry.length())}};
    batch.front().want = WantLogits::kNone;
    ASSERT_TRUE(model.forward(batch, {}, logits).ok());
    checkpoints.keep(entry, end == ids.size());
    publish(shared, pending_prefill, entry, checkpoints, ids.size() - end);
  }
  void read_to_end() {
    while (entry.length() < ids.size()) read_to(checkpoints.next(entry.length(), ids.size()));
  }

  static constexpr StateShare kShare{.spacing = kSpacing, .n_most = 100};
  FakeModel model{{.max_chunk = 4096, .recurrent = true}};
  KvPagePool pool{model.kv_layout(), 64u << 20};
  Logits logits;
  Tokens ids;
  CheckpointPositions checkpoints;
  PendingPrefixes pending{1};
  KvCacheEntry entry{pool};
  SharedPrompt shared;
  PendingPrefixes::PendingPrefill pending_prefill{pending, "a", ids};
  std::vector<std::pair<size_t, bool>> published;
};

TEST(PublishTest, FullPagesArePublishedEvenIfNoSessionWaits) {
  Prompt prompt(1300, 100);
  prompt.read_to_end();
  EXPECT_THAT(prompt.published,
              ElementsAre(Pair(100, false), Pair(512, false), Pair(1024, false), Pair(1284, false), Pair(1300, false)));
}

TEST(PublishTest, AllRowsArePublishedIfASessionWaitsForMoreThanFullPages) {
  Prompt prompt(1300, 100);
  const Tokens other = [&] {
    Tokens ids(prompt.ids.begin(), prompt.ids.begin() + 110);
    ids.resize(400, 8);
    return ids;
  }();
  PendingPrefixes::PendingPrefill later(prompt.pending, "a", other);
  ASSERT_EQ(later.earlier_state(0), Earlier::kPrefilling);
  prompt.read_to(100);
  EXPECT_THAT(prompt.published, ElementsAre(Pair(100, true)));
  EXPECT_EQ(later.earlier_state(0), Earlier::kPublished) << "there is no other border before 512";
}

// Two checkpoints in one page that is not full at the prompt's end: a prompt that diverges between them needs the
// first.
TEST(PublishTest, PromptThatDivergesBetweenCheckpointsGetsTheFirstCheckpoint) {
  Prompt prompt(630, 610);
  ASSERT_THAT(prompt.checkpoints.positions(), ElementsAre(512, 610, 614));
  prompt.read_to(512);
  prompt.read_to(610);
  const Tokens other = [&] {
    Tokens ids(prompt.ids.begin(), prompt.ids.begin() + 612);
    ids.resize(900, 8);
    return ids;
  }();
  PendingPrefixes::PendingPrefill later(prompt.pending, "a", other);
  ASSERT_EQ(later.earlier_state(0), Earlier::kPrefilling) << "the state at 610 is in a page that is not published yet";
  prompt.read_to(614);
  EXPECT_EQ(prompt.published.back(), std::pair(size_t{614}, true));
  EXPECT_EQ(later.earlier_state(0), Earlier::kPublished);
}

TEST(PublishTest, StateBeforeTheQuestionIsPublishedAtPromptEnd) {
  Prompt hidden(630, 610), in_a_full_page(660, 610);
  hidden.read_to_end();
  EXPECT_EQ(hidden.published.back(), std::pair(size_t{630}, true));
  in_a_full_page.read_to_end();
  EXPECT_EQ(in_a_full_page.published.back(), std::pair(size_t{660}, false));
}

}  // namespace
}  // namespace ibid
