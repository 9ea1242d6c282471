// Conversations across processes: session files and the cache directory. The next process is a new engine on the same
// files; the tokens fed to its model show what was prefilled again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "runtime/session/session_file.h"
#include "tests/runtime/resume_fixture.h"

namespace ibid {
namespace {

TEST_F(ChatResumeTest, FileWithKeysAndValuesResumesWithoutPrefill) {
  have_a_talk(false, true);
  Process process(files);
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  EXPECT_EQ(chat->ids(), ids);
  EXPECT_EQ(chat->state().messages(), messages);
  EXPECT_EQ(chat->state().transcript().bytes(), bytes);
  EXPECT_EQ(chat->state().kv().length(), ids.size() - 1);
  EXPECT_EQ(process.model->take_fed(), Tokens());
  expect_replays(*chat);
  must(chat->send("and", greedy()));
  EXPECT_EQ(process.model->take_fed(), third_turn(process));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, LoadFindsKeysAndValuesInCacheDirectory) {
  have_a_talk(true, false);
  Process process(files, true);
  ASSERT_NE(process.engine->state().tier(), nullptr) << process.engine->state().tier_status().to_string();
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->state().kv().length(), ids.size() - 1);
  expect_replays(*chat);
  must(chat->send("and", greedy()));
  EXPECT_EQ(process.model->take_fed(), third_turn(process));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, NewSessionFindsSystemMessageOnDisk) {
  have_a_talk(true, false);
  Process process(files, true);
  ChatSession chat = process.session({.system = kSystem});
  const Turn turn = must(chat.send("Hello", greedy()));
  EXPECT_EQ(turn.usage.n_cached,
            process.ids("<|im_start|>system\n" + kSystem + "<|im_end|>\n<|im_start|>user\n").size());
  expect_replays(chat);
  ChatSession stranger = process.session({.system = kSystem, .cache_namespace = "another"});
  EXPECT_EQ(must(stranger.send("Hello", greedy())).usage.n_cached, 0u);
}

TEST_F(ChatResumeTest, FileWithoutKeysAndValuesIsPrefilledAgainExactly) {
  have_a_talk(false, false);
  Process process(files);
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->ids(), ids) << "answers keep their sampled tokens";
  EXPECT_EQ(chat->state().kv().length(), 0u);
  must(chat->send("and", greedy()));
  EXPECT_EQ(chat->state().messages().back()["content"], "theing");
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, LoadRestoresHistoryThatTheTemplateRewrites) {
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
  EXPECT_EQ(resumed->state().kv().length(), chat.state().kv().length());
  expect_replays(*resumed);
}

TEST_F(ChatResumeTest, AnotherModelsKeysAndValuesAreNotUsed) {
  have_a_talk(true, true);
  Process process(files, true, "two");
  Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->state().kv().length(), 0u);
  EXPECT_EQ(process.engine->state().tier()->stats().tokens_read, 0u);
  must(chat->send("and", greedy()));
  expect_replays(*chat);
}

TEST_F(ChatResumeTest, LoadWarningsStateWhyKeysAndValuesAreNotUsed) {
  have_a_talk(false, true);
  const auto rows_lost = [&](Process& process, const LoadOptions& options = {}) {
    const Result<ChatSession> chat = ChatSession::load(process.engine, kPath, options);
    EXPECT_TRUE(chat.ok());
    EXPECT_EQ(chat->load_warnings().any(), !chat->load_warnings().rows.ok());
    return chat->load_warnings();
  };
  Process same(files), another(files, false, "two");
  EXPECT_TRUE(rows_lost(same).rows.ok());
  EXPECT_EQ(rows_lost(another).rows.code(), ErrorCode::kMismatch);
  EXPECT_EQ(rows_lost(same, {.cache_namespace = "another"}).rows.code(), ErrorCode::kMismatch);
  EXPECT_THAT(rows_lost(another).to_string(), testing::StartsWith("keys and values ("));
  EngineParts parts;
  parts.files = &files;
  const ChatFixture unknown(kChatMl, {}, 64u << 20, std::move(parts));
  const Result<ChatSession> chat = ChatSession::load(unknown.engine, kPath);
  ASSERT_TRUE(chat.ok());
  EXPECT_EQ(chat->load_warnings().rows.code(), ErrorCode::kUnsupported);

  std::string damaged = *read_file(files, kPath, 100u << 20);
  damaged[damaged.size() - 1000] ^= 1;
  ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(damaged))).ok());
  EXPECT_EQ(rows_lost(same).rows.code(), ErrorCode::kCorrupt);
  have_a_talk(false, false);
  EXPECT_TRUE(rows_lost(same).rows.ok()) << "a file without keys and values has no losses";
}

TEST_F(ChatResumeTest, SaveReportCountsSavedRows) {
  Process process(files);
  ChatSession chat = process.session({.system = kSystem});
  must(chat.send("Hello", greedy()));
  SaveReport report;
  ASSERT_TRUE(chat.save(kPath, {.with_kv = true}, &report).ok());
  EXPECT_EQ(report.n_with_kv, chat.state().kv().length());
  EXPECT_GT(report.n_with_kv, 0u);
  report = {};
  ASSERT_TRUE(chat.save(kPath, {}, &report).ok());
  EXPECT_EQ(report.n_with_kv, 0u);
}

