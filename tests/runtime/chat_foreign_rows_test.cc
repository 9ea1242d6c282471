// Imported keys and values serve only the conversation that loaded the file: its author may have made them up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "runtime/session/session_file.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

using testing::IsEmpty;

const std::string kGift = "/s/gift.ibid";
const std::string kSystem = "You are a helpful assistant. " + std::string(100, 'z');

struct Process : ChatFixture {
  explicit Process(FileOps& files) : ChatFixture(kChatMl, {}, 64u << 20, parts(files)) {
    say({tokenizer->sampled({"ab"}), tokenizer->sampled({"lo"}), tokenizer->sampled({"the"})});
  }
  static EngineParts parts(FileOps& files) {
    EngineParts parts;
    parts.files = &files;
    parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
    parts.cache_directory = "/kv";
    parts.cache_directory_bytes = 64u << 20;
    return parts;
  }
  Result<ChatSession> load(const std::string& cache_namespace = {}) {
    return ChatSession::load(engine, kGift, {.cache_namespace = cache_namespace});
  }
  void expect_sound() const { ASSERT_THAT(validate_store(engine->state().store().snapshot()), IsEmpty()); }
};

struct ChatImportedRowsTest : testing::Test {
  ChatImportedRowsTest() { EXPECT_TRUE(files.make_directory("/s").ok()); }

  // Saves a conversation with the keys and values of another one; `spoil` changes one page of them.
  void make_gift(const std::string& cache_namespace = {}, void (*spoil)(const KvLayout&, std::byte*) = nullptr) {
    MemoryFileOps of_another;
    ASSERT_TRUE(of_another.make_directory("/s").ok());
    Process forger(of_another);
    ChatSession chat = forger.session({.system = kSystem});
    must(chat.send("hi", greedy()));
    ASSERT_TRUE(chat.save(kGift).ok());
    ids = chat.ids();
    ChatSession liar = forger.session({.system = kSystem + "but a liar"});
    must(liar.send("hi " + std::string(20, 'l'), greedy()));
    KvCacheEntry rows = liar.state().kv();
    ASSERT_TRUE(rows.reserve(1).ok()) << "the last page must be writable";
    const KvCacheEntry told = chat.state().kv();
    rows.slice_to_length(told.length());
    if (spoil != nullptr) spoil(rows.layout(), rows.pages().back().data());
    KvCacheEntry forged(forger.engine->state().pool());
    ASSERT_TRUE(forged.adopt({rows.pages().begin(), rows.pages().end()}, told.tokens()).ok());
    const Result<LoadedSession> saved = read_session_file(of_another, kGift, forger.engine->state().pool(), nullptr);
    ASSERT_TRUE(saved.ok());
    const KvPageIdentity identity{*forger.engine->state().fingerprint()->get(), digest_of_namespace(cache_namespace)};
    ASSERT_TRUE(write_session_file(files, kGift, saved->session, &forged, identity).ok());
  }

  MemoryFileOps files;
  Tokens ids;
};

TEST_F(ChatImportedRowsTest, ImportedRowsAreNotUsedByOtherConversations) {
  make_gift();
  {
    Process process(files);
    Result<ChatSession> gift = process.load();
    ASSERT_TRUE(gift.ok()) << gift.status().to_string();
    EXPECT_EQ(gift->state().kv().length(), ids.size() - 1) << "the loaded session uses them";
    EXPECT_EQ(must(gift->send("and then", greedy())).usage.n_reprefilled, 0u);
    ASSERT_TRUE(gift->prefill().ok());
    must(gift->regenerate(greedy()));
    ChatSession own = process.session({.system = kSystem});
    EXPECT_EQ(must(own.send("hi", greedy())).usage.n_cached, 0u);
    expect_replays(own);
    process.expect_sound();
  }
  Process later(files);
  ChatSession own = later.session({.system = kSystem});
  must(own.send("hi", greedy()));
  expect_replays(own);
}

TEST_F(ChatImportedRowsTest, ImportedRowsAreNotWrittenToCacheDirectory) {
  make_gift();
  {
    Process process(files);
    Result<ChatSession> gift = process.load();
    ASSERT_TRUE(gift.ok());
    must(gift->send("and then", greedy()));
    ASSERT_TRUE(process.engine->state().tier()->flush().ok());
    EXPECT_EQ(process.engine->state().tier()->stats().pages, 0u);
  }
  Process later(files);
  ChatSession own = later.session({.system = kSystem});
  EXPECT_EQ(must(own.send("hi", greedy())).usage.n_cached, 0u);
}

