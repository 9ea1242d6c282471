// Stop strings that overlap incomplete characters: the remaining tokens are those of the remaining text, and the rows
// are those of the tokens, also after a reload.
#include <gtest/gtest.h>

#include <string>

#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

TurnOptions stopping_at(const std::string& stop) {
  TurnOptions options = greedy();
  options.stop_strings = {stop};
  return options;
}

TEST(StopInCharacterTest, StopStringCompletedByTheEndOfTurnIsDropped) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"a", "\xE2"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session();
  const Turn turn = must(chat.send("x", stopping_at("\xEF\xBF\xBD")));
  EXPECT_EQ(turn.text, "a");
  EXPECT_EQ(turn.finish_reason, FinishReason::kStopString);
  EXPECT_EQ(chat.ids(), joined({f.prompt("x"), f.tokenizer->sampled({"a"})}));
  expect_rows_replay(chat);
  must(chat.send("y", greedy()));
  expect_rows_replay(chat);
}

// The second byte becomes a character only through its successor, which is dropped.
TEST(StopInCharacterTest, TokenOfAnIncompleteCharacterIsDroppedWithTheNextToken) {
  MemoryFileOps files;
  EngineParts parts;
  parts.files = &files;
  ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
  f.say({f.tokenizer->sampled({"\xE2", "\xE2", "Hello"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session();
  const Turn turn = must(chat.send("x", stopping_at("lo")));
  EXPECT_EQ(turn.text, "\xEF\xBF\xBD\xEF\xBF\xBDHel");
  expect_rows_replay(chat);
  ASSERT_TRUE(files.make_directory("/s").ok());
  ASSERT_TRUE(chat.save("/s/talk").ok());
  Result<ChatSession> loaded = ChatSession::load(f.engine, "/s/talk");
  ASSERT_TRUE(loaded.ok()) << loaded.status().to_string();
  EXPECT_EQ(loaded->ids(), chat.ids());
  EXPECT_EQ(loaded->state().transcript().bytes(), chat.state().transcript().bytes());
  must(chat.send("y", greedy()));
  must(loaded->send("y", greedy()));
  EXPECT_EQ(loaded->ids(), chat.ids());
}

// The template keeps only the first character of an answer; the second token's character is dropped.
TEST(StopInCharacterTest, TextCutByTheTemplateDropsTokenOfAnIncompleteCharacter) {
  constexpr const char* kFirstCharacter =
      "{% for message in messages %}"
      "{{ '<|im_start|>' + message['role'] + '\n' + message['content'][:1] + '<|im_end|>\n' }}"
      "{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}";
  ChatFixture f(kFirstCharacter);
  f.say({f.tokenizer->sampled({"\xE2", "\xE2", "Hello"}), f.tokenizer->sampled({"lo"})});
  ChatSession chat = f.session();
  EXPECT_EQ(must(chat.send("x", greedy())).text, "\xEF\xBF\xBD\xEF\xBF\xBDHello");
  must(chat.send("y", greedy()));
  const Tokens history = f.ids("<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n\xEF\xBF\xBD<|im_end|>\n");
  ASSERT_GE(chat.ids().size(), history.size());
  EXPECT_EQ(Tokens(chat.ids().begin(), chat.ids().begin() + static_cast<std::ptrdiff_t>(history.size())), history);
  expect_rows_replay(chat);
}

}  // namespace
}  // namespace ibid
