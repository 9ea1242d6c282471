// The requests that protocols (server/protocol/) make to the service, in the runtime's own types, and the listeners
// that receive their results.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/session_options.h"
#include "ibid/token.h"
#include "ibid/turn.h"

namespace ibid {
class Tokenizer;
}

namespace ibid::serve {

// Which tools the model may call.
struct ToolChoice {
  enum class Kind { kAuto, kNone, kRequired, kNamed };
  Kind kind = Kind::kAuto;
  std::string name = {};  // kNamed
  bool parallel = true;   // more than one call in an answer
};

// The format that the answer's text must have.
struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kGbnf, kRegex, kChoices };
  Kind kind = Kind::kText;
  std::string text = {};  // the schema as JSON text, the grammar, the expression
  std::vector<std::string> choices = {};
  std::string field = {};  // the request's field that holds it, "guided_regex"; prefix of its errors
};

struct AnswerRequest {
  std::string model = {};            // a name that ModelHost resolves; empty: the first
  std::string cache_namespace = {};  // of the API key
  // A conversation in the form that templates take: an array of messages, the last of which is to be answered. The
  // arguments of tool calls are texts, as the client wrote them.
  Json messages = Json::array();
  // Instead of a conversation: a text to continue, in which special tokens are recognised; or its tokens.
  std::optional<std::variant<std::string, Tokens>> prompt = {};
  // The tools that the model may call, as templates take them: [{"type": "function", "function": ...}]; null: none.
  Json tools = Json();
  ToolChoice tool_choice = {};
  Json variables = Json::object();  // for the template, besides tools: {"enable_thinking": false}
  ResponseFormat form = {};
  size_t n = 1;  // answers, at most ChatSession::kMaxAnswers; 0: only prefills the prompt
  // Sampler, stop strings, max_tokens, logprobs. The service sets stop, constraint, and what parse_reply parses.
  TurnOptions options = TurnOptions();
  WhenFull when_full = WhenFull::kError;
  std::chrono::milliseconds deadline{0};  // for waiting and computing; 0, or more than the server's: the server's
  bool store = true;                      // the conversation may be kept for requests that continue it
  std::optional<std::chrono::milliseconds> keep_alive = {};  // how long the model stays loaded after it; < 0: for good
};

// A whole answer and its parsed text (TurnOptions::parse_reply). For a plain prompt all text is content.
using Answer = Turn;

// Receives the events of one request. Called on the service's threads, one call at a time. Must not wait and must not
// throw. queued() comes at most once; then begin() once, before all others but end(); end() comes once and last, in
// every case.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;

  // The time that the request waited for its turn, its model and memory; its prompt is planned now.
  virtual void queued(std::chrono::nanoseconds waited) { (void)waited; }
  // The request is admitted and its prompt is planned: errors of the request are no longer possible. tokenizer: the
  // model's; the pointer keeps the model loaded.
  virtual void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) = 0;
  // Progress of the prompt. n_done: positions with keys and values, reused ones included.
  virtual void prefill(size_t n_done, size_t n_total) { (void)n_done, (void)n_total; }
  // The next tokens of answer `i` with log-probabilities, if requested; emitted before their text. Those of the last
  // tokens may come only with answer().
  virtual void logprobs(size_t i, std::span<const TokenLogprobs> tokens) { (void)i, (void)tokens; }
  // Text of answer `i`, in whole characters.
  virtual void content(size_t i, std::string_view text) = 0;
  virtual void reasoning(size_t i, std::string_view text) = 0;
  // Call number `call` of answer `i` begins; its arguments follow in parts.
  virtual void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) = 0;
  virtual void tool_arguments(size_t i, size_t call, std::string_view part) = 0;
  // Answer `i` is complete, and part of its conversation.
  virtual void answer(size_t i, const Answer& answer) = 0;
  // Before end(kBusy): the time after which a client should retry.
  virtual void come_again(std::chrono::seconds wait) { (void)wait; }
  // The last event. An error before begin() is the request's fault or a full server; after it, the text that was
  // emitted stays valid. Errors: kInvalidArgument (and the template's own messages), kNotFound: no such model;
  // kContextFull with both numbers; kBusy: no more requests are admitted now; kIo: the model cannot be loaded, or the
  // server is shutting down; kCancelled; kDeadline, kOutOfMemory.
  virtual void end(const Status& status) = 0;
};

struct EmbeddingRequest {
  std::string model = {};            // a name that ModelHost resolves; empty: the first
  std::string cache_namespace = {};  // of the API key; decides whose turn it waits for
  // Texts, in which special tokens are not recognised and to which the model's first and last tokens are added; or
  // tokens, to which nothing is added.
  std::vector<std::variant<std::string, Tokens>> inputs = {};
  size_t n_dims = 0;                      // dimensions to return, from the first; 0: all
  bool cuts = false;                      // truncate an input that is too long instead of refusing it
  std::chrono::milliseconds deadline{0};  // this and keep_alive as in AnswerRequest
  std::optional<std::chrono::milliseconds> keep_alive = {};
};

struct EmbeddingReply {
  std::string model;                        // its name
  std::vector<std::vector<float>> vectors;  // by input
  size_t n_prompt = 0;                      // tokens of all inputs
  std::chrono::nanoseconds queued{0};       // the wait for its turn, its model and memory
  std::chrono::nanoseconds computed{0};
};

// Receives the result of one request, on the service's threads. Must not wait and must not throw.
class EmbeddingListener {
 public:
  virtual ~EmbeddingListener() = default;
  // Exactly one of these is called, once. retry_after: for kBusy, the time after which a client should retry. Errors:
  // those of AnswerListener::end(); kUnsupported if the model makes no embeddings.
  virtual void reply(EmbeddingReply reply) = 0;
  virtual void fail(const Status& status, std::chrono::seconds retry_after) = 0;
};

// True if the request must change before it can succeed (HTTP 4xx). Otherwise the server failed, the client has left,
// or it should retry (kBusy).
inline bool is_of_request(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kUnsupported:
    case ErrorCode::kContextFull:
    case ErrorCode::kNotFound:
    case ErrorCode::kLimitExceeded:
    case ErrorCode::kDuplicate:
    case ErrorCode::kBadNumber:
    case ErrorCode::kTooLong:
    case ErrorCode::kTemplateError:
    case ErrorCode::kTemplateRaise:
    case ErrorCode::kTemplateBudget: return true;
    default: return false;
  }
}

}  // namespace ibid::serve
