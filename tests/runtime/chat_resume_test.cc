// Conversations that outlive the process: session files and the cache directory. The next process is a new engine on
// the same files; what it feeds to its model is what was really read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cache/file_tier.h"
#include "cache/lru_kv_cache_store.h"
#include "runtime/session_file.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

const std::string kPath = "/s/talk.ibid";
const std::string kSystem = "be " + std::string(200, 'z');

EngineParts parts_on(FileOps& files, bool tier, const char* model = "one") {
  EngineParts parts;
  parts.files = &files;
  parts.fingerprint = FingerprintBuilder().add("model", model).finish();
  if (tier) parts.cache_directory = "/kv";
  parts.cache_directory_bytes = 64u << 20;
  return parts;
}

// One process on the files.
struct Process : ChatFixture {
  explicit Process(FileOps& files, bool tier = false, const char* model_name = "one", const char* chat_template = kChatMl)
      : ChatFixture(chat_template, {.max_chunk = 64}, 64u << 20, parts_on(files, tier, model_name)) {
    say({tokenizer->sampled({"a", "b"}), tokenizer->sampled({"Hello", "lo"}), tokenizer->sampled({"the", "ing"}),
         tokenizer->sampled({"abc"})});
  }
};

struct ChatResumeTest : testing::Test {
  ChatResumeTest() { EXPECT_TRUE(files.make_directory("/s").ok()); }

  // Two turns, saved.
  void have_a_talk(bool tier, bool with_kv, const char* chat_template = kChatMl) {
    Process process(files, tier, "one", chat_template);
    ChatSession chat = process.session({.system = kSystem});
    must(chat.send("x " + std::string(90, 'y'), greedy()));
    must(chat.send("the second", greedy()));
    ASSERT_TRUE(chat.pin(1).ok());
    ASSERT_TRUE(chat.save(kPath, {.with_kv = with_kv}).ok());
    ids = chat.ids();
    messages = chat.messages();
    bytes = chat.transcript().bytes();
  }
  // What a process that never ended would feed for one turn more.
  Tokens third_turn(const Process& process) const {
    return joined({{ids.back()}, process.next_prompt("and"), process.tokenizer->sampled({"the", "ing"})});
  }

  MemoryFileOps files;
  Tokens ids;
  Json messages;
  std::string bytes;
};

TEST_F(ChatResumeTest, AFileWithKeysAndValuesGoesOnWithoutReading) {
  have_a_talk(false, true);
  Process process(files);
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  EXPECT_EQ(chat->ids(), ids);
  EXPECT_EQ(chat->messages(), messages);
  EXPECT_EQ(chat->transcript().bytes(), bytes);
  EXPECT_EQ(chat->kv().length(), ids.size() - 1);
  EXPECT_EQ(process.model->take_fed(), Tokens());
  expect_replays(*chat);
  must(chat->send("and", greedy()));
  EXPECT_EQ(process.model->take_fed(), third_turn(process));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, TheCacheDirectoryGivesThemBack) {
  have_a_talk(true, false);
  Process process(files, true);
  ASSERT_NE(process.engine->tier(), nullptr) << process.engine->tier_status().to_string();
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->kv().length(), ids.size() - 1);
  expect_replays(*chat);
  must(chat->send("and", greedy()));
  EXPECT_EQ(process.model->take_fed(), third_turn(process));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, ANewSessionFindsTheSystemMessageOnDisk) {
  have_a_talk(true, false);
  Process process(files, true);
  ChatSession chat = process.session({.system = kSystem});
  const Turn turn = must(chat.send("Hello", greedy()));
  EXPECT_EQ(turn.usage.n_cached, process.ids("<|im_start|>system\n" + kSystem + "<|im_end|>\n<|im_start|>user\n").size());
  expect_replays(chat);
  ChatSession stranger = process.session({.system = kSystem, .cache_namespace = "another"});
  EXPECT_EQ(must(stranger.send("Hello", greedy())).usage.n_cached, 0u);
}

