// Shared by the tests of saved conversations: consecutive processes on the same files.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "cache/tier/file_tier.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/support/memory_file_ops.h"

namespace ibid {

struct ChatResumeTest : testing::Test {
  static inline const std::string kPath = "/s/talk.ibid";
  static inline const std::string kSystem = "be " + std::string(200, 'z');

  // One process on the files.
  struct Process : ChatFixture {
    explicit Process(FileOps& files, bool tier = false, const char* model_name = "one",
                     const char* chat_template = kChatMl)
        : ChatFixture(chat_template, {.max_chunk = 64}, 64u << 20, parts_on(files, tier, model_name)) {
      say({tokenizer->sampled({"a", "b"}), tokenizer->sampled({"Hello", "lo"}), tokenizer->sampled({"the", "ing"}),
           tokenizer->sampled({"abc"})});
    }
  };

  ChatResumeTest() { EXPECT_TRUE(files.make_directory("/s").ok()); }

  // Saves a session after two turns.
  void have_a_talk(bool tier, bool with_kv, const char* chat_template = kChatMl) {
    Process process(files, tier, "one", chat_template);
    ChatSession chat = process.session({.system = kSystem});
    must(chat.send("x " + std::string(90, 'y'), greedy()));
    must(chat.send("the second", greedy()));
    ASSERT_TRUE(chat.pin(1).ok());
    ASSERT_TRUE(chat.save(kPath, {.with_kv = with_kv}).ok());
    ids = chat.ids();
    messages = chat.state().messages();
    bytes = chat.state().transcript().bytes();
  }
  // Tokens that a process without restart would feed for a third turn.
  Tokens third_turn(const Process& process) const {
    return joined({{ids.back()}, process.next_prompt("and"), process.tokenizer->sampled({"the", "ing"})});
  }

  static EngineParts parts_on(FileOps& files, bool tier, const char* model = "one") {
    EngineParts parts;
    parts.files = &files;
    parts.fingerprint = FingerprintBuilder().add("model", model).finish();
    if (tier) parts.cache_directory = "/kv";
    parts.cache_directory_bytes = 64u << 20;
    return parts;
  }

  MemoryFileOps files;
  Tokens ids;
  Json messages;
  std::string bytes;
};

}  // namespace ibid