TEST_F(ChatResumeTest, SavedSessionIsReadWithoutModel) {
  have_a_talk(false, true);
  const Result<SavedSession> saved = read_saved_session(files, kPath);
  ASSERT_TRUE(saved.ok()) << saved.status().to_string();
  EXPECT_EQ(json_to_string(saved->messages), json_to_string(messages));
  EXPECT_EQ(saved->n_tokens, ids.size());
  EXPECT_EQ(saved->pinned, std::set<size_t>{1});
  EXPECT_EQ(read_saved_session(files, "/s/none").status().code(), ErrorCode::kNotFound);
}

// Both answers have other tokens than tokenizing their text gives.

TEST_F(ChatResumeTest, TemplateErrorInReplayKeepsMessages) {
  have_a_talk(false, false);
  Process process(files, false, "one",
                  "{% if messages|length < 3 %}{{ raise_exception('too few') }}{% endif %}"
                  "{% for message in messages %}{{ message['content'] }}{% endfor %}");
  const Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  EXPECT_EQ(chat->state().messages(), messages);
  EXPECT_EQ(chat->load_warnings().n_replies, 2u);
}

// A template that does not render notes.
constexpr const char* kHidesNotes =
    "{% for message in messages %}{% if message['role'] != 'note' %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST_F(ChatResumeTest, TokensOfAnswersStayWithTheirMessagesWhenHiddenMessagesChange) {
  Process before(files, false, "one", kHidesNotes);
  ChatSession chat = before.session();
  const Json note = {{"role", "note"}, {"content", "n"}};
  const auto expect_comes_back = [&](const char* when) {
    ASSERT_TRUE(chat.save(kPath).ok()) << when;
    Process after(files, false, "one", kHidesNotes);
    Result<ChatSession> loaded = ChatSession::load(after.engine, kPath);
    ASSERT_TRUE(loaded.ok()) << when << ": " << loaded.status().to_string();
    EXPECT_FALSE(loaded->load_warnings().any()) << when;
    EXPECT_EQ(loaded->ids(), chat.ids()) << when;
    EXPECT_EQ(loaded->state().messages(), chat.state().messages()) << when;
  };
  must(chat.send("x", greedy()));
  ASSERT_TRUE(chat.state().append(note).ok());
  ASSERT_TRUE(chat.state().append(note).ok());
  must(chat.send("y", greedy()));
  expect_comes_back("with notes");
  const Json noted = chat.state().messages();
  Json plain = Json::array();
  for (const Json& message : noted) {
    if (message["role"] != "note") plain.push_back(message);
  }
  plain.push_back({{"role", "user"}, {"content", "z"}});
  ASSERT_TRUE(chat.state().set_history(plain).ok());
  must(chat.answer(greedy()));
  expect_comes_back("without notes");
  Json more = Json::array({note, note, note});
  for (const Json& message : chat.state().messages()) more.push_back(message), more.push_back(note);
  more.push_back({{"role", "user"}, {"content", "again"}});
  const size_t n_before = chat.ids().size();
  ASSERT_TRUE(chat.state().set_history(more).ok());
  const Turn turn = must(chat.answer(greedy()));
  EXPECT_GE(turn.usage.n_cached + 1, n_before) << "the rendered messages have not changed";
  expect_comes_back("with more notes");
  expect_replays(chat);
}

TEST_F(ChatResumeTest, TokensOfRemovedAnswerAreNotSavedForAnEqualMessage) {
  Process before(files);
  ChatSession chat = before.session();
  must(chat.send("x", greedy()));
  must(chat.send("y", greedy()));
  ASSERT_TRUE(chat.rewind_to(2).ok());
  ASSERT_TRUE(chat.state().append({{"role", "user"}, {"content", "other"}}).ok());
  ASSERT_TRUE(chat.state().append({{"role", "assistant"}, {"content", "Hellolo"}}).ok());  // as sampled for "y"
  ASSERT_TRUE(chat.save(kPath).ok());
  const Result<SavedSession> saved = read_saved_session(files, kPath);
  ASSERT_TRUE(saved.ok());
  ASSERT_EQ(saved->replies.size(), 1u);
  EXPECT_EQ(saved->replies[0].message, 1u);
}

TEST_F(ChatResumeTest, LoadRestoresAnswerWithoutText) {
  for (const bool ends : {false, true}) {
    Process before(files);
    const TokenId tool = *before.tokenizer->find_token("<|tool|>");
    before.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
      return prefix.back() == tool ? before.tokenizer->im_end : tool;
    };
    ChatSession chat = before.session();
    must(chat.send("x", greedy(ends ? 5 : 1)));
    must(chat.regenerate(greedy(ends ? 5 : 1)));
    ASSERT_TRUE(chat.save(kPath).ok());
    Process after(files);
    Result<ChatSession> loaded = ChatSession::load(after.engine, kPath);
    ASSERT_TRUE(loaded.ok());
    EXPECT_EQ(loaded->ids(), chat.ids());
    must(loaded->send("y", greedy()));
    expect_replays(*loaded);
  }
}

TEST_F(ChatResumeTest, CacheDirectoryInUseIsNotAnError) {
  Process first(files, true);
  Process second(files, true);
  EXPECT_NE(first.engine->state().tier(), nullptr);
  EXPECT_EQ(second.engine->state().tier(), nullptr);
  EXPECT_EQ(second.engine->state().tier_status().code(), ErrorCode::kBusy);
  ChatSession chat = second.session();
  must(chat.send("x", greedy()));
  expect_replays(chat);
}

}  // namespace
}  // namespace ibid
