// ClientExchange: the exchange that a handler holds. Its request is its own; its response goes to the reply, which the
// connection takes it from. Beside it, how what was read of a client becomes a request, and a line of the log.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "server/http/body_budget.h"
#include "server/http/door.h"
#include "server/http/exchange.h"
#include "server/http/reply.h"
#include "server/http/request_reader.h"

namespace ibid::http {

// Takes the body from the reader. REQUIRES: the request was read whole, and may pass.
Request make_request(uint64_t id, RequestReader& reader, const Admission& admission, const std::string& client);
// What is known before it is answered.
ExchangeRecord make_record(uint64_t id, const RequestReader& reader, const Admission& admission,
                           const std::string& client);

class ClientExchange : public Exchange {
 public:
  ClientExchange(Request request, std::shared_ptr<Reply> reply, BodyAllowance allowance)
      : request_(std::move(request)), reply_(std::move(reply)), allowance_(std::move(allowance)) {}
  ~ClientExchange() override { reply_->let_go(); }

  const Request& request() const override { return request_; }
  void respond(Response response) override { reply_->respond(std::move(response)); }
  void begin_stream(int status, std::string_view content_type, Headers headers) override {
    reply_->begin_stream(status, content_type, std::move(headers));
  }
  bool send(std::string bytes) override { return reply_->send(std::move(bytes)); }
  void end_stream() override { reply_->end_stream(); }
  void set_keep_alive(std::string bytes, std::chrono::milliseconds every) override {
    reply_->set_keep_alive(std::move(bytes), every);
  }
  void set_figures(AnswerFigures figures) override { reply_->set_figures(std::move(figures)); }
  std::stop_token gone() const override { return reply_->gone(); }

 private:
  const Request request_;
  const std::shared_ptr<Reply> reply_;
  const BodyAllowance allowance_;
};

}  // namespace ibid::http
