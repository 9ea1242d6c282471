// AnswerRequest: what a client wants answered, in the runtime's own words. AnswerListener: what it hears of it. This is
// the border between protocols (server/protocol/) and the service; every protocol can say and hear all of it.
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
  std::string name = {};      // kNamed
  bool parallel = true;       // more than one call in an answer
};

// What the answer's text must be.
struct AnswerForm {
  enum class Kind { kText, kJsonObject, kJsonSchema, kGbnf, kRegex, kChoices };
  Kind kind = Kind::kText;
  std::string text = {};                   // the schema as JSON text, the grammar, the expression
  std::vector<std::string> choices = {};
  std::string field = {};                  // where the client wrote it: "guided_regex"; stands in front of its errors
};

struct AnswerRequest {
  std::string model = {};            // a name that ModelHost knows; empty: the first
  std::string cache_namespace = {};  // of the API key
  // A conversation as templates know it: an array of messages, the last of which is to be answered. Tool calls have
  // their arguments as the client wrote them (a text).
  Json messages = Json::array();
  // Or no conversation: a text that the model goes on with, in which special tokens are meant; or its ids.
  std::optional<std::variant<std::string, Tokens>> prompt = {};
  // The tools that the model may call, as templates know them: [{"type": "function", "function": ...}]; null: none.
  Json tools = Json();
  ToolChoice tool_choice = {};
  Json variables = Json::object();   // for the template, besides tools: {"enable_thinking": false}
  AnswerForm form = {};
  size_t n = 1;                      // answers, at most ChatSession::kMaxAnswers; 0: the prompt is read, no more
  // Sampler, stop strings, max_tokens, logprobs. Set inside: stop, constraint, and what of the answer is parsed.
  TurnOptions options = TurnOptions();
  WhenFull when_full = WhenFull::kError;
  std::chrono::milliseconds deadline{0};  // in the queue and computing; 0, or more than the server's: the server's
  bool store = true;                 // the conversation may be kept for requests that go on from it
  std::optional<std::chrono::milliseconds> keep_alive = {};  // how long the model stays behind it; < 0: for good
};

// A whole answer, with what its text says (TurnOptions::parse_reply). Of a plain prompt all is content.
using Answer = Turn;

// Hears of one request. Called on the service's threads, one call at a time. Must not wait and must not throw.
// queued() comes once if at all, then begin() once, before anything else but end(); end() comes once and last,
// whatever happens.
class AnswerListener {
 public:
  virtual ~AnswerListener() = default;

  // It has waited so long for its turn, its model and memory, and is planned now.
  virtual void queued(std::chrono::nanoseconds waited) { (void)waited; }
  // The request is admitted and its prompt is planned: no client's mistake can come any more. tokenizer: the model's,
  // for as long as it is held; whoever holds it keeps the model loaded.
  virtual void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) = 0;
  // How far the prompt is read. n_done: positions with keys and values, reused ones included.
  virtual void prefill(size_t n_done, size_t n_total) { (void)n_done, (void)n_total; }
  // Of the next ids of answer `i`, where log-probabilities were asked for, in front of the text that they gave. The
  // last ids' may come with the answer alone.
  virtual void logprobs(size_t i, std::span<const TokenLogprobs> tokens) { (void)i, (void)tokens; }
  // Text of answer `i`, in whole characters.
  virtual void content(size_t i, std::string_view text) = 0;
  virtual void reasoning(size_t i, std::string_view text) = 0;
  // Call number `call` of answer `i` begins; then its arguments come in parts.
  virtual void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) = 0;
  virtual void tool_arguments(size_t i, size_t call, std::string_view part) = 0;
  // Answer `i` is whole, and part of its conversation.
  virtual void answer(size_t i, const Answer& answer) = 0;
  // In front of end(kBusy): what the queue is expected to take, before a client should come again.
  virtual void come_again(std::chrono::seconds wait) { (void)wait; }
  // Nothing comes any more. An error before begin() is the request's fault or a full server; behind it, what was said
  // stays said. Errors: kInvalidArgument (and the template's own words), kNotFound: no such model; kContextFull with
  // both numbers; kBusy: the server takes no more now; kIo: its model cannot be loaded, or the server is about to end;
  // kCancelled; kDeadline, kOutOfMemory.
  virtual void end(const Status& status) = 0;
};

}  // namespace ibid::serve
