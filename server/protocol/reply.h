// Replies: listeners that write an answer to an exchange. WholeReply waits for the end and writes one body; StreamReply
// is the common part of the streams of all protocols, which add only their own format. Also the JSON objects that
// several protocols share: usage, timings and finish reason. Names are those of the protocols; data for which they have
// no name is in the object "ibid". The service makes one call at a time (AnswerListener), so there are no locks.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/json_limits.h"
#include "sampling/sampler.h"
#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/protocol/field.h"
#include "server/service/request.h"

namespace ibid::serve {

// The data received so far about the answers of a request.
struct Heard {
  std::string model;
  size_t n_prompt = 0;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // the model's tokenizer; null before begin()
  std::chrono::nanoseconds queued{0};
  std::chrono::seconds retry_after{1};
  std::vector<Answer> answers;  // indexed by the number of the answer
  // Entry i: scores of the prompt whose first answer is answer i; null: no scores, or answer i is not a first one.
  std::vector<std::shared_ptr<const PromptScores>> prompt_scores;
  // For whole replies, if requested: log-probabilities of the first answer's content, without those of reasoning and
  // calls. The log-probabilities of markers, which have no text, are added to those of the next text.
  std::vector<TokenLogprobs> content_logprobs;
  IgnoredParts ignored = {};            // ignored parts of the request
  std::vector<Tokens> prompt_ids = {};  // tokens of each answer's prompt, if requested
};

// Runs `work` later, on another thread.
using Later = std::function<void(std::function<void()> work)>;

// Base of all replies. Errors have the style that belongs to the path of the exchange.
class ExchangeReply : public AnswerListener, public std::enable_shared_from_this<ExchangeReply> {
 public:
  // For a reply whose end waits for the disk: end() then runs through `later`, on another thread. REQUIRES: called
  // before begin().
  void set_later(Later later) { later_ = std::move(later); }
  void queued(std::chrono::nanoseconds waited) final { heard_.queued = waited; }
  void come_again(std::chrono::seconds wait) final { heard_.retry_after = wait; }
  void ignored(const IgnoredParts& parts) final { heard_.ignored = parts; }
  void prompt_tokens(size_t i, TokenSpan ids) final { heard_.prompt_ids.at(i).assign(ids.begin(), ids.end()); }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override;
  void prompt_scores(size_t i, std::shared_ptr<const PromptScores> scores) override {
    heard_.prompt_scores.at(i) = std::move(scores);
  }
  void end(const Status& status) final;

 protected:
  // n: number of answers.
  ExchangeReply(http::ExchangePtr exchange, size_t n);

  // Ends the response. `status` is the result of the request.
  virtual void respond(const Status& status) = 0;
  // Responds to a request that failed before anything was sent.
  void respond_error(const Status& status);

  http::ExchangePtr exchange_;  // null after the end
  const ErrorStyle style_;
  Heard heard_;

 private:
  void finish(const Status& status);

  Later later_;  // if set, runs end() on another thread
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
  // The first answer's log-probabilities that belong to no text yet, the number received in all, and whether the last
  // event was content.
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
  // By default, a stream emits reasoning as text, and does not emit the parts of arguments.
  void reasoning(size_t i, std::string_view text) override { content(i, text); }
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) final;
  void tool_arguments(size_t, size_t, std::string_view) override {}
  void answer(size_t i, const Answer& answer) final;

 protected:
  // n: number of answers. keep_alive: bytes that are sent while the stream is idle; must be empty for lines of JSON.
  StreamReply(http::ExchangePtr exchange, size_t n, std::string keep_alive = ": ping\n\n");

  // Write the events of a protocol; they are called in the order of AnswerListener and emit nothing by default. A
  // protocol overrides content() too and, if it emits them, reasoning() and tool_arguments(). A tool call whose
  // arguments did not arrive in parts is written with all arguments as one part, before answered().
  virtual void opened() {}
  virtual void called(size_t i, size_t call, std::string_view id, std::string_view name) {
    (void)i, (void)call, (void)id, (void)name;
  }
  virtual void answered(size_t i, const Answer& answer) { (void)i, (void)answer; }
  virtual void finished() = 0;
  virtual void failed(const Fault& fault) { emit(fault_json(fault, style_)); }

  // Emits the object as an event, "data: {...}"; in Ollama's protocol, as a line.
  void emit(const Json& json);
  // Emits an event with the lines "event: TYPE" and "data: {...}", where TYPE is the event's "type".
  void emit_named(const Json& event);
  void send_bytes(std::string bytes);

  // Return the log-probabilities that no earlier call returned: of answer `i` as received so far, or of the complete
  // `answer`.
  std::vector<TokenLogprobs> take_logprobs(size_t i);
  std::vector<TokenLogprobs> take_last_logprobs(size_t i, const Answer& answer);

 private:
  void respond(const Status& status) override;

  std::string keep_alive_;
  struct StreamedAnswer {
    size_t n_calls = 0;                        // number of tool calls that were begun
    std::vector<TokenLogprobs> logprobs = {};  // received, and not yet returned by take_logprobs()
    size_t n_logprobs_taken = 0;
  };
  std::vector<StreamedAnswer> streamed_;  // indexed by the number of the answer
  bool is_open_ = false;
};

