// Replies: listeners that write an answer to an exchange. WholeReply waits for the end and writes one body; StreamReply
// is what the streams of all protocols have in common. A protocol adds its own words and nothing else. And the pieces
// of JSON that several protocols have: what an answer cost and why it ended. Names are those of the protocols; what
// they have no name for stands in the object "ibid".
//
// A reply gets one call at a time (AnswerListener), so it has no locks.
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

// A request's answers, as far as they came.
struct Heard {
  std::string model;
  size_t n_prompt = 0;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // the model's; null: there was no beginning
  std::chrono::nanoseconds queued{0};
  std::chrono::seconds retry_after{1};
  std::vector<Answer> answers;  // by number
  // The log-probabilities of the first answer's content, where they were asked for: those that came with its text, and
  // not with reasoning or calls of tools. Those of markers, which are no text, come with what follows them. Of whole
  // replies.
  std::vector<TokenLogprobs> content_logprobs;
};

// Runs work later, on another thread.
using Later = std::function<void(std::function<void()> work)>;

// Base of all replies. Errors are written in the style of the exchange's path.
class ExchangeReply : public AnswerListener, public std::enable_shared_from_this<ExchangeReply> {
 public:
  // Has the end written by `later`, for a reply that waits for the disk. REQUIRES: the answer has not begun.
  void set_later(Later later) { later_ = std::move(later); }
  void queued(std::chrono::nanoseconds waited) final { heard_.queued = waited; }
  void come_again(std::chrono::seconds wait) final { heard_.retry_after = wait; }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override;
  void end(const Status& status) final;

 protected:
  // n: answers that will come.
  ExchangeReply(http::ExchangePtr exchange, size_t n);

  // Ends the response; status: of the request.
  virtual void respond(const Status& status) = 0;
  // The response of a request that ends with an error before anything was sent.
  void respond_error(const Status& status);

  http::ExchangePtr exchange_;  // until the end
  const ErrorStyle style_;
  Heard heard_;

 private:
  void finish(const Status& status);

  Later later_;  // empty: at once
};

class WholeReply final : public ExchangeReply {
 public:
  using Make = std::function<Json(const Heard& heard)>;
  // n: answers that will come.
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
  // The first answer's log-probabilities whose text did not come yet, their number, and whether text came last.
  std::vector<TokenLogprobs> logprobs_;
  size_t n_logprobs_ = 0;
  bool ends_in_content_ = false;
};

// Server-sent events, or in Ollama's protocol a line of JSON each.
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
  // n: answers that will come. keep_alive: what is sent while nothing else is; lines have nothing for that.
  StreamReply(http::ExchangePtr exchange, size_t n, std::string keep_alive = ": ping\n\n");

  // The words of a protocol, in the order of AnswerListener. Calls of tools that did not come in parts come as one
  // part, before answered(). A protocol says nothing for a function that it does not override; reasoning is text then.
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

  // The log-probabilities of answer `i` that were heard and not taken yet; and what of the whole answer's was not.
  std::vector<TokenLogprobs> take_logprobs(size_t i);
  std::vector<TokenLogprobs> take_last_logprobs(size_t i, const Answer& answer);

 private:
  void respond(const Status& status) override;

  std::string keep_alive_;
  struct Told {
    size_t n_calls = 0;                        // of tools, that were begun
    std::vector<TokenLogprobs> logprobs = {};  // heard, and not taken yet
    size_t n_logprobs_taken = 0;
  };
  std::vector<Told> told_;  // by answer
  bool is_open_ = false;
};

// Tokens of all answers of a request. The prompt is the first answer's, which read it for all.
struct TokenCounts {
  size_t n_prompt = 0;  // cached ones included
  size_t n_cached = 0;
  size_t n_completion = 0;  // reasoning and markers included
  size_t n_reasoning = 0;   // of them; counted by encoding the reasoning's text
};
// `tokenizer`: the model's; nullptr: reasoning is not counted.
TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer);

// OpenAI's "usage" of chat completions and completions.
Json openai_usage(const TokenCounts& counts);
// llama.cpp's "timings".
Json llama_timings(const Turn& turn);
// {"prefilled", "cached", "from_disk", "read_again", "ttft_ms", "total_ms", "seed", "finish_reason", "stop_string",
// "lost_prefix": {"tokens", "message", "byte", "token", "cause"}, "left_out": {"messages", "bytes"}}: what of them
// there is. It shows no text of the prompt, because a lost prefix can be of another client's conversation.
Json ibid_details(const Turn& turn);
// The three of them, as "usage", "timings" and "ibid".
void add_costs(Json& json, const Heard& heard);

// OpenAI's finish_reason. An answer that began to repeat itself was cut, so it is "length"; "ibid" has our own word.
std::string openai_finish_reason(const Answer& answer);
// Whether the answer was ended by its length.
inline bool is_cut(const Answer& answer) { return openai_finish_reason(answer) == "length"; }

// OpenAI's {"content": [...], "refusal"}; null without log-probabilities.
Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer);

}  // namespace ibid::serve
