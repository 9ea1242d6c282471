// Conversations with recurrent layers across processes: states in the cache directory and in session files. The next
// process is a new engine on the same files; FakeModel checks that every pass begins with the right state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "cache/tier/record_tier.h"
#include "runtime/session/session_rows.h"
#include "tests/cache/memory_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/idle_fakes.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

const std::string kTalkPath = "/s/talk.ibid";
const std::string kLongText(700, 'q'), kLongQuestion(700, 'w');

Fingerprint fingerprint_of_recurrent() { return FingerprintBuilder().add("model", "one").finish(); }

EngineParts recurrent_parts_on(FileOps& files, bool tier) {
  EngineParts parts;
  parts.files = &files;
  parts.fingerprint = fingerprint_of_recurrent();
  if (tier) parts.cache_directory = "/kv";
  parts.cache_directory_bytes = 64u << 20;
  return parts;
}

struct RecurrentProcess : ChatFixture {
  explicit RecurrentProcess(EngineParts parts, const char* chat_template = kChatMl)
      : ChatFixture(chat_template, {.max_seq_len = 32768, .recurrent = true}, 64u << 20, std::move(parts)) {
    say(std::vector<Tokens>(8, tokenizer->sampled({"a", "b", "lo"})));
  }
};

size_t answer_end(const Turn& turn) { return turn.usage.n_prompt + turn.usage.n_decoded - 1; }

struct RecurrentResumeTest : testing::Test {
  RecurrentResumeTest() { EXPECT_TRUE(files.make_directory("/s").ok()); }

  // Saves a session after three turns. `ends`: positions after each answer.
  void have_a_talk(bool tier, bool with_kv, const char* chat_template = kChatMl) {
    RecurrentProcess process(recurrent_parts_on(files, tier), chat_template);
    ChatSession chat = process.session({.system = kLongText});
    for (const std::string& message : {kLongQuestion, std::string("Hello"), std::string("the other")}) {
      ends.push_back(answer_end(must(chat.send(message, greedy()))));
    }
    SaveReport report;
    ASSERT_TRUE(chat.save(kTalkPath, {.with_kv = with_kv}, &report).ok());
    EXPECT_EQ(report.n_with_kv, with_kv ? ends.back() : 0u);
    ids = chat.ids();
    messages = chat.state().messages();
  }
  // The records of the file, after the conversation.
  std::vector<std::pair<size_t, KvRecordHeader>> records_of(const std::string& file) {
    std::vector<std::pair<size_t, KvRecordHeader>> records;
    uint64_t json_bytes = 0;
    std::memcpy(&json_bytes, file.data() + 16, sizeof json_bytes);
    for (size_t at = 56 + json_bytes; at < file.size(); at += records.back().second.record_bytes) {
      records.emplace_back(at, *parse_kv_record_header(std::as_bytes(std::span(file).subspan(at))));
    }
    return records;
  }
  void write(const std::string& bytes) {
    ASSERT_TRUE(write_file_atomically(files, kTalkPath, std::as_bytes(std::span(bytes))).ok());
  }

  MemoryFileOps files;
  Tokens ids;
  Json messages;
  std::vector<size_t> ends;
};

TEST_F(RecurrentResumeTest, LoadFindsStatesInCacheDirectory) {
  have_a_talk(true, false);
  RecurrentProcess process(recurrent_parts_on(files, true));
  ASSERT_NE(process.engine->state().tier(), nullptr) << process.engine->state().tier_status().to_string();
  ChatSession chat = *ChatSession::load(process.engine, kTalkPath);
  EXPECT_EQ(chat.state().kv().length(), ends[2]);
  const Turn turn = must(chat.send("x", greedy()));
  EXPECT_EQ(turn.usage.n_cached, ends[2]);
  EXPECT_EQ(turn.usage.n_prefilled, turn.usage.n_prompt - ends[2]);
  EXPECT_EQ(process.engine->state().tier()->stats().states_read, 1u);
  expect_replays(chat);
  // Another conversation finds the system message at its state.
  ChatSession other = process.session({.system = kLongText});
  const Turn first = must(other.send("and", greedy()));
  const std::string opening = "<|im_start|>system\n" + kLongText + "<|im_end|>\n<|im_start|>user\n";
  EXPECT_EQ(first.usage.n_cached, process.ids(opening).size());
  expect_replays(other);
}

