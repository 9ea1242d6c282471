// Replies: what listens to an answer and writes it to an exchange. WholeReply waits for the end and writes one body;
// StreamReply is what the streams of all protocols have in common. A protocol adds its own words and nothing else.
//
// They are called one call at a time (AnswerListener), so they have no locks.
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

#include "server/http/exchange.h"
#include "server/protocol/fault.h"
#include "server/service/answer_request.h"

namespace ibid::serve {

// What was heard of a request.
struct Heard {
  std::string model;
  size_t n_prompt = 0;
  std::shared_ptr<const Tokenizer> tokenizer = {};  // the model's; null: there was no beginning
  std::chrono::nanoseconds queued{0};
  std::chrono::seconds retry_after{1};
  std::vector<Answer> answers;  // by number
  // Of the first answer's content, where log-probabilities were asked for: those that came with its text, and not with
  // reasoning or calls of tools. Those of markers, which are no text, come with what follows them.
  std::vector<TokenLogprobs> content_logprobs;
};

// Runs work later, on another thread.
using Later = std::function<void(std::function<void()> work)>;

class WholeReply final : public AnswerListener, public std::enable_shared_from_this<WholeReply> {
 public:
  using Make = std::function<Json(const Heard& heard)>;
  // n: answers that will come.
  // later: where the end is told, for a `make` that waits for a disk; empty: at once.
  WholeReply(http::ExchangePtr exchange, size_t n, ErrorStyle style, Make make, Later later = {});

  void queued(std::chrono::nanoseconds waited) override { heard_.queued = waited; }
  void come_again(std::chrono::seconds wait) override { heard_.retry_after = wait; }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) override;
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) override;
  void content(size_t i, std::string_view text) override;
  void reasoning(size_t i, std::string_view text) override;
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) override;
  void tool_arguments(size_t, size_t, std::string_view) override {}
  void answer(size_t i, const Answer& answer) override;
  void end(const Status& status) override;

 private:
  void tell_end(const Status& status);

  http::ExchangePtr exchange_;
  ErrorStyle style_;
  Make make_;
  Later later_;
  Heard heard_;
  // Of the first answer: log-probabilities whose text did not come yet, how many there were, and what came last.
  std::vector<TokenLogprobs> logprobs_;
  size_t n_logprobs_ = 0;
  bool ends_in_content_ = false;
};

enum class StreamForm { kEvents, kLines };  // text/event-stream, application/x-ndjson

class StreamReply : public AnswerListener, public std::enable_shared_from_this<StreamReply> {
 public:
  static constexpr std::chrono::milliseconds kKeepAlive{15'000};

  void queued(std::chrono::nanoseconds waited) final { heard_.queued = waited; }
  void come_again(std::chrono::seconds wait) final { heard_.retry_after = wait; }
  void begin(const std::string& model, size_t n_prompt, std::shared_ptr<const Tokenizer> tokenizer) final;
  void logprobs(size_t i, std::span<const TokenLogprobs> tokens) final;
  void content(size_t i, std::string_view text) final;
  void reasoning(size_t i, std::string_view text) final;
  void tool_call(size_t i, size_t call, std::string_view id, std::string_view name) final;
  void tool_arguments(size_t i, size_t call, std::string_view part) final;
  void answer(size_t i, const Answer& answer) final;
  void end(const Status& status) final;

  // Where the end is told, for a finished() that waits for a disk. Is called before the answer begins.
  void set_later(Later later) { later_ = std::move(later); }

 protected:
  // n: answers that will come. keep_alive: what is sent while nothing else is; lines have nothing for that.
  StreamReply(http::ExchangePtr exchange, size_t n, ErrorStyle style, StreamForm form,
              std::string keep_alive = ": ping\n\n");

  // The words of a protocol, in the order of AnswerListener. Calls of tools that did not come in parts come as one
  // part, in front of answered().
  virtual void opened() = 0;
  virtual void said(size_t i, std::string_view text) = 0;
  virtual void thought(size_t i, std::string_view text) = 0;
  virtual void called(size_t i, size_t call, std::string_view id, std::string_view name) = 0;
  virtual void call_part(size_t i, size_t call, std::string_view part) = 0;
  virtual void answered(size_t i, const Answer& answer) = 0;
  virtual void finished() = 0;
  virtual void failed(const Fault& fault) = 0;

  // "data: {...}\n\n", or a line.
  void send(const Json& json);
  // "event: NAME\ndata: {...}\n\n"
  void send_event(std::string_view name, const Json& json);
  void send_bytes(std::string bytes);

  // The log-probabilities of answer `i` that were heard and not taken yet; and what of the whole answer's was not.
  std::vector<TokenLogprobs> take_logprobs(size_t i);
  std::vector<TokenLogprobs> take_last_logprobs(size_t i, const Answer& answer);

  const Heard& heard() const { return heard_; }
  const http::ExchangePtr& exchange() const { return exchange_; }

 private:
  void tell_end(const Status& status);

  http::ExchangePtr exchange_;
  ErrorStyle style_;
  StreamForm form_;
  Later later_;
  std::string keep_alive_;
  Heard heard_;
  struct Told {
    size_t n_calls = 0;                      // of tools, that were begun
    std::vector<TokenLogprobs> logprobs = {};  // heard, and not taken yet
    size_t n_logprobs_taken = 0;
  };
  std::vector<Told> told_;  // by answer
  bool is_open_ = false;
};

}  // namespace ibid::serve
