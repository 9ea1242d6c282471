// Conversations on a model in which one layer sees only its last positions, with memory for these and no more.
// FakeModel checks that every pass finds the rows that it reads, leased and of the right text; these tests count the
// prefill. Also with recurrent layers.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

constexpr size_t kWindow = 150;
const std::string kLong(700, 'q');

FakeModel::Options windowed(bool recurrent = false) {
  return {.max_seq_len = 32768, .n_layers = 6, .recurrent = recurrent, .window = kWindow};
}

// Memory of idle sequences of these lengths, and of a turn of one of them.
size_t budget_for(std::initializer_list<size_t> lengths, bool recurrent = false) {
  const FakeModel model(windowed(recurrent));
  const KvLayout& layout = model.kv_layout();
  size_t bytes = 0;
  for (const size_t length : lengths) {
    const size_t n_pages = KvLayout::pages_for(length);
    const size_t n_windows = KvLayout::pages_for(kWindow) + 2 * kAttentionBlock / kPagePositions;
    bytes += n_pages * layout.part_bytes(PagePart::kAll) + n_windows * layout.part_bytes(PagePart::kWindow);
  }
  return bytes + 12 * layout.page_bytes() + (recurrent ? bytes : 0);
}

struct WindowedChat : ChatFixture {
  explicit WindowedChat(size_t budget = 64u << 20, bool recurrent = false, const char* chat_template = kChatMl,
                        EngineParts parts = {})
      : ChatFixture(chat_template, windowed(recurrent), budget, std::move(parts)) {
    say(std::vector<Tokens>(120, tokenizer->sampled({"a", "b", "lo"})));
  }
  void expect_sound() const {
    ASSERT_EQ(validate_store(engine->state().store().snapshot()), std::vector<std::string>());
  }
};

size_t end_of(const Turn& turn) { return turn.usage.n_prompt + turn.usage.n_decoded - 1; }

class WindowedChatTest : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Recurrent, WindowedChatTest, testing::Bool());

