// The requests that protocols (server/protocol/) make to the service, in types of the runtime, and the listeners that
// receive the results.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/score.h"
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
  std::string name = {};  // name of the tool, for kNamed
  bool parallel = true;   // allows more than one call in an answer

  bool demands_call() const { return kind == Kind::kRequired || kind == Kind::kNamed; }
};

// The format that the answer's text must have.
struct ResponseFormat {
  enum class Kind { kText, kJsonObject, kJsonSchema, kGbnf, kRegex, kChoices };
  Kind kind = Kind::kText;
  std::string text = {};  // depends on the kind: the schema as JSON text, the grammar, or the regular expression
  std::vector<std::string> choices = {};
  std::string field = {};  // field of the request, such as "guided_regex"; errors begin with this name
  // JsonFormat::strict for the schema; unset: the server's option applies.
  std::optional<bool> standard_schema = {};
};

// A part of a request that was left out, was placed elsewhere, or has no effect.
struct IgnoredPart {
  std::string field;            // path of the part in the request's body: "tools[1]"
  std::string reason;           // "is not a known field"
  std::string name = {};        // name of the tool that was left out
  bool is_clients_own = false;  // the path contains a name chosen by the client, which must not be logged
};
using IgnoredParts = std::vector<IgnoredPart>;
// Adds a part. Lists are bounded: the last entry says that there are more.
inline void ignore(IgnoredParts& parts, IgnoredPart part) {
  constexpr size_t kMaxParts = 64;
  if (parts.size() > kMaxParts) return;
  if (parts.size() == kMaxParts) part = {.field = "...", .reason = "further parts of the request were ignored"};
  parts.push_back(std::move(part));
}

// Pieces of a prompt, each of which is tokenized by itself. If the first piece is a text, the model's BOS token
// precedes it.
using PromptPieces = std::vector<std::variant<std::string, Tokens>>;
// A text to be filled in between two others (fill in the middle), for models whose vocabulary has tokens for this.
struct Infill {
  struct File {
    std::string name, text;
  };
  std::string prefix = {}, suffix = {};
  std::vector<File> files = {};  // context: other files, or parts of files
};
using Prompt = std::variant<std::string, Tokens, PromptPieces, Infill>;

struct AnswerRequest {
  std::string model = {};            // a name that ModelHost resolves; empty: the first model
  std::string cache_namespace = {};  // namespace of the API key
  // A conversation in the form that templates read: an array of messages, the last of which is to be answered. The
  // arguments of tool calls are texts, as the client wrote them.
  Json messages = Json::array();
  // In place of a conversation: a text to continue (special tokens in it are recognised), tokens, pieces, or an Infill.
  std::optional<Prompt> prompt = {};
  // The tools that the model may call, as templates read them: [{"type": "function", "function": ...}]; null: no tools.
  Json tools = Json();
  ToolChoice tool_choice = {};
  IgnoredParts ignored = {};
  Json variables = Json::object();  // template variables besides tools: {"enable_thinking": false}
  ResponseFormat form = {};
  size_t n = 1;  // number of answers, at most ChatSession::kMaxAnswers; 0: only prefill the prompt
  size_t n_answers() const { return n == 0 ? 1 : n; }  // number of answers that the listener receives
  bool adds_generation_prompt = true;                  // option of render_prompt()
  bool continues = false;                              // the last message is an answer, to which more is appended
  // If set, the prompt is scored first, with this many likely tokens at each position
  // (AnswerListener::prompt_scores()).
  std::optional<size_t> n_prompt_logprobs = {};
  // The protocol sets sampler, stop strings, max_tokens and logprobs. The service sets stop, constraint, parse_reply,
  // parse_calls and demands_call.
  TurnOptions options = TurnOptions();
  // Each bias applies to all tokens of its text. SamplerOptions::logit_bias takes precedence for the tokens in it.
  std::vector<std::pair<std::string, double>> text_biases = {};
  // If not empty, only these tokens are sampled.
  Tokens allowed_tokens = {};
  bool returns_prompt_ids = false;
  // If true, answers have the maximum length of guard_answer() and end when they repeat themselves; what the request
  // itself sets (chooses_length, chooses_repetition) takes precedence. Unset: as true, unless
  // AdmissionOptions::guards_answers is false; but if the request sets a length, only answers in JSON end at a
  // repetition.
  std::optional<bool> guard = {};
  bool chooses_length = false;      // the request sets a maximum length or says that there is no limit
  bool chooses_repetition = false;  // the request sets stop_repetition
  WhenFull when_full = WhenFull::kError;
  // Limit for waiting and computing. If it is 0 or above the server's limit, the server's limit applies.
  std::chrono::milliseconds deadline{0};
  bool store = true;  // the conversation may be kept for requests that continue it
  // How long the model stays loaded after the request; < 0: forever.
  std::optional<std::chrono::milliseconds> keep_alive = {};
};

