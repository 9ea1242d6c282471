// Work counters of sessions: the cost of a turn does not depend on the conversation's length, and a namespace reveals
// nothing to another one.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

// With penalties that read the history, and drafts.
TurnOptions looking_back() {
  TurnOptions options = greedy();
  options.sampler.repetition_penalty = 1.05;
  options.sampler.repetition_window = 50;
  options.sampler.frequency_penalty = 0.01;
  return options;
}

std::string message(int turn) { return "Hello the " + std::to_string(1000 + turn); }

using Counters = std::array<size_t, sizeof(WorkCounters) / sizeof(size_t)>;

TEST(SessionLawsTest, TwoHundredthTurnCostsNoMoreThanTheFifth) {
  for (const bool repair : {false, true}) {
    SCOPED_TRACE(repair);
    ChatFixture f(kChatMl, {.max_seq_len = 16'384});
    f.say(std::vector<Tokens>(200, f.tokenizer->sampled({"a", "b", "lo", "ing"})));
    ChatSession chat = *ChatSession::create(f.engine, {.system = "be the best", .repair_when_idle = repair});
    WorkCounters fifth;
    size_t n_before = 0, lookups = 0;
    for (int turn = 1; turn <= 200; ++turn) {
      const Turn done = must(chat.send(message(turn), looking_back()));
      // The new text, and the token that ended the previous answer.
      const size_t n_new = f.next_prompt(message(turn)).size() + 1;
      if (turn > 1) {
        ASSERT_EQ(done.usage.n_prefilled, n_new) << turn;
        ASSERT_EQ(done.usage.n_cached, n_before) << turn;
      }
      n_before = chat.state().kv().length();
      WorkCounters work = done.work;
      ASSERT_LE(work.pages_touched, 2u) << turn;
      ASSERT_LE(work.kv_bytes_copied, chat.state().kv().layout().page_bytes()) << turn;
      ASSERT_LE(work.n_forward, 6u) << turn;
      // These depend on the turn's offset in a page: drafts do not cross its end.
      work.pages_touched = work.kv_bytes_copied = work.n_forward = 0;
      if (turn == 5) fifth = work, lookups = f.engine->state().store().stats().lookups;
      if (turn <= 5) continue;
      ASSERT_EQ(std::bit_cast<Counters>(work), std::bit_cast<Counters>(fifth)) << turn;
      ASSERT_GT(work.history_steps, 0u);
      ASSERT_GT(work.tokens_indexed, 0u);
    }
    EXPECT_EQ(f.engine->state().store().stats().lookups, lookups) << "the store was not searched";
    expect_replays(chat);
  }
}

// If every turn rewrites the previous one, only changed text is rendered, encoded, indexed and fed.
TEST(SessionLawsTest, RewrittenTurnCostsOnlyItsChangedText) {
  for (const bool ahead : {false, true}) {
    SCOPED_TRACE(ahead);
    ChatFixture f(kStripsThinking, {.max_seq_len = 16'384});
    f.say(std::vector<Tokens>(100, f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello", " world"})));
    ChatSession chat = f.session({.system = "be the best"});
    Turn fifth;
    for (int turn = 1; turn <= 100; ++turn) {
      const Turn done = must(chat.send(message(turn), greedy()));
      ASSERT_TRUE(!ahead || chat.prefill().ok());
      if (turn == 5) fifth = done;
      if (turn <= 5) continue;
      ASSERT_EQ(done.usage.n_prefilled, fifth.usage.n_prefilled) << turn;
      ASSERT_EQ(done.work.messages_rendered, fifth.work.messages_rendered) << turn;
      ASSERT_EQ(done.work.bytes_rendered, fifth.work.bytes_rendered) << turn;
      ASSERT_EQ(done.work.bytes_tokenized, fifth.work.bytes_tokenized) << turn;
      ASSERT_EQ(done.work.bytes_compared, fifth.work.bytes_compared) << turn;
      ASSERT_EQ(done.work.tokens_indexed, fifth.work.tokens_indexed) << turn;
      ASSERT_EQ(done.work.n_rows, fifth.work.n_rows) << turn;
    }
    expect_replays(chat);
  }
}

TEST(SessionLawsTest, PromptOfAnotherNamespaceCostsAsMuchAsAnUnknownPrompt) {
  MemoryFileOps files;
  const auto parts = [&] {
    EngineParts out;
    out.files = &files;
    out.fingerprint = FingerprintBuilder().add("model", "one").finish();
    out.cache_directory = "/kv";
    out.cache_directory_bytes = 64u << 20;
    return out;
  };
  const std::string system(300, 'z');
  const auto replies = [](ChatFixture& f) { f.say({f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"lo"})}); };
  {
    ChatFixture f(kChatMl, {}, 64u << 20, parts());
    replies(f);
    std::vector<Turn> turns;
    for (const char* name : {"alice", "bob"}) {
      ChatSession chat = f.session({.system = system, .cache_namespace = name});
      turns.push_back(must(chat.send("Hello", greedy())));
      expect_replays(chat);
    }
    EXPECT_EQ(std::bit_cast<Counters>(turns[0].work), std::bit_cast<Counters>(turns[1].work));
    EXPECT_EQ(turns[1].usage.n_cached, 0u);
    EXPECT_EQ(f.engine->state().store().stats("bob").hits, 0u);
    EXPECT_EQ(f.engine->state().store().stats("bob").repeats, 0u);
    EXPECT_EQ(f.engine->state().tier()->stats().tokens_read, 0u);
  }
  // Another process: alice's pages are on disk, and only she finds them. Carol never wrote any.
  ChatFixture f(kChatMl, {}, 64u << 20, parts());
  replies(f);
  ChatSession carol = f.session({.system = system, .cache_namespace = "carol"});
  EXPECT_EQ(must(carol.send("Hello", greedy())).usage.n_cached, 0u);
  EXPECT_EQ(f.engine->state().tier()->stats().tokens_read, 0u);
  ChatSession alice = f.session({.system = system, .cache_namespace = "alice"});
  EXPECT_GT(must(alice.send("Hello", greedy())).usage.n_cached, system.size());
  EXPECT_GT(f.engine->state().tier()->stats().tokens_read, system.size());
}

TEST(SessionLawsTest, SharedPrefixIsFoundByOtherNamespaces) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  const std::string system(300, 'z');
  ChatSession alice = f.session({.system = system, .cache_namespace = "alice"});
  must(alice.send("Hello", greedy()));
  const Tokens head = f.ids("<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n");
  PrefixHit declared = f.engine->state().store().find_longest_prefix("alice", head);
  ASSERT_EQ(declared.length(), head.size());
  ASSERT_TRUE(declared.entry.reserve(1).ok());  // makes the last page its own
  declared.entry.slice_to_length(head.size());
  ASSERT_TRUE(f.engine->state().store().insert("alice", declared.entry, Sharing::kShared).ok());
  ChatSession bob = f.session({.system = system, .cache_namespace = "bob"});
  const Turn turn = must(bob.send("another", greedy()));
  EXPECT_GE(turn.usage.n_cached, head.size() / kPagePositions * kPagePositions);
  EXPECT_LE(turn.usage.n_cached, head.size()) << "no part of alice's question";
  expect_replays(bob);
}

}  // namespace
}  // namespace ibid
