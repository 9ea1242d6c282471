// Idle sessions hold no pages: any number of them shares a budget, each continues with the same bits as alone, and a
// turn reports what it found in memory, found on disk, or prefilled again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/store_invariants.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

size_t page_bytes() { return FakeModel().kv_layout().page_bytes(); }

struct SmallPool : ChatFixture {
  explicit SmallPool(size_t n_pages, EngineParts parts = {})
      : ChatFixture(kChatMl, {.max_chunk = 64}, n_pages * page_bytes(), std::move(parts)) {}
  size_t pages_in_use() const { return engine->state().pool().pages_in_use(); }
  void evict_everything() { engine->state().store().evict(SIZE_MAX); }
};

std::string question(size_t i, size_t n) { return "question " + std::to_string(i) + std::string(n, 'q'); }

TEST(ChatAtRestTest, SmallPoolServesManySessions) {
  SmallPool f(20);
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < 60; ++i) {
    chats.push_back(f.session({.cache_namespace = "user " + std::to_string(i)}));
    must(chats.back().send(question(i, 60), greedy(8)));
    ASSERT_LE(f.pages_in_use(), 20u);
  }
  for (ChatSession& chat : chats) {
    must(chat.send("and then?", greedy(8)));
    expect_replays(chat);
  }
  EXPECT_GT(f.engine->state().store().stats().evicted_pages, 100u);
  EXPECT_LE(f.engine->state().pool().peak_bytes(), f.engine->state().pool().budget_bytes());
}

// All branches of a conversation, and KV that was prefilled ahead.
TEST(ChatAtRestTest, IdleSessionsHoldNoPages) {
  SmallPool f(100);
  ChatSession chat = f.session({.system = "be brief"});
  must(chat.send(question(1, 150), greedy(8)));
  ChatSession fork = *chat.fork();
  TurnOptions sampled = greedy(8);
  sampled.sampler = {.temperature = 1, .min_p = 0, .seed = 3};
  ASSERT_TRUE(chat.send_for_answers(question(2, 80), 4, sampled).ok());
  ASSERT_TRUE(fork.prefill().ok());
  ASSERT_TRUE(chat.choose(2).ok());
  const size_t n_fed = chat.state().kv().length();
  EXPECT_EQ(n_fed, chat.ids().size() - 1);
  f.evict_everything();
  EXPECT_EQ(f.pages_in_use(), 0u);

  const Turn turn = must(chat.send("and then?", greedy(8)));
  EXPECT_EQ(turn.usage.n_cached, 0u);
  EXPECT_FALSE(turn.lost_prefix.has_value()) << "nothing was rewritten";
  EXPECT_EQ(turn.usage.n_reprefilled, n_fed);
  expect_replays(chat);
  must(fork.send("and you?", greedy(8)));
  expect_replays(fork);
  EXPECT_THAT(validate_store(f.engine->state().store().snapshot()), IsEmpty());
}

TEST(ChatAtRestTest, PagesOfDestroyedSessionsAreEvictedFirst) {
  SmallPool f(20);
  ChatSession chat = f.session({.cache_namespace = "alice"});
  must(chat.send(question(1, 150), greedy(8)));
  const size_t n_tokens = chat.ids().size();
  // Fills all other pages, by a session that is destroyed.
  must(f.session({.cache_namespace = "bob"}).send(question(2, 900), greedy(8)));
  must(f.session({.cache_namespace = "carol"}).send(question(3, 600), greedy(8)));
  EXPECT_GT(f.engine->state().store().stats().evicted_pages, 0u);
  const Turn turn = must(chat.send("and then?", greedy(8)));
  EXPECT_EQ(turn.usage.n_reprefilled, 0u);
  EXPECT_GE(turn.usage.n_cached + 1, n_tokens);
}

TEST(ChatAtRestTest, OnlyEvictedTailIsPrefilledAgain) {
  SmallPool f(100);
  ChatSession chat = f.session();
  must(chat.send(question(1, 250), greedy(8)));
  const Tokens ids = chat.ids();
  f.engine->state().store().evict(1);
  const size_t n_left = chat.state().kv().length();
  EXPECT_EQ(n_left, (ids.size() - 1) / kPagePositions * kPagePositions);
  const Turn turn = must(chat.send("and then?", greedy(8)));
  EXPECT_EQ(turn.usage.n_cached, n_left);
  EXPECT_GT(turn.usage.n_reprefilled, 0u);
  EXPECT_LT(turn.usage.n_reprefilled, kPagePositions);
  expect_replays(chat);
}