// Numbers of tokens in all answers of a request. The prompt is counted once: the first answer has its prefill.
struct TokenCounts {
  size_t n_prompt = 0;  // includes cached tokens
  size_t n_cached = 0;
  size_t n_written() const { return n_prompt - std::min(n_prompt, n_cached); }  // prefilled, and kept
  size_t n_completion = 0;  // tokens of all answers, with reasoning and markers
  size_t n_reasoning = 0;   // part of n_completion; counted by encoding the reasoning's text
};
// tokenizer: the model's; if it is nullptr, reasoning is not counted.
TokenCounts count_tokens(std::span<const Answer> answers, const Tokenizer* tokenizer);

// Returns the details of a prompt in OpenAI's usage: {"cached_tokens", "cache_write_tokens"}.
Json input_details(const TokenCounts& counts);
// Returns the "usage" of OpenAI's chat completions and completions.
Json openai_usage(const TokenCounts& counts);
// Returns the "timings" of llama.cpp. Its rates of decoding leave out the first token, which the prefill computes.
Json llama_timings(const Turn& turn);

// The progress of one streamed answer, as the objects that llama.cpp adds for return_progress and timings_per_token.
class StreamProgress {
 public:
  explicit StreamProgress(Clock& clock) : clock_(clock) {}

  // Call on the events of the same names of AnswerListener; decode(): when the answer has new tokens.
  void begin() { begin_ns_ = clock_.steady_ns(); }
  void prefill(size_t n_done, size_t n_total);
  void decode(size_t n_tokens);

  // Returns the object for return_progress: {"total", "cache", "processed", "time_ms"}.
  Json prompt_json() const;
  // Returns llama_timings() of the tokens so far.
  Json timings() const;

 private:
  Clock& clock_;
  int64_t begin_ns_ = 0, first_token_ns_ = 0;
  bool has_begun_ = false;  // prefill() was called
  Usage usage_;
  double prefill_ms_ = 0, decode_ms_ = 0;
};
// Returns the members of this object that apply: {"prefilled", "cached", "from_disk", "read_again", "ttft_ms",
// "total_ms", "seed", "finish_reason", "ended_by", "stop_string", "lost_prefix": {"tokens", "message", "byte", "token",
// "cause"}, "left_out": {"messages", "bytes"}, "ignored": [{"field", "reason", "name"}]}. It has no text of the prompt,
// because a lost prefix may belong to another client's conversation.
Json ibid_details(const Answer& turn, const IgnoredParts& ignored);
// Return the ignored parts as [{"field", "reason", "name"}], or add their paths to the figures for the log, where parts
// named by clients are only counted.
Json ignored_json(const IgnoredParts& ignored);
void add_ignored(http::AnswerFigures& figures, const IgnoredParts& ignored);
// Returns the text of the prompt of answer `i`, with special tokens. REQUIRES: AnswerRequest::returns_prompt_ids.
std::string prompt_text(const Heard& heard, size_t i);
// Returns the ids of tokens whose log-probabilities were requested.
Json ids_of(std::span<const TokenLogprobs> tokens);
// Returns the ids of the last tokens of an answer, with the token that ended it.
Json last_ids_of(std::span<const TokenLogprobs> tokens, const Answer& answer);
// Returns the usage of a stream so far (vLLM's continuous_usage_stats). The number of cached tokens is not final yet.
Json usage_so_far(size_t n_prompt, size_t n_completion);
// Adds the results of openai_usage(), llama_timings() and ibid_details() as "usage", "timings" and "ibid".
void add_costs(Json& json, const Heard& heard);

// Returns OpenAI's finish_reason. It is "length" also for an answer that was ended because it repeated itself; "ibid"
// has the precise reason.
std::string openai_finish_reason(const Answer& answer);
// Returns the limit that ended an answer, as "ended_by" has it: "context", "max_tokens" ...; empty: no limit ended it.
std::string_view limit_of(const Answer& answer);
// True if the answer was ended by a length limit.
inline bool is_cut(const Answer& answer) { return openai_finish_reason(answer) == "length"; }

// Returns vLLM's "prompt_logprobs": null for the first token, then an object for each: {"ID": {"logprob", "rank",
// "decoded_token"}, ...}, of the token and the n_top most likely ones. null: no scores.
Json prompt_logprobs_json(const PromptScores* scores, size_t n_top, const Tokenizer* tokenizer);
// Returns the row of the field prompt_logprobs: the number of most likely tokens, 0 to 20, to return at each token.
template <typename Call>
constexpr Field<Call> prompt_logprobs_field() {
  return {
      {"prompt_logprobs", Shape::kInteger,
       "return the log-probability of each token of the prompt, and of this many most likely alternatives; not with "
       "stream",
       0, kMaxTopLogprobs},
      [](const Json& value, Call& call) { store(value, call.prompt_logprobs); }};
}

// The name of a token in log-probabilities with vLLM's return_tokens_as_token_ids: "token_id:5".
std::string name_by_id(TokenId id);
// Returns the row of return_tokens_as_token_ids.
template <typename Call, auto... Members>
constexpr Field<Call> names_by_id_field() {
  return {{"return_tokens_as_token_ids", Shape::kBoolean, "log-probabilities name tokens by their ids: \"token_id:5\""},
          set<Members...>};
}

// Returns OpenAI's {"content": [...], "refusal"}; null if `tokens` is empty.
Json logprobs_of(std::span<const TokenLogprobs> tokens, const Tokenizer* tokenizer, bool names_by_id);

}  // namespace ibid::serve
