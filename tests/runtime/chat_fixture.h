// An engine on FakeModel and FakeTokenizer, and helpers of session tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/prompt/transcript.h"
#include "runtime/session/session_state.h"
#include "tests/support/fake_model.h"
#include "tests/support/fake_tokenizer.h"

namespace ibid {

inline constexpr const char* kChatMl =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
// Drops the thinking of earlier answers.
inline constexpr const char* kStripsThinking =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'].split('</think>')[-1] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
inline constexpr const char* kTrims =
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";

struct ChatFixture {
  // parts: other parts of the engine (a cache directory, files, a FakeTokenizer with other tokens).
  explicit ChatFixture(const char* chat_template = kChatMl, FakeModel::Options options = {},
                       size_t kv_budget_bytes = 64u << 20, EngineParts parts = {}) {
    auto owned_model = std::make_unique<FakeModel>(options);
    if (parts.tokenizer == nullptr) parts.tokenizer = std::make_unique<FakeTokenizer>();
    model = owned_model.get();
    tokenizer = static_cast<FakeTokenizer*>(parts.tokenizer.get());
    parts.model = std::move(owned_model);
    parts.kv_budget_bytes = kv_budget_bytes;
    if (chat_template != nullptr) {
      Result<ChatTemplate> compiled = ChatTemplate::compile(chat_template);
      EXPECT_TRUE(compiled.ok()) << compiled.status().message();
      parts.chat_template = *std::move(compiled);
    }
    Result<std::shared_ptr<Engine>> created = make_engine(std::move(parts));
    EXPECT_TRUE(created.ok());
    engine = *created;
  }

  // Disables idle work, so that the computed tokens are known.
  ChatSession session(SessionOptions options = {}, Json variables = Json::object(), bool plain = false) {
    options.repair_when_idle = false;
    Result<ChatSession> created = SessionState::create(engine, {std::move(options), std::move(variables), plain});
    EXPECT_TRUE(created.ok()) << created.status().message();
    return *std::move(created);
  }

  // Tokens of template text.
  Tokens ids(const std::string& text) const { return tokenizer->template_ids(text); }
  Tokens prompt(const std::string& message) const {
    return ids("<|im_start|>user\n" + message + "<|im_end|>\n<|im_start|>assistant\n");
  }
  // The text between two answers, after the token that ended the first.
  Tokens next_prompt(const std::string& message) const {
    return ids("\n<|im_start|>user\n" + message + "<|im_end|>\n<|im_start|>assistant\n");
  }
  void say(std::vector<Tokens> replies) { model->script = chat_script(*tokenizer, std::move(replies)); }

  std::shared_ptr<Engine> engine;
  FakeModel* model = nullptr;
  FakeTokenizer* tokenizer = nullptr;
};

inline TurnOptions greedy(size_t max_tokens = 24) { return {.sampler = {.temperature = 0}, .max_tokens = max_tokens}; }

inline Tokens joined(std::initializer_list<Tokens> parts) {
  Tokens out;
  for (const Tokens& part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

inline Turn must(Result<Turn> turn) {
  EXPECT_TRUE(turn.ok()) << turn.status().to_string();
  return turn.ok() ? *std::move(turn) : Turn{};
}

// Checks that the session's KV equals that of its tokens fed to an empty entry, and so do the logits of the next
// position if its pool has a page for them.
inline void expect_rows_replay(const ChatSession& session) {
  const KvCacheEntry& kv = session.state().kv();
  ASSERT_LE(kv.length(), session.ids().size());
  ASSERT_TRUE(std::equal(kv.tokens().begin(), kv.tokens().end(), session.ids().begin()));
  if (kv.length() == 0) return;
  FakeModel cold({.max_seq_len = kv.length() + 1,
                  .max_chunk = kv.length(),
                  .n_layers = kv.layout().n_layers(),
                  .recurrent = kv.layout().n_states() > 0,
                  .window = kv.layout().window()});
  KvPagePool pool(cold.kv_layout(), 64u << 20);
  KvCacheEntry replayed(pool);
  Logits expected, got;
  const SequenceChunk all{&replayed, kv.tokens(), WantLogits::kNone};
  ASSERT_TRUE(cold.forward({&all, 1}, {}, expected).ok());
  const std::vector<float> rows = FakeModel::rows_of(replayed);
  const std::vector<float> held = FakeModel::rows_of(kv);
  ASSERT_EQ(rows.size(), held.size());
  ASSERT_EQ(std::memcmp(rows.data(), held.data(), rows.size() * sizeof(float)), 0);
  const TokenId next = 65;
  const SequenceChunk cold_next{&replayed, {&next, 1}, WantLogits::kLast};
  ASSERT_TRUE(cold.forward({&cold_next, 1}, {}, expected).ok());
  KvCacheEntry warm = kv.fork().value();
  const SequenceChunk warm_next{&warm, {&next, 1}, WantLogits::kLast};
  const Status fed = cold.forward({&warm_next, 1}, {}, got);
  if (fed.code() == ErrorCode::kOutOfMemory) return;
  ASSERT_TRUE(fed.ok());
  ASSERT_EQ(std::memcmp(expected.row(0).data(), got.row(0).data(), got.row(0).size_bytes()), 0);
}

// As above, and only the last token may have no KV.
inline void expect_replays(const ChatSession& session) {
  ASSERT_LE(session.ids().size(), session.state().kv().length() + 1);
  expect_rows_replay(session);
}

inline Tokens tokens_of(const KvCacheEntry& entry) { return {entry.tokens().begin(), entry.tokens().end()}; }

// All state that a rolled-back turn must not change.
struct SessionSnapshot {
  explicit SessionSnapshot(const ChatSession& s)
      : messages(json_to_string(s.state().messages())),
        ids(s.ids()),
        bytes(s.state().transcript().bytes()),
        fed(tokens_of(s.state().kv())),
        rows(FakeModel::rows_of(s.state().kv())),
        n_prompt(s.usage().n_prompt) {}
  bool operator==(const SessionSnapshot&) const = default;
  // Compares all but what is in memory, which an idle session does not own.
  bool same_conversation(const SessionSnapshot& other) const {
    return messages == other.messages && ids == other.ids && bytes == other.bytes && n_prompt == other.n_prompt;
  }

  std::string messages;
  Tokens ids;
  std::string bytes;
  Tokens fed;
  std::vector<float> rows;
  size_t n_prompt;
};

}  // namespace ibid