TEST(ChatAtRestTest, RegeneratePrefillsEvictedPromptAgain) {
  SmallPool f(100);
  ChatSession chat = f.session();
  const std::string text = must(chat.send(question(1, 150), greedy(8))).text;
  f.evict_everything();
  const Turn turn = must(chat.regenerate(greedy(8)));
  EXPECT_EQ(turn.text, text);
  EXPECT_EQ(turn.usage.n_prefilled, turn.usage.n_prompt);
  EXPECT_EQ(must(chat.regenerate(greedy(8))).usage.n_prefilled, 0u);
  expect_replays(chat);
}

TEST(ChatAtRestTest, PromptPrefilledAheadIsPrefilledAgainAfterEviction) {
  for (const bool waits : {false, true}) {
    SmallPool f(100);
    ChatSession chat = f.session({.system = std::string(200, 's')});
    if (waits) {
      ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", question(1, 150)}}).ok());
    }
    ASSERT_TRUE(chat.prefill().ok());
    f.evict_everything();
    const Turn turn = waits ? must(chat.answer(greedy(8))) : must(chat.send(question(1, 150), greedy(8)));
    EXPECT_EQ(turn.usage.n_cached, 0u);
    expect_replays(chat);
    ChatFixture other;
    ChatSession alone = other.session({.system = std::string(200, 's')});
    EXPECT_EQ(must(alone.send(question(1, 150), greedy(8))).text, turn.text);
  }
}

TEST(ChatAtRestTest, EvictedPagesAreReadFromDisk) {
  MemoryFileOps files;
  EngineParts parts;
  parts.files = &files;
  parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
  parts.cache_directory = "/kv";
  parts.cache_directory_bytes = 64u << 20;
  SmallPool f(20, std::move(parts));
  ChatSession chat = f.session();
  must(chat.send(question(1, 150), greedy(8)));
  ASSERT_TRUE(f.engine->state().tier()->flush().ok());
  const size_t n_fed = chat.state().kv().length();
  f.evict_everything();
  EXPECT_EQ(chat.state().kv().length(), 0u);
  const Turn turn = must(chat.send("and then?", greedy(8)));
  EXPECT_EQ(turn.usage.n_cached, n_fed);
  EXPECT_EQ(turn.usage.n_from_disk, n_fed);
  EXPECT_EQ(turn.usage.n_reprefilled, 0u);
  expect_replays(chat);
}

TEST(ChatAtRestTest, SaveFindsEvictedKeysAndValuesOnDisk) {
  const TempDir dir;
  EngineParts parts;
  parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
  parts.cache_directory = dir.path() + "/kv";
  parts.cache_directory_bytes = 64u << 20;
  SmallPool f(20, std::move(parts));
  ChatSession chat = f.session();
  must(chat.send(question(1, 150), greedy(8)));
  const size_t n_fed = chat.state().kv().length();
  ASSERT_TRUE(f.engine->state().tier()->flush().ok());
  f.evict_everything();
  ASSERT_TRUE(chat.save(dir.path() + "/talk", {.with_kv = true}).ok());
  EngineParts of_another;
  of_another.fingerprint = FingerprintBuilder().add("model", "one").finish();
  SmallPool other(20, std::move(of_another));
  const Result<ChatSession> loaded = ChatSession::load(other.engine, dir.path() + "/talk");
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded->state().kv().length(), n_fed);
  expect_replays(*loaded);
}

TEST(ChatAtRestTest, OutOfMemoryErrorNamesTheBudget) {
  SmallPool f(12);
  ChatSession chat = f.session({.cache_namespace = "alice"});
  must(chat.send(question(1, 100), greedy(8)));
  const SessionSnapshot before(chat);
  ChatSession other = f.session({.cache_namespace = "bob"});
  must(other.send(question(2, 400), greedy(8)));
  {
    const KvCacheEntry held = other.state().kv();
    const Result<Turn> turn = chat.send(question(3, 400), greedy(8));
    ASSERT_EQ(turn.status().code(), ErrorCode::kOutOfMemory);
    EXPECT_THAT(turn.status().message(), HasSubstr(std::to_string(f.engine->state().pool().budget_bytes())));
    expect_rows_replay(chat);
    EXPECT_TRUE(SessionSnapshot(chat).same_conversation(before));
  }
  must(chat.send(question(3, 400), greedy(8)));
  expect_replays(chat);
}