TEST_P(WindowedChatTest, GrowingChatPrefillsNothingAgainWithMemoryForItsWindow) {
  WindowedChat f(budget_for({15'000}, GetParam()), GetParam());
  ChatSession chat = f.session({.system = "be the best"});
  size_t n_before = 0;  // positions after the previous turn
  for (size_t i = 0; i < 100; ++i) {
    const Turn turn = must(chat.send(i % 7 == 0 ? kLong : "Hello", greedy()));
    ASSERT_EQ(turn.usage.n_cached, n_before) << i;
    ASSERT_EQ(turn.usage.n_reprefilled, 0u) << i;
    n_before = end_of(turn);
  }
  EXPECT_GT(n_before, 11'000u);
  EXPECT_LT(budget_for({15'000}), KvLayout::pages_for(n_before) * f.model->kv_layout().page_bytes() / 2);
  expect_replays(chat);
  f.expect_sound();
}

TEST_P(WindowedChatTest, AlternatingChatsPrefillNothingAgain) {
  WindowedChat f(budget_for({3000, 3000, 8000}, GetParam()), GetParam());
  std::vector<ChatSession> chats;
  for (size_t i = 0; i < 3; ++i) chats.push_back(f.session({.system = std::string(200, static_cast<char>('x' + i))}));
  std::vector<size_t> ends(3, 0);
  for (size_t round = 0; round < 12; ++round) {
    for (size_t i = 0; i < 3; ++i) {
      const std::string message = i < 2 ? "Hello " + std::string(100, 'q') : std::string(550, 'q');
      const Turn turn = must(chats[i].send(message, greedy()));
      ASSERT_EQ(turn.usage.n_reprefilled, 0u) << "round " << round << ", chat " << i;
      if (round > 0) {
        ASSERT_EQ(turn.usage.n_cached, ends[i]) << "round " << round << ", chat " << i;
      }
      ends[i] = end_of(turn);
    }
  }
  EXPECT_GT(ends[2], 6000u);
  for (const ChatSession& chat : chats) expect_replays(chat);
  f.expect_sound();
}

TEST_P(WindowedChatTest, RegeneratePrefillsNothing) {
  WindowedChat f(budget_for({3000}, GetParam()), GetParam());
  ChatSession chat = f.session({.system = kLong});
  must(chat.send(kLong, greedy()));
  must(chat.send("Hello", greedy()));
  for (size_t i = 0; i < 5; ++i) {
    const Turn turn = must(chat.regenerate(greedy()));
    EXPECT_EQ(turn.usage.n_prefilled, 0u) << i;
  }
  expect_replays(chat);
}

TEST(WindowedChat, EditedTurnResumesWhereItsTextChanged) {
  WindowedChat f;
  ChatSession chat = f.session({.system = kLong});
  std::vector<size_t> ends;  // positions after each answer
  for (size_t i = 0; i < 8; ++i) ends.push_back(end_of(must(chat.send("Hello " + std::string(60 * i, 'x'), greedy()))));
  for (size_t i = 7; i > 0; --i) {
    const Turn turn = must(chat.edit(2 * i + 1, "the other", greedy()));
    EXPECT_GE(turn.usage.n_cached, ends[i - 1]) << "message " << 2 * i + 1;
    EXPECT_EQ(turn.usage.n_reprefilled, 0u);
  }
  expect_replays(chat);
}

// Rows before the window were evicted for later prefill: an edit there prefills them again, with the same bits.
TEST(WindowedChat, EditBeforeTheWindowPrefillsEvictedRowsOnce) {
  WindowedChat f(budget_for({9000}));
  ChatSession chat = f.session({.system = kLong});
  for (size_t i = 0; i < 10; ++i) must(chat.send(kLong, greedy()));
  const Turn edited = must(chat.edit(3, "the other", greedy()));
  EXPECT_GT(edited.usage.n_reprefilled, 0u) << "the budget was large enough for everything";
  expect_replays(chat);
  const size_t end = end_of(edited);
  const Turn next = must(chat.send("Hello", greedy()));
  EXPECT_EQ(next.usage.n_cached, end);
  EXPECT_EQ(next.usage.n_reprefilled, 0u);
  expect_replays(chat);
  f.expect_sound();
}

TEST_P(WindowedChatTest, ForksAndSeveralAnswersShareRows) {
  WindowedChat f(budget_for({3000, 3000, 3000, 3000}, GetParam()), GetParam());
  ChatSession chat = f.session({.system = kLong});
  must(chat.send(kLong, greedy()));
  ChatSession fork = *chat.fork();
  const Turn a = must(chat.send("Hello " + std::string(400, 'q'), greedy()));
  const Turn b = must(fork.send("the other", greedy()));
  EXPECT_EQ(a.usage.n_reprefilled + b.usage.n_reprefilled, 0u);
  const std::vector<Turn> turns = *chat.send_for_answers("x", 3, greedy());
  EXPECT_EQ(turns[1].usage.n_prefilled + turns[2].usage.n_prefilled, 0u);
  expect_replays(chat);
  expect_replays(fork);
}

TEST(WindowedChat, RewindPrefillsNothingAgain) {
  WindowedChat f;
  ChatSession chat = f.session({.system = kLong});
  std::vector<size_t> ends;
  for (size_t i = 0; i < 6; ++i) ends.push_back(end_of(must(chat.send("Hello " + std::string(100, 'x'), greedy()))));
  ASSERT_TRUE(chat.rewind_to(1 + 2 * 3).ok());
  const Turn turn = must(chat.send("the other", greedy()));
  EXPECT_GE(turn.usage.n_cached, ends[2]);
  EXPECT_EQ(turn.usage.n_reprefilled, 0u);
  expect_replays(chat);
}

TEST(WindowedChat, NewSessionWithTheSameHistoryResumesWhereAnotherSessionStopped) {
  WindowedChat f(budget_for({4000, 4000}));
  f.say(std::vector<Tokens>(10, f.tokenizer->sampled({"ab"})));  // as the text of the answer is encoded
  ChatSession first = f.session({.system = kLong});
  must(first.send("Hello " + kLong, greedy()));
  const Turn last = must(first.send("Hello", greedy()));
  Json history = first.state().messages();
  for (size_t i = 0; i < 5; ++i) {
    ChatSession same = f.session();
    history.push_back({{"role", "user"}, {"content", "x"}});
    ASSERT_TRUE(same.state().set_history(history).ok());
    const Turn turn = must(same.answer(greedy()));
    EXPECT_GE(turn.usage.n_cached, last.usage.n_prompt) << i;
    expect_replays(same);
    history = same.state().messages();
  }
}

TEST(WindowedChat, SessionFileIsLoadedWithMemoryForItsWindow) {
  MemoryFileOps files;
  ASSERT_TRUE(files.make_directory("/s").ok());
  const auto parts = [&] {
    EngineParts made;
    made.files = &files;
    made.fingerprint = FingerprintBuilder().add("model", "windowed").finish();
    return made;
  };
  size_t end = 0;
  {
    WindowedChat f(64u << 20, false, kChatMl, parts());
    ChatSession chat = f.session({.system = kLong});
    for (size_t i = 0; i < 10; ++i) end = end_of(must(chat.send(kLong, greedy())));
    ASSERT_TRUE(chat.save("/s/talk.ibid", {.with_kv = true}).ok());
  }
  WindowedChat f(budget_for({end + 200}), false, kChatMl, parts());
  Result<ChatSession> chat = ChatSession::load(f.engine, "/s/talk.ibid");
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  const Turn turn = must(chat->send("Hello", greedy()));
  EXPECT_EQ(turn.usage.n_cached, end);
  EXPECT_EQ(turn.usage.n_reprefilled, 0u);
  expect_replays(*chat);
}

}  // namespace
}  // namespace ibid
