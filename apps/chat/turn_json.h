// An answer as JSON: one shape for every command that prints one (docs/json.md). Names and values are those of
// OpenAI's chat completions where they have one; what they lack stands beside them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "runtime/session/chat_session.h"

namespace ibid {

// What tells one object from another.
struct CompletionIdentity {
  std::string id;         // "chatcmpl-" and 32 hexadecimal digits, random
  int64_t created = 0;    // seconds since 1970
  std::string model;      // model_name(), or what the server calls it
};
CompletionIdentity new_completion(const std::string& model);

// A known model's name, else the name of its file or directory.
std::string model_name(const Engine& engine);

// "stop" (a stop string too), "length"; ours: "repetition", "cancelled".
std::string finish_reason_json(FinishReason reason);

// {"id", "object", "created", "model", "choices", "finish_reason", "messages", "usage", "timings", ...}.
// `answers`: of one call, at least one; usage and timings are the sum and those of the first. `messages`: the
// conversation with the first answer. tokenizer: nullptr where no answer has log-probabilities.
Json completion_json(const CompletionIdentity& identity, std::span<const Turn> answers, const Json& messages,
                     const Tokenizer* tokenizer);

// {"error": {"message", "type", "code"}}.
Json error_json(const Status& status);

}  // namespace ibid