TEST_F(RecurrentResumeTest, EditAfterRestartResumesAtAStateBeforeTheEdit) {
  have_a_talk(true, false);
  for (const size_t message : {5u, 3u}) {
    RecurrentProcess process(recurrent_parts_on(files, true));
    ChatSession chat = *ChatSession::load(process.engine, kTalkPath);
    const Turn turn = must(chat.edit(message, "and", greedy()));
    EXPECT_GE(turn.usage.n_cached, ends[(message - 3) / 2]) << message;
    EXPECT_GT(turn.usage.n_from_disk, 0u);
    expect_replays(chat);
  }
}

TEST_F(RecurrentResumeTest, ChatWithStrippedThinkingResumesAtTheEndOfThePrompt) {
  size_t n_prompt = 0;
  Json history;
  {
    RecurrentProcess process(recurrent_parts_on(files, true), kStripsThinking);
    process.say({process.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello"})});
    ChatSession chat = process.session({.system = kLongText});
    n_prompt = must(chat.send("Hello", greedy())).usage.n_prompt;
    history = chat.state().messages();
  }
  RecurrentProcess process(recurrent_parts_on(files, true), kStripsThinking);
  ChatSession chat = process.session();
  history.push_back({{"role", "user"}, {"content", "x"}});
  ASSERT_TRUE(chat.state().set_history(history).ok());
  const Turn turn = must(chat.answer(greedy()));
  EXPECT_EQ(turn.usage.n_cached, n_prompt);
  EXPECT_EQ(turn.usage.n_from_disk, n_prompt);
  expect_replays(chat);
}

// The file has earlier states too, as long as they take no more bytes than the rows.
TEST_F(RecurrentResumeTest, EditOfSavedSessionResumesAtAStateBeforeTheEdit) {
  have_a_talk(false, true);
  for (const size_t message : {5u, 3u, 1u}) {
    RecurrentProcess process(recurrent_parts_on(files, false));
    ChatSession chat = *ChatSession::load(process.engine, kTalkPath);
    const Turn turn = must(chat.edit(message, "and", greedy()));
    EXPECT_GE(turn.usage.n_cached, message == 1 ? kLongText.size() : ends[(message - 3) / 2]) << message;
    expect_replays(chat);
  }
}

TEST_F(RecurrentResumeTest, FileWithKeysAndValuesResumesWithoutPrefill) {
  have_a_talk(false, true);
  {
    RecurrentProcess process(recurrent_parts_on(files, false));
    Result<ChatSession> chat = ChatSession::load(process.engine, kTalkPath);
    ASSERT_TRUE(chat.ok()) << chat.status().to_string();
    EXPECT_FALSE(chat->load_warnings().any()) << chat->load_warnings().to_string();
    EXPECT_EQ(chat->ids(), ids);
    EXPECT_EQ(chat->state().kv().length(), ends[2]);
    EXPECT_EQ(process.model->take_fed(), Tokens());
    expect_replays(*chat);
    const Turn turn = must(chat->send("x", greedy()));
    EXPECT_EQ(turn.usage.n_cached, ends[2]);
    EXPECT_EQ(turn.usage.n_reprefilled, 0u);
    expect_replays(*chat);
  }
  {
    RecurrentProcess process(recurrent_parts_on(files, false));
    ChatSession chat = *ChatSession::load(process.engine, kTalkPath);
    const Turn turn = must(chat.regenerate(greedy()));
    EXPECT_EQ(turn.usage.n_prefilled, 1u) << "the last token of the prompt, for its logits";
    expect_replays(chat);
  }
  {
    RecurrentProcess process(recurrent_parts_on(files, false));
    ChatSession chat = *ChatSession::load(process.engine, kTalkPath);
    const Turn turn = must(chat.edit(5, "and then", greedy()));
    EXPECT_GE(turn.usage.n_cached, ends[1]);
    expect_replays(chat);
  }
}

TEST_F(RecurrentResumeTest, StatesInASessionFileTakeNoMoreBytesThanRows) {
  have_a_talk(false, true);
  const std::string file = *read_file(files, kTalkPath, 100u << 20);
  size_t n_pages = 0, n_states = 0;
  uint64_t page_bytes = 0, state_bytes = 0;
  for (const auto& [at, header] : records_of(file)) {
    const bool is_page = header.kind == KvRecordKind::kPage;
    ++(is_page ? n_pages : n_states);
    (is_page ? page_bytes : state_bytes) += header.record_bytes;
  }
  EXPECT_EQ(n_pages, KvLayout::pages_for(ends[2]));
  EXPECT_GT(n_states, 3u);
  EXPECT_LE(n_states, kMostSavedStates);
  EXPECT_LE(state_bytes, page_bytes);
}

TEST_F(RecurrentResumeTest, DamagedRecordsAreReportedAndNeverUsed) {
  have_a_talk(false, true);
  const std::string good = *read_file(files, kTalkPath, 100u << 20);
  RecurrentProcess process(recurrent_parts_on(files, false));
  size_t n_shorter = 0;
  for (const auto& [begin, header] : records_of(good)) {
    for (size_t i = 0; i < header.record_bytes; i += i < kKvRecordFixedBytes ? 5 : 499) {
      std::string bad = good;
      bad[begin + i] = static_cast<char>(bad[begin + i] ^ (1 << i % 8));
      write(bad);
      Result<ChatSession> chat = ChatSession::load(process.engine, kTalkPath);
      ASSERT_TRUE(chat.ok());
      ASSERT_FALSE(chat->load_warnings().rows.ok()) << "byte " << i << " of the record at " << begin;
      ASSERT_EQ(chat->ids(), ids);
      n_shorter += chat->state().kv().length() < ends[2] ? 1 : 0;
      expect_rows_replay(*chat);
      ASSERT_FALSE(HasFailure()) << i;
      process.engine->state().store().clear("");
    }
  }
  EXPECT_GT(n_shorter, 100u);
}

TEST_F(RecurrentResumeTest, TruncatedFilesAreHarmless) {
  have_a_talk(false, true);
  const std::string good = *read_file(files, kTalkPath, 100u << 20);
  RecurrentProcess process(recurrent_parts_on(files, false));
  for (size_t n = records_of(good).front().first; n < good.size(); n += 1009) {
    write(good.substr(0, n));
    Result<ChatSession> chat = ChatSession::load(process.engine, kTalkPath);
    ASSERT_TRUE(chat.ok());
    expect_rows_replay(*chat);
    ASSERT_FALSE(HasFailure()) << n;
  }
}

TEST_F(RecurrentResumeTest, StatesOfASessionFileAreUsedOnlyByItsSession) {
  have_a_talk(false, true);
  const auto history_with = [&](const char* text) {
    Json history = messages;
    history.push_back({{"role", "user"}, {"content", text}});
    return history;
  };
  {
    RecurrentProcess process(recurrent_parts_on(files, true));
    ChatSession gift = *ChatSession::load(process.engine, kTalkPath);
    EXPECT_EQ(must(gift.send("x", greedy())).usage.n_cached, ends[2]);
    ChatSession own = process.session();
    ASSERT_TRUE(own.state().set_history(history_with("x")).ok());
    EXPECT_EQ(must(own.answer(greedy())).usage.n_cached, 0u);
    expect_replays(own);
  }
  MemoryFileOps others;
  ASSERT_TRUE(others.make_directory("/s").ok());
  const std::string file = *read_file(files, kTalkPath, 100u << 20);
  ASSERT_TRUE(write_file_atomically(others, kTalkPath, std::as_bytes(std::span(file))).ok());
  {
    RecurrentProcess process(recurrent_parts_on(others, true));
    ChatSession gift = *ChatSession::load(process.engine, kTalkPath);
    must(gift.send("x", greedy()));
  }
  RecurrentProcess later(recurrent_parts_on(others, true));
  EXPECT_EQ(later.engine->state().tier()->stats().states, 0u) << "imported states are not written to disk";
  EXPECT_EQ(later.engine->state().tier()->stats().pages, 0u);
}

// --- a tier on a server

EngineParts recurrent_parts_with(const std::shared_ptr<MemoryStore>& store) {
  EngineParts parts;
  parts.open_tier = [store](KvPagePool& pool) -> Result<std::unique_ptr<KvTier>> {
    return std::unique_ptr<KvTier>(
        std::make_unique<RecordTier>(RecordTierOptions{.fingerprint = fingerprint_of_recurrent()}, store, pool,
                                     system_clock(), std::make_unique<NeverIdle>()));
  };
  return parts;
}

TEST(RecurrentTierTest, AnotherProcessFindsStatesOnServer) {
  const auto store = std::make_shared<MemoryStore>();
  const auto ask = [&] {
    RecurrentProcess process(recurrent_parts_with(store));
    ChatSession chat = process.session({.system = kLongText});
    const Turn turn = must(chat.send("Hello", greedy()));
    expect_replays(chat);
    return turn;
  };
  const Turn first = ask(), second = ask();
  EXPECT_EQ(first.usage.n_cached, 0u);
  EXPECT_EQ(second.text, first.text);
  EXPECT_EQ(second.usage.n_cached, second.usage.n_prompt - 1);
  EXPECT_EQ(second.usage.n_from_disk, second.usage.n_cached);
}

}  // namespace
}  // namespace ibid
