// Shared by the tests of heap and pool exhaustion: an engine and a conversation on it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

struct World : ChatFixture {
  explicit World(const char* chat_template = kChatMl, FakeModel::Options model_options = {.max_chunk = 16},
                 size_t kv_budget_bytes = 64u << 20)
      : ChatFixture(chat_template, model_options, kv_budget_bytes, parts()) {
    say({tokenizer->sampled({"<think>", "ing", "</think>", "Hello"}),
         tokenizer->sampled({"the", "abc", "lo", "the", "abc", "lo", "the", "abc", "lo"}), tokenizer->sampled({"th"}),
         tokenizer->sampled({"a", "b"})});
  }
  static EngineParts parts() {
    EngineParts parts;
    parts.fingerprint = FingerprintBuilder().add("model", "one").finish();
    return parts;
  }

  std::optional<ChatSession> chat;
  TurnOptions options = greedy(12);
  Json input;        // of the next call, which may move from it
  std::string text;  // likewise
  size_t n_events = 0;
};

// All usage counters, which SessionSnapshot does not have.
std::vector<size_t> counters(const ChatSession& chat) {
  std::vector<size_t> all;
  for (const auto& [name, field] : kUsageFields) all.push_back(chat.usage().*field);
  return all;
}

TurnOptions penalised() {
  TurnOptions options;
  options.sampler = {.temperature = 1,
                     .min_p = 0,
                     .seed = 7,
                     .repetition_penalty = 1.3,
                     .frequency_penalty = 0.5,
                     .presence_penalty = 0.5,
                     .dry_multiplier = 0.8,
                     .dry_allowed_length = 1};
  options.max_tokens = 12;
  return options;
}

}  // namespace
}  // namespace ibid
