// Conversations that outlive the process: session files and the cache directory. The next process is a new engine on
// the same files; what it feeds to its model is what was really read again.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "cache/tier/file_tier.h"
#include "runtime/session/message_checks.h"
#include "runtime/session/session_file.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/faulty_file_ops.h"
#include "tests/support/memory_file_ops.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

const std::string kPath = "/s/talk.ibid";
const std::string kSystem = "be " + std::string(200, 'z');

// As it comes out of a file.
Result<Json> session_from_text_as_json(const SavedSession& session) {
  return parse_json(json_to_string(session_to_json(session)), "session");
}

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

TEST_F(ChatResumeTest, WhyKeysAndValuesOfAFileAreNotUsedIsTold) {
  have_a_talk(false, true);
  const auto rows_lost = [&](Process& process, const LoadOptions& options = {}) {
    const Result<ChatSession> chat = ChatSession::load(process.engine, kPath, options);
    EXPECT_TRUE(chat.ok());
    EXPECT_EQ(chat->losses().any(), !chat->losses().rows.ok());
    return chat->losses();
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
  EXPECT_EQ(chat->losses().rows.code(), ErrorCode::kUnsupported);

  std::string damaged = *read_file(files, kPath, 100u << 20);
  damaged[damaged.size() - 1000] ^= 1;
  ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(damaged))).ok());
  EXPECT_EQ(rows_lost(same).rows.code(), ErrorCode::kCorrupt);
  have_a_talk(false, false);
  EXPECT_TRUE(rows_lost(same).rows.ok()) << "a file without any has lost none";
}

TEST_F(ChatResumeTest, HowManyKeysAndValuesWereSavedIsTold) {
  Process process(files);
  ChatSession chat = process.session({.system = kSystem});
  must(chat.send("Hello", greedy()));
  SaveReport report;
  ASSERT_TRUE(chat.save(kPath, {.with_kv = true}, &report).ok());
  EXPECT_EQ(report.n_with_rows, chat.kv().length());
  EXPECT_GT(report.n_with_rows, 0u);
  report = {};
  ASSERT_TRUE(chat.save(kPath, {}, &report).ok());
  EXPECT_EQ(report.n_with_rows, 0u);
}

TEST_F(ChatResumeTest, AnOlderFileNamesANamespaceWhichNobodyAsks) {
  Json json = *session_from_text_as_json(SavedSession{.messages = {{{"role", "user"}, {"content", "x"}}}});
  EXPECT_FALSE(json.contains("cache_namespace"));
  for (const Json& value : {Json("alice"), Json(7)}) {
    json["cache_namespace"] = value;
    const Result<SavedSession> session = session_from_json(json);
    ASSERT_TRUE(session.ok());
    EXPECT_FALSE(session->losses.any());
  }
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
      {"messages", 7},
      {"messages", {{{"content", "x"}}}},
  };
  for (const auto& [field, value] : bad) {
    Json json = as_read;
    json[field] = *parse_json(json_to_string(value), field);
    const Result<SavedSession> session = session_from_json(json);
    EXPECT_EQ(session.status().code(), ErrorCode::kBadHeader) << field << " " << value;
  }
}

