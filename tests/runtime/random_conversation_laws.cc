#include "tests/runtime/random_conversation_laws.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/store_invariants.h"

namespace ibid {
namespace {

bool is_reply(const TranscriptSpan& span) { return span.origin == SpanOrigin::kSampled; }

// Text of the tokens [begin, end).
std::string spelled(const ChatSession& session, const FakeTokenizer& tokenizer, size_t begin, size_t end) {
  return tokenizer.decode(TokenSpan(session.ids()).subspan(begin, end - begin));
}

}  // namespace

void expect_session_laws(const ChatSession& session, const FakeTokenizer& tokenizer, ColdModel* cold) {
  cold == nullptr ? expect_rows_replay(session) : expect_cold_bits(session, *cold, false);
  const std::string_view bytes = session.state().transcript().bytes();
  const std::vector<TranscriptSpan>& spans = session.state().transcript().spans();
  size_t byte = 0;
  for (size_t i = 0; i < spans.size(); ++i) {
    ASSERT_EQ(spans[i].byte_begin, byte) << "span " << i;
    ASSERT_LE(byte, spans[i].byte_end) << "span " << i;
    byte = spans[i].byte_end;
  }
  ASSERT_EQ(byte, bytes.size());
  // Between two replies the tokens spell the text.
  size_t text_begin = 0, ids_begin = 0;
  for (size_t i = 0; i <= spans.size(); ++i) {
    if (i < spans.size() && !is_reply(spans[i])) continue;
    const bool last = i == spans.size();
    const size_t text_end = last ? bytes.size() : spans[i].byte_begin;
    const size_t ids_end = last ? session.ids().size() : spans[i].id_begin;
    ASSERT_LE(ids_begin, ids_end);
    ASSERT_EQ(spelled(session, tokenizer, ids_begin, ids_end), bytes.substr(text_begin, text_end - text_begin))
        << "before span " << i;
    if (last) break;
    text_begin = spans[i].byte_end;
    ids_begin = spans[i].id_begin + spans[i].token_ends.size();
  }
  for (const Json& message : session.state().messages()) {
    ASSERT_TRUE(message.is_object() && message.contains("role")) << json_to_string(session.state().messages());
  }
}

void expect_turn_laws(const ChatSession& session, const Turn& turn, const RandomProcess& process,
                      const SessionOptions& options) {
  const Json& messages = session.state().messages();
  ASSERT_FALSE(messages.empty());
  ASSERT_EQ(messages.back(), (Json{{"role", "assistant"}, {"content", turn.text}}));
  Json asked = messages;
  asked.erase(asked.size() - 1);
  const Result<std::string> prompt = process.render(asked, options);
  ASSERT_TRUE(prompt.ok()) << prompt.status().to_string();
  const std::string_view bytes = session.state().transcript().bytes();
  ASSERT_TRUE(bytes.starts_with(*prompt)) << "transcript:\n" << bytes << "\nwhole render:\n" << *prompt;
  const std::string_view answer = bytes.substr(prompt->size());
  if (turn.finish_reason == FinishReason::kStopString) {
    // A token that overlaps the stop string is dropped, but its text before the stop string is shown.
    ASSERT_TRUE(turn.text.starts_with(answer)) << answer << " is not the beginning of " << turn.text;
  } else {
    ASSERT_TRUE(answer.starts_with(turn.text)) << answer << " does not begin with " << turn.text;
    // After the answer there is only the token that ended it.
    const std::string_view end = answer.substr(turn.text.size());
    ASSERT_TRUE(end.empty() || end == "<|im_end|>" || end == "<|endoftext|>") << end;
  }
  expect_usage_laws(turn);
}

void expect_usage_laws(const Turn& turn) {
  constexpr size_t kMost = size_t{1} << 40;  // far more than a test computes
  for (const auto& each : kUsageFields) ASSERT_LT(turn.usage.*each.field, kMost) << each.name;
  for (const auto& each : kWorkFields) ASSERT_LT(turn.work.*each.field, kMost) << each.name;
  ASSERT_EQ(turn.usage.n_prompt, turn.usage.n_cached + turn.usage.n_prefilled);
  ASSERT_LE(turn.usage.n_from_disk, turn.usage.n_cached);
  ASSERT_LE(turn.usage.n_reprefilled, turn.usage.n_prefilled);
  ASSERT_LE(turn.usage.n_accepted, turn.usage.n_drafted);
}

std::string pieces_of(TokenSpan ids, const FakeTokenizer& tokenizer) {
  std::string pieces;
  for (const TokenId id : ids) pieces += "[" + std::string(tokenizer.token_bytes(id)) + "]";
  return pieces;
}

void expect_engine_laws(Engine& engine) {
  EXPECT_THAT(validate_store(engine.state().store().snapshot()), testing::IsEmpty());
  EXPECT_LE(engine.state().pool().bytes_in_use(), engine.state().pool().budget_bytes());
}

SessionFace::SessionFace(const ChatSession& session)
    : messages(json_to_string(session.state().messages())),
      bytes(session.state().transcript().bytes()),
      ids(session.ids()),
      n_prompt(session.usage().n_prompt),
      n_decoded(session.usage().n_decoded) {}

void PrintTo(const SessionFace& face, std::ostream* out) {
  *out << face.messages << "\n"
       << face.bytes << "\n"
       << testing::PrintToString(face.ids) << "\n"
       << face.n_prompt << " prompt, " << face.n_decoded << " decoded\n";
}

}  // namespace ibid