// --- ten thousand of them

// One of the conversations that the sessions repeat, and its results alone.
struct ChatBackend {
  explicit ChatBackend(size_t i) : questions{question(i, 20 + 13 * (i % 11)), question(i + 100, i % 50)} {
    ChatFixture alone;
    ChatSession chat = alone.session();
    for (const std::string& text : questions) {
      n_new.push_back(must(chat.send(text, greedy(5))).usage.n_prefilled);
      ids.push_back(chat.ids());
      rows.push_back(FakeModel::rows_of(chat.state().kv()));
    }
  }
  std::vector<std::string> questions;
  std::vector<size_t> n_new;
  std::vector<Tokens> ids;
  std::vector<std::vector<float>> rows;
};

TEST(ChatAtRestTest, TenThousandSessionsShare256Pages) {
  constexpr size_t kSessions = 10'000, kPages = 256, kTalks = 60, kEarly = 20;
  std::vector<ChatBackend> talks;
  for (size_t i = 0; i < kTalks; ++i) talks.emplace_back(i);
  SmallPool f(kPages);
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < kSessions; ++i) {
    chats.push_back(f.session({.cache_namespace = "user " + std::to_string(i)}));
  }
  // Two turns each, in random order; every tenth session has its second turn soon.
  std::mt19937_64 rng(11);
  std::vector<size_t> order;
  for (size_t i = 0; i < kSessions; ++i) order.insert(order.end(), i % 10 == 0 ? 1 : 2, i);
  std::shuffle(order.begin(), order.end(), rng);
  std::multimap<size_t, size_t> soon;
  std::vector<size_t> n_turns(kSessions, 0), last_turn(kSessions, 0);
  size_t now = 0, n_early = 0, n_again = 0;
  const auto take_turn = [&](size_t i) {
    const ChatBackend& talk = talks[i % kTalks];
    const size_t k = n_turns[i]++;
    const Turn turn = must(chats[i].send(talk.questions[k], greedy(5)));
    ASSERT_EQ(chats[i].ids(), talk.ids[k]);
    const std::vector<float> rows = FakeModel::rows_of(chats[i].state().kv());
    ASSERT_EQ(rows.size(), talk.rows[k].size());
    ASSERT_EQ(std::memcmp(rows.data(), talk.rows[k].data(), rows.size() * sizeof(float)), 0);
    ASSERT_EQ(turn.usage.n_prefilled, talk.n_new[k] + turn.usage.n_reprefilled);
    if (k == 1 && now - last_turn[i] <= kEarly) {
      ++n_early;
      ASSERT_EQ(turn.usage.n_reprefilled, 0u);
    }
    n_again += turn.usage.n_reprefilled > 0;
    last_turn[i] = now++;
    if (i % 10 == 0 && k == 0) soon.emplace(now + rng() % kEarly, i);
    if (now % 500 == 0) {
      ASSERT_THAT(validate_store(f.engine->state().store().snapshot()), IsEmpty());
    }
  };
  for (const size_t i : order) {
    ASSERT_NO_FATAL_FAILURE(take_turn(i)) << "turn " << now << " of session " << i;
    for (auto next = soon.begin(); next != soon.end() && next->first <= now; next = soon.begin()) {
      const size_t back = next->second;
      soon.erase(next);
      ASSERT_NO_FATAL_FAILURE(take_turn(back)) << "turn " << now << " of session " << back;
    }
  }
  EXPECT_LE(f.engine->state().pool().peak_bytes(), kPages * page_bytes());
  EXPECT_GT(n_early, kSessions / 20);
  EXPECT_GT(n_again, kSessions / 2) << "nothing was evicted";
  f.evict_everything();
  EXPECT_EQ(f.pages_in_use(), 0u);
}

}  // namespace
}  // namespace ibid