TEST_F(ChatResumeTest, OfWhatIsNotSoundTheRestIsTakenAndTheLossTold) {
  Json six = Json::array();
  for (const char* role : {"user", "assistant", "user", "assistant", "user", "assistant"}) {
    six.push_back({{"role", role}, {"content", "y"}});
  }
  const SavedSession good{.when_full = WhenFull::kDropOldestTurns,
                          .messages = six,
                          .pinned = {1},
                          .replies = {{1, {3, 4}, 5}, {3, {6}, {}}, {5, {7}, 5}},
                          .usage = {.n_prompt = 9}};
  const Json as_read = *session_from_text_as_json(good);
  ASSERT_FALSE(session_from_json(as_read)->losses.any());
  const std::vector<std::tuple<const char*, Json, std::string>> unsound = {
      {"pinned", {6}, "pinned"},
      {"pinned", {-1}, "pinned"},
      {"replies", 7, "replies"},
      {"when_full", "explode", "when_full"},
      {"variables", "x", "variables"},
      {"usage", {{"n_prompt", -1}}, "usage"},
      {"now", 7, "now"},
      {"model", nullptr, "model"},
      {"repair_when_idle", "no", "repair_when_idle"},
      {"n_ids", -1, "n_ids"},
  };
  for (const auto& [field, value, lost] : unsound) {
    Json json = as_read;
    json[field] = *parse_json(json_to_string(value), field);
    const Result<SavedSession> session = session_from_json(json);
    ASSERT_TRUE(session.ok()) << field;
    EXPECT_EQ(session->losses.to_string(), lost);
    EXPECT_EQ(session->messages, six);
    EXPECT_EQ(session->pinned.size(), std::string(field) == "pinned" ? 0u : 1u);
    EXPECT_EQ(session->replies.size(), std::string(field) == "replies" ? 0u : 3u);
  }
  const std::vector<Json> bad_replies = {
      {{"message", 0}, {"ids", {1}}},  {{"message", 9}, {"ids", {1}}},
      {{"message", 3}, {"ids", {-1}}}, {{"message", 3}, {"ids", {4'000'000'000u}}},
      {{"message", 3}, {"ids", "x"}},  {{"message", 3}},
      {{"ids", {1}}},                  {{"message", 3}, {"ids", {1}}, {"end_of_turn", "x"}},
      "x",
  };
  for (const Json& bad : bad_replies) {
    Json json = as_read;
    json["replies"][1] = *parse_json(json_to_string(bad), "reply");
    const Result<SavedSession> session = session_from_json(json);
    ASSERT_TRUE(session.ok()) << bad;
    EXPECT_EQ(session->replies.size(), 1u) << "behind it nothing is certain: " << bad;
    EXPECT_EQ(session->losses.n_replies, 2u);
  }
  Json twice = as_read;  // of one message: the first one's answer was thrown away
  twice["replies"][0]["message"] = 3u;
  const SavedSession session = *session_from_json(twice);
  ASSERT_EQ(session.replies.size(), 2u);
  EXPECT_EQ(session.replies[0].ids, Tokens{6});
  EXPECT_FALSE(session.losses.any());
}

TEST_F(ChatResumeTest, AFieldThatIsNotThereIsToldUnlessOlderFilesDoNotHaveIt) {
  const Json as_read = *session_from_text_as_json(SavedSession{});
  for (const auto& [field, value] : as_read.items()) {
    Json json = as_read;
    json.erase(field);
    const Result<SavedSession> session = session_from_json(json);
    const bool needed = field == "messages";
    const bool newer = field == "repair_when_idle" || field == "n_ids";
    ASSERT_EQ(session.ok(), !needed) << field;
    if (!needed) {
      EXPECT_EQ(session->losses.to_string(), newer ? "" : field);
    }
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

// Both answers have other ids than their text would be encoded as.
TEST_F(ChatResumeTest, AnswersFromTheFirstUnsoundOneOnAreText) {
  have_a_talk(false, false);
  const SavedSession good = *read_saved_session(files, kPath);
  ASSERT_EQ(good.replies.size(), 2u);
  ASSERT_FALSE(good.losses.any());
  const auto n_sampled_ids = [](const ChatSession& chat) {
    size_t n = 0;
    for (const TranscriptSpan& span : chat.transcript().spans()) {
      if (span.origin == SpanOrigin::kSampled) n += span.token_ends.size();
    }
    return n;
  };
  for (const size_t unsound : {0u, 1u}) {
    for (const bool end_of_turn : {false, true}) {
      SavedSession saved = good;
      if (end_of_turn) saved.replies[unsound].end_of_turn = 1'000'000;
      if (!end_of_turn) saved.replies[unsound].ids[0] = 1'000'000;
      ASSERT_TRUE(write_session_file(files, kPath, saved, nullptr, {}).ok());
      Process process(files);
      Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
      ASSERT_TRUE(chat.ok()) << chat.status().to_string();
      EXPECT_EQ(chat->messages(), messages) << "all of them, always";
      EXPECT_EQ(chat->losses().n_replies, 2 - unsound);
      EXPECT_EQ(chat->losses().to_string(), unsound == 0 ? "the ids of 2 answers" : "the ids of 1 answer");
      must(chat->send("and", greedy()));
      EXPECT_EQ(chat->transcript().bytes().substr(0, bytes.size()), bytes);
      EXPECT_EQ(n_sampled_ids(*chat), 2 * unsound + 2) << "the sound ones, and the new answer";
      expect_replays(*chat);
    }
  }
}

TEST_F(ChatResumeTest, ATemplateThatRefusesAnEarlierPromptLeavesTheMessages) {
  have_a_talk(false, false);
  Process process(files, false, "one",
                  "{% if messages|length < 3 %}{{ raise_exception('too few') }}{% endif %}"
                  "{% for message in messages %}{{ message['content'] }}{% endfor %}");
  const Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(chat.ok()) << chat.status().to_string();
  EXPECT_EQ(chat->messages(), messages);
  EXPECT_EQ(chat->losses().n_replies, 2u);
}

// A template that does not show notes.
constexpr const char* kHidesNotes =
    "{% for message in messages %}{% if message['role'] != 'note' %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

TEST_F(ChatResumeTest, RepliesBelongToTheirMessagesWhenHiddenOnesComeAndGo) {
  Process before(files, false, "one", kHidesNotes);
  ChatSession chat = before.session();
  const Json note = {{"role", "note"}, {"content", "n"}};
  const auto expect_comes_back = [&](const char* when) {
    ASSERT_TRUE(chat.save(kPath).ok()) << when;
    Process after(files, false, "one", kHidesNotes);
    Result<ChatSession> loaded = ChatSession::load(after.engine, kPath);
    ASSERT_TRUE(loaded.ok()) << when << ": " << loaded.status().to_string();
    EXPECT_FALSE(loaded->losses().any()) << when;
    EXPECT_EQ(loaded->ids(), chat.ids()) << when;
    EXPECT_EQ(loaded->messages(), chat.messages()) << when;
  };
  must(chat.send("x", greedy()));
  ASSERT_TRUE(chat.append(note).ok());
  ASSERT_TRUE(chat.append(note).ok());
  must(chat.send("y", greedy()));
  expect_comes_back("with notes");
  const Json noted = chat.messages();
  Json plain = Json::array();
  for (const Json& message : noted) {
    if (message["role"] != "note") plain.push_back(message);
  }
  plain.push_back({{"role", "user"}, {"content", "z"}});
  ASSERT_TRUE(chat.set_history(plain).ok());
  must(chat.answer(greedy()));
  expect_comes_back("without them");
  Json more = Json::array({note, note, note});
  for (const Json& message : chat.messages()) more.push_back(message), more.push_back(note);
  more.push_back({{"role", "user"}, {"content", "again"}});
  const size_t n_before = chat.ids().size();
  ASSERT_TRUE(chat.set_history(more).ok());
  const Turn turn = must(chat.answer(greedy()));
  EXPECT_GE(turn.usage.n_cached + 1, n_before) << "nothing that is shown has changed";
  expect_comes_back("with more of them");
  expect_replays(chat);
}

TEST_F(ChatResumeTest, AReplyOfMessagesThatAreGoneIsNotSavedAsAnothers) {
  Process before(files);
  ChatSession chat = before.session();
  must(chat.send("x", greedy()));
  must(chat.send("y", greedy()));
  ASSERT_TRUE(chat.rewind_to(2).ok());
  ASSERT_TRUE(chat.append({{"role", "user"}, {"content", "other"}}).ok());
  ASSERT_TRUE(chat.append({{"role", "assistant"}, {"content", "Hellolo"}}).ok());  // as what was sampled to "y"
  ASSERT_TRUE(chat.save(kPath).ok());
  const Result<SavedSession> saved = read_saved_session(files, kPath);
  ASSERT_TRUE(saved.ok());
  ASSERT_EQ(saved->replies.size(), 1u);
  EXPECT_EQ(saved->replies[0].message, 1u);
}

TEST_F(ChatResumeTest, AnAnswerWithoutTextComesBack) {
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

TEST_F(ChatResumeTest, WhatAFileCannotCarryIsNotSavedAndNamed) {
  ASSERT_TRUE(files.make_directory("/t").ok());
  Process process(files);
  Json deep = Json::array();
  for (size_t i = 0; i < kMaxJsonDepth; ++i) {
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  const std::vector<std::tuple<Json, ErrorCode, const char*>> odd = {
      {std::nan(""), ErrorCode::kInvalidArgument, "messages[1].extra holds a number that is not finite"},
      {-INFINITY, ErrorCode::kInvalidArgument, "messages[1].extra holds a number that is not finite"},
      {Json::binary({1, 2, 255}), ErrorCode::kInvalidArgument, "messages[1].extra holds a value that JSON does not"},
      {{{"a", {1, INFINITY}}}, ErrorCode::kInvalidArgument, "messages[1].extra.a[1] holds"},
      {deep, ErrorCode::kLimitExceeded, "messages[1].extra[0][0][0]"},
  };
  for (const auto& [value, code, words] : odd) {
    ChatSession chat = process.session();
    Json message = {{"role", "user"}, {"content", "x"}};
    ASSERT_TRUE(chat.append(message).ok());
    message["extra"] = value;
    ASSERT_TRUE(chat.append(std::move(message)).ok());
    const Status saved = chat.save("/t/talk");
    EXPECT_EQ(saved.code(), code) << words;
    EXPECT_THAT(saved.message(), testing::HasSubstr(words));
    EXPECT_LT(saved.message().size(), 300u);
    EXPECT_THAT(*files.list("/t"), testing::IsEmpty());
  }
  ChatSession alice = process.session({.cache_namespace = "\xff"});
  EXPECT_TRUE(alice.save("/t/talk").ok()) << "whose it is the file does not say";
}

TEST_F(ChatResumeTest, WhatAFileCanCarryComesBackEqual) {
  Process process(files);
  Json deep = Json::array();
  for (size_t i = 0; i + 4 < kMaxJsonDepth; ++i) {  // in an array, in the message, in the messages, in the file
    Json outer = Json::array();
    outer.push_back(std::move(deep));
    deep = std::move(outer);
  }
  ChatSession chat = process.session();
  for (const Json& value : {Json(nullptr), Json(UINT64_MAX), Json(INT64_MIN), Json(-0.0), Json(1.0), Json(5e-324),
                            Json(1.7976931348623157e308), Json(0.1), Json(std::string("a\0b\n\x7f", 5)), deep}) {
    Json message = {{"role", "user"}, {"content", "x"}};
    message["extra"] = value;
    ASSERT_TRUE(chat.append(std::move(message)).ok());
  }
  ASSERT_TRUE(chat.save(kPath).ok()) << chat.save(kPath).to_string();
  const Result<ChatSession> loaded = ChatSession::load(process.engine, kPath);
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_TRUE(is_same_json(loaded->messages(), chat.messages()));
}

TEST_F(ChatResumeTest, TwoSavesOfOneFileAtOnceBothSucceed) {
  class Interrupted : public FaultyFileOps {
   public:
    explicit Interrupted(FileOps& below) : FaultyFileOps(below) {}
    Status rename(const std::string& from, const std::string& to) override {
      if (auto first = std::exchange(before_rename, nullptr)) first();
      return FaultyFileOps::rename(from, to);
    }
    std::function<void()> before_rename;
  };
  Interrupted interrupted(files);
  Process first(interrupted), second(files);
  ChatSession a = first.session({.system = "a"}), b = second.session({.system = "b"});
  interrupted.before_rename = [&] { EXPECT_TRUE(b.save(kPath).ok()); };
  EXPECT_TRUE(a.save(kPath).ok());
  EXPECT_EQ(ChatSession::load(first.engine, kPath)->messages(), a.messages());
  EXPECT_EQ(*files.list("/s"), std::vector<std::string>{"talk.ibid"});
}

TEST(SavedFileTest, ItIsItsOwnersWhateverWasThere) {
  const TempDir dir;
  ChatFixture f;
  const std::string path = dir.file("talk.ibid");
  for (const char* name : {"talk.ibid", "talk.ibid.tmp"}) {
    dir.write(name, "");
    ASSERT_EQ(::chmod(dir.file(name).c_str(), 0666), 0);
  }
  ASSERT_TRUE(f.session().save(path).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777u, 0600u);
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