// A whole answer and its parsed text (TurnOptions::parse_reply). All text that follows a plain prompt is content.
struct Answer : Turn {
  size_t max_tokens = 0;    // limit of the answer's length; 0: no limit
  bool is_guarded = false;  // max_tokens is the guard's limit
};

// The tokens of a prompt, and the scores of all tokens except the first.
struct PromptScores {
  Tokens ids;
  Scored scored;
};

// Receives the events of one request. Called on threads of the service, one call at a time. Must not wait and must not
// throw. Order: queued(), at most once; begin(), at most once; the other events; end(), once in every case.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;

  // The request has waited this long for its turn, its model and memory. Its prompt is planned now.
  virtual void queued(std::chrono::nanoseconds waited) { (void)waited; }
  // Parts of the request that were left out, placed elsewhere or have no effect. Called once, before begin(), if there
  // are any.
  virtual void ignored(const IgnoredParts& parts) { (void)parts; }
  // The tokens of the prompt of answer `i`; only if AnswerRequest::returns_prompt_ids. Called before begin() or, if
  // parts of the conversation were dropped from a full context, before the answer.
  virtual void prompt_tokens(size_t i, TokenSpan ids) { (void)i, (void)ids; }
  // The request is admitted and its prompt is planned, so the request cannot be refused any more. `tokenizer` is the
  // model's tokenizer; the pointer keeps the model loaded.
  virtual void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) = 0;
  // Progress of the prompt. n_done: number of positions that have KV; the first call has the number of reused ones.
  virtual void prefill(size_t n_done, size_t n_total) { (void)n_done, (void)n_total; }
  // The scores of the prompt, for answers `i` and later; only if requested (AnswerRequest::n_prompt_logprobs). Called
  // before the other events of these answers.
  virtual void prompt_scores(size_t i, std::shared_ptr<const PromptScores> scores) { (void)i, (void)scores; }
  // The next tokens of answer `i` with log-probabilities; only if requested. Called before the text of these tokens;
  // those of the last tokens may come only with answer().
  virtual void logprobs(size_t i, std::span<const TokenLogprobs> tokens) { (void)i, (void)tokens; }
  // The next text of answer `i`, in whole characters. Texts, and parts of arguments, are not empty.
  virtual void content(size_t i, std::string_view text) = 0;
  virtual void reasoning(size_t i, std::string_view text) = 0;
  // Call number `call` of answer `i` begins; its arguments follow in parts.
  virtual void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) = 0;
  virtual void tool_arguments(size_t i, size_t call, std::string_view part) = 0;
  // Answer `i` is complete and part of its conversation.
  virtual void answer(size_t i, const Answer& answer) = 0;
  // The time after which the client should retry. Called before end(kBusy).
  virtual void come_again(std::chrono::seconds wait) { (void)wait; }
  // The last event. An error before begin() means that the request is wrong or the server is full; after begin(), the
  // emitted text stays valid. Errors: kInvalidArgument (also for errors that the template reports); kNotFound: no such
  // model; kContextFull, with both numbers; kBusy: no more requests are admitted now; kIo: the model cannot be loaded,
  // or the server is shutting down; kCancelled; kDeadline; kOutOfMemory.
  virtual void end(const Status& status) = 0;
};

struct EmbeddingRequest {
  std::string model = {};            // a name that ModelHost resolves; empty: the first model
  std::string cache_namespace = {};  // namespace of the API key; its owner takes turns with others
  // Each input is a text, tokens, or pieces as in an answer's prompt; not an Infill. In a text, special tokens are not
  // recognised, and the model's first and last tokens are added. Nothing is added to tokens.
  std::vector<Prompt> inputs = {};
  size_t n_dims = 0;                      // return only this many dimensions, the first ones; 0: all
  bool cuts = false;                      // truncate an input that is too long; false: refuse it
  std::chrono::milliseconds deadline{0};  // deadline and keep_alive are as in AnswerRequest
  std::optional<std::chrono::milliseconds> keep_alive = {};
};

struct EmbeddingReply {
  std::string model;                        // the model's name
  std::vector<std::vector<float>> vectors;  // one vector per input
  size_t n_prompt = 0;                      // number of tokens of all inputs
  std::chrono::nanoseconds queued{0};       // time that the request waited for its turn, its model and memory
  std::chrono::nanoseconds computed{0};
};

// Receives the result of one request, on a thread of the service. Must not wait and must not throw.
class EmbeddingListener {
 public:
  virtual ~EmbeddingListener() = default;
  // Exactly one of these two functions is called, once. retry_after: for kBusy, the time after which the client should
  // retry. Errors: those of AnswerListener::end(); kUnsupported if the model makes no embeddings.
  virtual void reply(EmbeddingReply reply) = 0;
  virtual void fail(const Status& status, std::chrono::seconds retry_after) = 0;
};

// True if the request must change to succeed (HTTP 4xx). Other errors mean that the server failed, that the client has
// left, or that the client should retry (kBusy).
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