TEST_F(ChatImportedRowsTest, LoadPrefersCachedRowsToImportedRows) {
  make_gift();
  Process process(files);
  ChatSession own = process.session({.system = kSystem});
  must(own.send("hi", greedy()));
  Result<ChatSession> gift = process.load();
  ASSERT_TRUE(gift.ok());
  expect_replays(*gift);
  must(gift->send("and then", greedy()));
  expect_replays(*gift);
}

TEST_F(ChatImportedRowsTest, RowsThatReplaceEvictedImportedRowsAreShared) {
  make_gift();
  Process process(files);
  Result<ChatSession> gift = process.load();
  ASSERT_TRUE(gift.ok());
  process.engine->state().store().evict(SIZE_MAX);
  EXPECT_EQ(must(gift->send("and then", greedy())).usage.n_cached, 0u);
  expect_replays(*gift);
  ChatSession own = process.session({.system = kSystem});
  EXPECT_GT(must(own.send("hi", greedy())).usage.n_cached, kSystem.size());
  expect_replays(own);
}

TEST_F(ChatImportedRowsTest, ForksShareImportedRowsUntilLastIsDestroyed) {
  make_gift();
  Process process(files);
  {
    Result<ChatSession> gift = process.load();
    ASSERT_TRUE(gift.ok());
    ChatSession fork = *gift->fork();
    const std::string question = "and then " + std::string(150, 'q');
    must(gift->send(question, greedy()));
    EXPECT_EQ(must(fork.send(question, greedy())).usage.n_prefilled, 1u)
        << "the fork finds all KV, but not the last logits";
    ASSERT_TRUE(gift->reset().ok());
    EXPECT_GT(process.engine->state().store().stats().pages, 0u);
    must(fork.send("more", greedy()));
    process.expect_sound();
  }
  EXPECT_EQ(process.engine->state().store().stats().pages, 0u);
  EXPECT_EQ(process.engine->state().pool().pages_in_use(), 0u);
}

TEST_F(ChatImportedRowsTest, LoadStopsAtNonFiniteRows) {
  const auto infinite = [](const KvLayout& layout, std::byte* page) {
    const float bad = std::numeric_limits<float>::infinity();
    std::memcpy(page + layout.layer(1).offset + layout.layer(1).block.v, &bad, sizeof(bad));
  };
  make_gift({}, infinite);
  Process process(files);
  Result<ChatSession> gift = process.load();
  ASSERT_TRUE(gift.ok());
  EXPECT_EQ(gift->ids(), ids) << "the conversation is complete";
  EXPECT_EQ(gift->state().kv().length(), (ids.size() - 1) / kPagePositions * kPagePositions) << "the pages before it";
}

// Finite values whose results are not: the turn fails, and the next one prefills again.
TEST_F(ChatImportedRowsTest, TurnAfterNonFiniteImportedRowsPrefillsAgain) {
  make_gift();
  Process process(files);
  Result<ChatSession> gift = process.load();
  ASSERT_TRUE(gift.ok());
  process.model->before_layer = [](size_t, size_t) { return Status(ErrorCode::kNonFinite, "no numbers"); };
  EXPECT_EQ(gift->send("and then", greedy()).status().code(), ErrorCode::kNonFinite);
  process.model->before_layer = nullptr;
  EXPECT_EQ(must(gift->send("and then", greedy())).usage.n_cached, 0u);
  expect_replays(*gift);
}

TEST_F(ChatImportedRowsTest, ImportedRowsOfAnotherNamespaceAreNotUsed) {
  make_gift("bob");
  Process process(files);
  ChatSession bob = process.session({.system = kSystem, .cache_namespace = "bob"});
  must(bob.send("hi", greedy()));
  {
    Result<ChatSession> gift = process.load("alice");
    ASSERT_TRUE(gift.ok());
    EXPECT_EQ(gift->state().kv().length(), 0u) << "neither bob's rows nor the file's, of another namespace";
    EXPECT_EQ(must(gift->send("and then", greedy())).usage.n_cached, 0u);
  }
  Result<ChatSession> gift = process.load("bob");
  ASSERT_TRUE(gift.ok());
  EXPECT_EQ(gift->state().kv().length(), ids.size() - 1);
  expect_replays(*gift);
}

}  // namespace
}  // namespace ibid
