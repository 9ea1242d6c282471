// Reports on a turn: lines for people below the answer, and the answer as JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/turn.h"
#include "runtime/session/session_state.h"

namespace ibid {

// Returns a line of at most `width` columns: "length limit · turn 3 · 412 tokens · 371 cached · first token 41 ms · 98
// tok/s". Omits the finish reason if the model ended the answer, and the least important parts if they do not fit. Any
// other finish reason is always shown.
std::string status_line(const Turn& turn, size_t turn_number, size_t width);

// The place where an answer is shown. It determines which commands the advice names.
enum class AnswerPlace : uint8_t {
  kChat,  // interactive chat with commands
  kPipe,  // chat from a pipe
  kAsk,   // one answer
};

// Returns a line that says at which limit, or at which repetition, an answer ended, with advice; empty for other ends.
// max_tokens: the limit of the turn, as in TurnOptions.
std::string ending_line(const Turn& turn, size_t max_tokens, AnswerPlace place);

// Returns the text of an error for users. It does not name functions of the library. Advice, which depends on the
// place, follows on further lines.
std::string failure_text(const Status& status, AnswerPlace place);

// Lines of --verbose. settings_text(): the model, its context (0: unknown) and the sampling options. rates_line(): the
// speed of an answer.
std::string settings_text(const std::string& model, size_t context, const TurnOptions& options);
std::string rates_line(const Turn& turn);

// Returns "reading 512 of 6459 tokens". REQUIRES: event.kind is kPrefill.
std::string reading_line(const TurnEvent& event);

// Describes the messages that were left out because of a full context.
std::string left_out_line(const LeftOut& left_out);

// An answer as JSON, the same for every command that prints one (docs/json.md). Fields that OpenAI's chat completions
// define have the same names and meanings; other fields are added.

// The fields by which a program identifies a completion.
struct CompletionIdentity {
  std::string id;       // "chatcmpl-" and 32 hexadecimal digits, random
  int64_t created = 0;  // seconds since 1970
  std::string model;    // model_name(), or the name on the server
};
CompletionIdentity new_completion(const std::string& model);

// Returns a known model's name, else the file or directory name.
std::string model_name(const Engine& engine);

// Returns "stop" (also for stop strings) or "length", as the protocol defines; or one of our own values, "repetition"
// and "cancelled".
std::string finish_reason_json(FinishReason reason);

// Returns {"id", "object", "created", "model", "choices", "finish_reason", "messages", "usage", "timings", ...}.
// `answers`: one or more answers of one call. usage is the sum of all answers, timings are those of the first.
// `messages`: the conversation with the first answer. tokenizer: may be nullptr if there are no log-probabilities.
Json completion_json(const CompletionIdentity& identity, std::span<const Turn> answers, const Json& messages,
                     const Tokenizer* tokenizer);

// Returns {"error": {"message", "type", "code"}}.
Json error_json(const Status& status);

}  // namespace ibid
