// Damaged, truncated and hostile session files: sound parts are used, and losses are reported.
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "runtime/session/session_file.h"
#include "tests/runtime/resume_fixture.h"

namespace ibid {
namespace {

// As read from a file.
Result<Json> session_from_text_as_json(const SavedSession& session) {
  return parse_json(json_to_string(session_to_json(session)), "session");
}

TEST_F(ChatResumeTest, NamespaceFieldOfOlderFilesIsIgnored) {
  Json json = *session_from_text_as_json(SavedSession{.messages = {{{"role", "user"}, {"content", "x"}}}});
  EXPECT_FALSE(json.contains("cache_namespace"));
  for (const Json& value : {Json("alice"), Json(7)}) {
    json["cache_namespace"] = value;
    const Result<SavedSession> session = session_from_json(json);
    ASSERT_TRUE(session.ok());
    EXPECT_FALSE(session->load_warnings.any());
  }
}

TEST_F(ChatResumeTest, DamagedBytesAreDetectedOrHarmless) {
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
    // The conversation is complete; the rows before the damage are used, later ones are missing.
    ASSERT_EQ(chat->state().messages(), messages) << i;
    ASSERT_EQ(chat->ids(), ids) << i;
    ASSERT_LT(chat->state().kv().length(), ids.size() - 1) << "byte " << i << " of " << good.size();
    expect_rows_replay(*chat);
    ++n_without_kv;
    ASSERT_FALSE(testing::Test::HasFailure()) << i;
    process.engine->state().store().clear("");
  }
  EXPECT_GT(n_refused, 100u);
  EXPECT_GT(n_without_kv, 10u);
}

TEST_F(ChatResumeTest, TruncationIsDetectedOrHarmless) {
  have_a_talk(false, true);
  const std::string good = *read_file(files, kPath, 100u << 20);
  Process process(files);
  for (size_t n = 0; n < good.size(); n += n < 200 ? 1 : 1009) {
    ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(good).first(n))).ok());
    Result<ChatSession> chat = ChatSession::load(process.engine, kPath);
    if (!chat.ok()) continue;
    ASSERT_EQ(chat->ids(), ids);
    expect_rows_replay(*chat);
    process.engine->state().store().clear("");
  }
}

TEST_F(ChatResumeTest, FileThatIsNotAConversationIsRejected) {
  Process process(files);
  EXPECT_EQ(ChatSession::load(process.engine, "/s/none").status().code(), ErrorCode::kNotFound);
  const std::string text(200, 'x');
  ASSERT_TRUE(write_file_atomically(files, kPath, std::as_bytes(std::span(text))).ok());
  EXPECT_EQ(ChatSession::load(process.engine, kPath).status().code(), ErrorCode::kBadMagic);
}

TEST_F(ChatResumeTest, InvalidMessagesFieldIsRejected) {
  const SavedSession good{.messages = {{{"role", "user"}, {"content", "x"}}, {{"role", "assistant"}, {"content", "y"}}},
                          .replies = {{1, {3, 4}, 5}}};
  // As read from a file.
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

TEST_F(ChatResumeTest, LoadSkipsDamagedPartsAndReportsThem) {
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
  ASSERT_FALSE(session_from_json(as_read)->load_warnings.any());
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
    EXPECT_EQ(session->load_warnings.to_string(), lost);
    EXPECT_EQ(session->messages, six);
    EXPECT_EQ(session->pinned.size(), std::string(field) == "pinned" ? 0u : 1u);
    EXPECT_EQ(session->replies.size(), std::string(field) == "replies" ? 0u : 3u);
  }
  const std::vector<Json> bad_replies = {
      {{"message", 0}, {"ids", {1}}},
      {{"message", 9}, {"ids", {1}}},
      {{"message", 3}, {"ids", {-1}}},
      {{"message", 3}, {"ids", {4'000'000'000u}}},
      {{"message", 3}, {"ids", "x"}},
      {{"message", 3}},
      {{"ids", {1}}},
      {{"message", 3}, {"ids", {1}}, {"end_of_turn", "x"}},
      "x",
  };
  for (const Json& bad : bad_replies) {
    Json json = as_read;
    json["replies"][1] = *parse_json(json_to_string(bad), "reply");
    const Result<SavedSession> session = session_from_json(json);
    ASSERT_TRUE(session.ok()) << bad;
    EXPECT_EQ(session->replies.size(), 1u) << "replies after a damaged one are dropped: " << bad;
    EXPECT_EQ(session->load_warnings.n_replies, 2u);
  }
  Json twice = as_read;  // of one message: the first answer was discarded
  twice["replies"][0]["message"] = 3u;
  const SavedSession session = *session_from_json(twice);
  ASSERT_EQ(session.replies.size(), 2u);
  EXPECT_EQ(session.replies[0].ids, Tokens{6});
  EXPECT_FALSE(session.load_warnings.any());
}

TEST_F(ChatResumeTest, MissingFieldIsReportedUnlessOlderFormatsLackTheField) {
  const Json as_read = *session_from_text_as_json(SavedSession{});
  for (const auto& [field, value] : as_read.items()) {
    Json json = as_read;
    json.erase(field);
    const Result<SavedSession> session = session_from_json(json);
    const bool needed = field == "messages";
    const bool newer = field == "repair_when_idle" || field == "numerics_version" || field == "n_ids";
    ASSERT_EQ(session.ok(), !needed) << field;
    if (!needed) {
      EXPECT_EQ(session->load_warnings.to_string(), newer ? "" : field);
    }
  }
}

TEST_F(ChatResumeTest, AnswersAfterADamagedOneKeepOnlyTheirText) {
  have_a_talk(false, false);
  const SavedSession good = *read_saved_session(files, kPath);
  ASSERT_EQ(good.replies.size(), 2u);
  ASSERT_FALSE(good.load_warnings.any());
  const auto n_sampled_ids = [](const ChatSession& chat) {
    size_t n = 0;
    for (const TranscriptSpan& span : chat.state().transcript().spans()) {
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
      EXPECT_EQ(chat->state().messages(), messages) << "all messages are loaded";
      EXPECT_EQ(chat->load_warnings().n_replies, 2 - unsound);
      EXPECT_EQ(chat->load_warnings().to_string(), unsound == 0 ? "the tokens of 2 answers" : "the tokens of 1 answer");
      must(chat->send("and", greedy()));
      EXPECT_EQ(chat->state().transcript().bytes().substr(0, bytes.size()), bytes);
      EXPECT_EQ(n_sampled_ids(*chat), 2 * unsound + 2) << "of the sound answers and the new one";
      expect_replays(*chat);
    }
  }
}

}  // namespace
}  // namespace ibid