TEST_F(ChatResumeTest, WithoutKeysAndValuesItIsReadAgainAndTheSame) {
  have_a_talk(false, false);
  Process process(files);
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->ids(), ids) << "answers keep the ids that were sampled";
  EXPECT_EQ(chat->kv().length(), 0u);
  must(chat->send("and", greedy()));
  EXPECT_EQ(chat->messages().back()["content"], "theing");
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, ARewrittenHistoryComesBackAsItWas) {
  Process before(files, false, "one", kStripsThinking);
  before.say({before.tokenizer->sampled({"<think>", "ing", "</think>", "Hello"}), before.tokenizer->sampled({"ab"}),
              before.tokenizer->sampled({"the"})});
  ChatSession chat = before.session();
  must(chat.send("x", greedy()));
  must(chat.send("y", greedy()));
  must(chat.regenerate(greedy()));
  ASSERT_TRUE(chat.save(kPath, {.with_kv = true}).ok());
  Process after(files, false, "one", kStripsThinking);
  Result<ChatSession> resumed = ChatSession::load(after.engine, kPath);
  ASSERT_TRUE(resumed.ok());
  EXPECT_EQ(resumed->ids(), chat.ids());
  EXPECT_EQ(resumed->kv().length(), chat.kv().length());
  expect_replays(*resumed);
}

TEST_F(ChatResumeTest, AnotherModelsKeysAndValuesAreNotUsed) {
  have_a_talk(true, true);
  Process process(files, true, "two");
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->kv().length(), 0u);
  EXPECT_EQ(process.engine->tier()->stats().tokens_read, 0u);
  must(chat->send("and", greedy()));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, SavingThemNeedsAFingerprint) {
  ChatFixture f;
  ChatSession chat = f.session();
  EXPECT_EQ(chat.save("/nowhere/x", {.with_kv = true}).code(), ErrorCode::kUnsupported);
}

TEST_F(ChatResumeTest, EveryDamagedByteIsFoundOrHarmless) {
  have_a_talk(false, true);
  const std::string good = *read_file(files, kPath, 100u << 20);
  Process process(files);
  size_t n_refused = 0, n_without_kv = 0;
  for (size_t i = 0; i < good.size(); i += i < 3000 ? 1 : 997) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << i % 8));
    ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(bad))).ok());
    Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
    if (!chat.ok()) {
      ++n_refused;
      continue;
    }
    // The conversation is whole; of its rows those in front of the damage were used, and the others are missing.
    ASSERT_EQ(chat->messages(), messages) << i;
    ASSERT_EQ(chat->ids(), ids) << i;
    ASSERT_LT(chat->kv().length(), ids.size() - 1) << "byte " << i << " of " << good.size();
    expect_rows_replay(*chat);
    ++n_without_kv;
    ASSERT_FALSE(testing::Test::HasFailure()) << i;
    process.engine->store().clear("");
  }
  EXPECT_GT(n_refused, 100u);
  EXPECT_GT(n_without_kv, 10u);
}

TEST_F(ChatResumeTest, EveryTruncatedFileIsFoundOrHarmless) {
  have_a_talk(false, true);
  const std::string good = *read_file(files, kPath, 100u << 20);
  Process process(files);
  for (size_t n = 0; n < good.size(); n += n < 200 ? 1 : 1009) {
    ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(good).first(n))).ok());
    Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
    if (!chat.ok()) continue;
    ASSERT_EQ(chat->ids(), ids);
    expect_rows_replay(*chat);
    process.engine->store().clear("");
  }
}

TEST_F(ChatResumeTest, AFileThatIsNoConversationIsRefused) {
  Process process(files);
  EXPECT_EQ(ChatSession::load(process.engine, "/s/none").status().code(), ErrorCode::kNotFound);
  const std::string text(200, 'x');
  ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(text))).ok());
  EXPECT_EQ(ChatSession::load(process.engine, kPath).status().code(), ErrorCode::kBadMagic);
}

