// Replies: listeners that write an answer to an exchange. WholeReply waits for the end and writes one body; StreamReply
// is the common part of the streams of all protocols, which add only their own format. Also the JSON objects that
// several protocols share: usage, timings and finish reason. Names are those of the protocols; data without such a name
// is in the object "ibid".
//
// Calls come one at a time (AnswerListener), so there are no locks.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/request.h"

namespace ibid::serve {

// The answers of a request, as far as received.
struct Heard {
  std::string model;
  size_t n_prompt = 0;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // the model's; null: before begin()
  std::chrono::nanoseconds queued{0};
  std::chrono::seconds retry_after{1};
  std::vector<Answer> answers;  // by index
  // For whole replies: the log-probabilities of the first answer's content, if requested: received with its text, not
  // with reasoning or calls. Those of markers, which have no text, are added to the next text.
  std::vector<TokenLogprobs> content_logprobs;
};

// Runs `work` later, on another thread.
using Later = std::function<void(std::function<void()> work)>;

// Base of all replies. Errors have the style of the exchange's path.
class ExchangeReply : public AnswerListener, public std::enable_shared_from_this<ExchangeReply> {
 public:
  // Makes end() run in `later`, for a reply that waits for the disk. REQUIRES: called before begin().
  void set_later(Later later) { later_ = std::move(later); }
  void queued(std::chrono::nanoseconds waited) final { heard_.queued = waited; }
  void come_again(std::chrono::seconds wait) final { heard_.retry_after = wait; }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override;
  void end(const Status& status) final;

 protected:
  // n: number of answers.
  ExchangeReply(http::ExchangePtr exchange, size_t n);

  // Ends the response. status: result of the request.
  virtual void respond(const Status& status) = 0;
  // Responds to a request that failed before anything was sent.
  void respond_error(const Status& status);

  http::ExchangePtr exchange_;  // until the end
  const ErrorStyle style_;
  Heard heard_;

 private:
  void finish(const Status& status);

  Later later_;  // empty: end() runs at once
};

class WholeReply final : public ExchangeReply {
 public:
  using Make = std::function<Json(const Heard& heard)>;
  // n: number of answers.
  WholeReply(http::ExchangePtr exchange, size_t n, Make make)
      : ExchangeReply(std::move(exchange), n), make_(std::move(make)) {}

  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) override;
  void content(size_t i, std::string_view text) override;
  void reasoning(size_t i, std::string_view text) override;
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) override;
  void tool_arguments(size_t, size_t, std::string_view) override {}
  void answer(size_t i, const Answer& answer) override;

 private:
  void respond(const Status& status) override;

  Make make_;
  // The first answer's log-probabilities without text so far, their total, and if the last event was content.
  std::vector<TokenLogprobs> logprobs_;
  size_t n_logprobs_ = 0;
  bool ends_in_content_ = false;
};

// A stream of server-sent events; in Ollama's protocol, of lines of JSON.
class StreamReply : public ExchangeReply {
 public:
  static constexpr std::chrono::milliseconds kKeepAlive{15'000};

  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) final;
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) final;
  void content(size_t i, std::string_view text) final;
  void reasoning(size_t i, std::string_view text) final;
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) final;
  void tool_arguments(size_t i, size_t call, std::string_view part) final;
  void answer(size_t i, const Answer& answer) final;

 protected:
  // n: number of answers. keep_alive: bytes to send while the stream is idle; not used for lines of JSON.
  StreamReply(http::ExchangePtr exchange, size_t n, std::string keep_alive = ": ping\n\n");

  // The events of a protocol, in the order of AnswerListener. Tool calls that were not received in parts come as one
  // part, before answered(). By default they emit nothing, and reasoning is emitted as text.
  virtual void opened() {}
  virtual void said(size_t i, std::string_view text) = 0;
  virtual void thought(size_t i, std::string_view text) { said(i, text); }
  virtual void called(size_t i, size_t call, std::string_view id, std::string_view name) {
    (void)i, (void)call, (void)id, (void)name;
  }
  virtual void call_part(size_t i, size_t call, std::string_view part) { (void)i, (void)call, (void)part; }
  virtual void answered(size_t i, const Answer& answer) { (void)i, (void)answer; }
  virtual void finished() = 0;
  virtual void failed(const Fault& fault) { emit(fault_json(fault, style_)); }

  // "data: {...}\n\n", or a line.
  void emit(const Json& json);
  // "event: TYPE\ndata: {...}\n\n", by the event's "type".
  void emit_named(const Json& event);
  void send_bytes(std::string bytes);

  // The log-probabilities of answer `i` that were received and not taken yet; those of `answer` not taken yet.
  std::vector<TokenLogprobs> take_logprobs(size_t i);
  std::vector<TokenLogprobs> take_last_logprobs(size_t i, const Answer& answer);

 private:
  void respond(const Status& status) override;

  std::string keep_alive_;
  struct Told {
    size_t n_calls = 0;                        // tool calls that were begun
    std::vector<TokenLogprobs> logprobs = {};  // received, and not taken yet
    size_t n_logprobs_taken = 0;
  };
  std::vector<Told> told_;  // by answer
  bool is_open_ = false;
};

// Tokens of all answers of a request. The prompt is counted once: the first answer has its prefill.
struct TokenCounts {
  size_t n_prompt = 0;  // cached ones included
  size_t n_cached = 0;
  size_t n_completion = 0;  // reasoning and markers included
  size_t n_reasoning = 0;   // part of n_completion; counted by encoding the reasoning's text
};
// tokenizer: the model's; nullptr: reasoning is not counted.
TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer);

// OpenAI's "usage" of chat completions and completions.
Json openai_usage(const TokenCounts& counts);
// llama.cpp's "timings".
Json llama_timings(const Turn& turn);
// {"prefilled", "cached", "from_disk", "read_again", "ttft_ms", "total_ms", "seed", "finish_reason", "stop_string",
// "lost_prefix": {"tokens", "message", "byte", "token", "cause"}, "left_out": {"messages", "bytes"}}; only those that
// apply. Without text of the prompt: a lost prefix may belong to another client's conversation.
Json ibid_details(const Turn& turn);
// Adds all three, as "usage", "timings" and "ibid".
void add_costs(Json& json, const Heard& heard);

// OpenAI's finish_reason. An answer that was ended for repeating itself has "length"; "ibid" has the precise reason.
std::string openai_finish_reason(const Answer& answer);
// True if the answer was ended by a length limit.
inline bool is_cut(const Answer& answer) { return openai_finish_reason(answer) == "length"; }

// OpenAI's {"content": [...], "refusal"}; null without log-probabilities.
Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer);

}  // namespace ibid::serve
