// The report of a turn: the lines below its answer for people, and the answer as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/turn.h"
#include "runtime/session/chat_session.h"

namespace ibid {

// "length limit · turn 3 · 412 tokens · 371 cached · first token 41 ms · 98 tok/s" in at most `width`
// columns: why the answer ended, unless the model ended it, and as many of the others as fit, the least
// important left out first. The reason is there however narrow it is.
std::string status_line(const Turn& turn, size_t turn_number, size_t width);

// The place where an answer is given. The ways out of its end have other names in each.
enum class AnswerPlace : uint8_t {
  kChat,  // that takes commands
  kPipe,  // a chat from a pipe
  kAsk,   // one answer
};

// Why a limit or its own repetition ended an answer, and what to do about it; empty for any other end. max_tokens: of
// the turn, as in TurnOptions.
std::string ending_line(const Turn& turn, size_t max_tokens, AnswerPlace place);

// A failure as a person at a terminal or a script can use it: what a message of the library says of its own functions
// is left out, and the ways out are those of the place, in lines of their own.
std::string failure_text(const Status& status, AnswerPlace place);

// Lines of --verbose: which model answers (context 0: not known), and how it is sampled; how fast an answer was.
std::string settings_text(const std::string& model, size_t context, const TurnOptions& options);
std::string rates_line(const Turn& turn);

// "reading 512 of 6459 tokens". REQUIRES: event is of kPrefill.
std::string reading_line(const TurnEvent& event);

// The messages that a full context left out of the history.
std::string left_out_line(const LeftOut& left_out);

// An answer as JSON: one shape for every command that prints one (docs/json.md). Names and values follow
// OpenAI's chat completions where they have one; the others stand beside them.
// The fields that tell one object from another.
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