TEST_F(ChatResumeTest, HostileFieldsAreRefusedByName) {
  const SavedSession good{.messages = {{{"role", "user"}, {"content", "x"}}, {{"role", "assistant"}, {"content", "y"}}},
                          .replies = {{1, {3, 4}, 5}}};
  // As it comes out of a file.
  const Json as_read = *parse_json(json_to_string(session_to_json(good)), "session");
  ASSERT_TRUE(session_from_json(as_read).ok()) << session_from_json(as_read).status().to_string();
  const std::vector<std::pair<const char*, Json>> bad = {
      {"messages", 7},          {"messages", {{{"content", "x"}}}},
      {"pinned", {2}},          {"pinned", {-1}},
      {"replies", {{{"message", 0}, {"ids", {1}}}}},
      {"replies", {{{"message", 9}, {"ids", {1}}}}},
      {"replies", {{{"message", 1}, {"ids", {-1}}}}},
      {"replies", {{{"message", 1}, {"ids", {4'000'000'000u}}}}},
      {"replies", {{{"message", 1}, {"ids", "x"}}}},
      {"when_full", "explode"}, {"variables", "x"},
      {"usage", {{"n_prompt", -1}}},
      {"n_ids", -1},
  };
  for (const auto& [field, value] : bad) {
    Json json = as_read;
    json[field] = *parse_json(json_to_string(value), field);
    const Result<SavedSession> session = session_from_json(json);
    EXPECT_EQ(session.status().code(), ErrorCode::kBadHeader) << field << " " << value;
  }
  for (const auto& [field, value] : as_read.items()) {
    Json json = as_read;
    json.erase(field);
    EXPECT_EQ(session_from_json(json).ok(), field == "repair_when_idle" || field == "n_ids") << field;
  }
}

TEST_F(ChatResumeTest, WhatAFileSaysIsReadWithoutAModelAndWithoutItsKeysAndValues) {
  have_a_talk(false, true);
  const Result<SavedSession> saved = read_saved_session(files, kPath);
  ASSERT_TRUE(saved.ok()) << saved.status().to_string();
  EXPECT_EQ(json_to_string(saved->messages), json_to_string(messages));
  EXPECT_EQ(saved->n_ids, ids.size());
  EXPECT_EQ(saved->pinned, std::set<size_t>{1});
  EXPECT_EQ(read_saved_session(files, "/s/none").status().code(), ErrorCode::kNotFound);
}

TEST_F(ChatResumeTest, IdsThatTheModelDoesNotHaveAreRefused) {
  have_a_talk(false, false);
  SavedSession saved = read_session_file(files, kPath, Process(files).engine->pool(), nullptr)->session;
  saved.replies[0].ids[0] = 1'000'000;
  ASSERT_TRUE(write_session_file(files, kPath, saved, nullptr, {}).ok());
  Process process(files);
  EXPECT_EQ(ChatSession::load(process.engine, kPath).status().code(), ErrorCode::kMismatch);
}

TEST_F(ChatResumeTest, ASaveThatFailsLeavesTheOldFile) {
  have_a_talk(false, true);
  const std::string old = *read_file(files, kPath, 100u << 20);
  FaultyFileOps faulty(files);
  Process process(faulty);
  ChatSession chat = *ChatSession::load(process.engine, kPath);
  must(chat.send("and", greedy()));
  const int before = faulty.calls();
  ASSERT_TRUE(chat.save("/s/other.ibid", {.with_kv = true}).ok());
  const int n_calls = faulty.calls() - before;
  ASSERT_GT(n_calls, 5);
  for (int i = 0; i < n_calls - 1; ++i) {  // the last one makes a rename durable that is done
    faulty.fail_call(i, ENOSPC);
    EXPECT_EQ(chat.save(kPath, {.with_kv = true}).code(), ErrorCode::kIo) << i;
    faulty.recover();
    EXPECT_EQ(*read_file(files, kPath, 100u << 20), old) << i;
  }
  EXPECT_TRUE(chat.save(kPath, {.with_kv = true}).ok());
  EXPECT_NE(*read_file(files, kPath, 100u << 20), old);
}

TEST_F(ChatResumeTest, ADirectoryInUseIsNoReasonToFail) {
  Process first(files, true);
  Process second(files, true);
  EXPECT_NE(first.engine->tier(), nullptr);
  EXPECT_EQ(second.engine->tier(), nullptr);
  EXPECT_EQ(second.engine->tier_status().code(), ErrorCode::kBusy);
  ChatSession chat = second.session();
  must(chat.send("x", greedy()));
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
