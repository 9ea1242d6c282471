#include "apps/chat/conversation.h"

#include <gtest/gtest.h>

#include "apps/chat/chat_backend.h"
#include "apps/sessions/message_text.h"
#include "runtime/session/session_file.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {
namespace {

// A process may end at any moment, so every command saves its question before the model computes.
TEST(ConversationTest, QuestionIsSavedBeforeTheModelReadsIt) {
  MemoryFileOps memory;
  ASSERT_TRUE(memory.make_directory("/s").ok());
  EngineParts parts;
  parts.files = &memory;
  ChatFixture f(kChatMl, {}, 64u << 20, std::move(parts));
  f.say({f.tokenizer->sampled({"a"}), f.tokenizer->sampled({"b"}), f.tokenizer->sampled({"c"})});
  const SessionFiles files(memory, "/s");
  Result<SavedConversation> kept = SavedConversation::take(files, "talk");
  ASSERT_TRUE(kept.ok()) << kept.status().message();
  std::string last;  // last saved message at the start of a pass
  size_t n_passes = 0;
  f.model->before_layer = [&](size_t, size_t layer) {
    if (layer > 0) return Status();
    ++n_passes;
    const Result<SavedSession> saved = read_saved_session(memory, files.path("talk"));
    last = saved.ok() && !saved->messages.empty() ? text_of(saved->messages.back()) : "nothing";
    return Status();
  };
  Screen screen(AnswerPlace::kChat);
  ConversationOptions options{.turn = {}, .files = files, .kept = *std::move(kept), .commands = true};
  options.turn = greedy(1);  // not in the initializer, for which gcc 14 warns of a destructor
  Conversation conversation(std::make_unique<LocalBackend>(f.session()), std::move(options), screen);
  for (const auto& [line, question] :
       {std::pair("one", "one"), std::pair("/edit two", "two"), std::pair("/answers 2 three", "three")}) {
    last.clear();
    conversation.handle(line);
    EXPECT_EQ(last, question) << line;
  }
  EXPECT_GT(n_passes, 2u);
  EXPECT_FALSE(conversation.any_failed());
}

}  // namespace
}  // namespace ibid
