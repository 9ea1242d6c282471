// ServerMetrics: what GET /metrics says. It counts exchanges as they are reported, and asks the rooms of the server for
// the rest when it is asked itself. It takes no lock that a pass of a model holds for longer than it takes to read some
// numbers. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "server/http/server.h"
#include "server/metrics_text.h"

namespace ibid::serve {

class AnswerService;
class ModelHost;
class RequestLog;

class ServerMetrics {
 public:
  void add(const http::ExchangeRecord& record);
  // Whose dropped lines are told. Set before any other thread calls.
  void set_log(std::shared_ptr<const RequestLog> log) { log_ = std::move(log); }

  // service, models: may be null.
  std::string text(const http::ServerStats& server, const AnswerService* service, const ModelHost* models) const;

 private:
  void write_exchanges(MetricsText& text) const;
  void write_sequences(MetricsText& text) const;

  using RouteKey = std::tuple<std::string, std::string, int>;  // pattern, method, status: as many as the code has
  mutable std::mutex mutex_;
  std::map<RouteKey, uint64_t> n_requests_;
  uint64_t n_bytes_in_ = 0, n_bytes_out_ = 0, n_clients_gone_ = 0;
  std::map<std::string_view, uint64_t> n_ended_;  // answers, by why they ended
  uint64_t n_tokens_max_ = 0;
  double prompt_seconds_ = 0, predicted_seconds_ = 0;

  std::shared_ptr<const RequestLog> log_;  // may be null
  Histogram request_seconds_, first_token_seconds_, token_seconds_, queue_seconds_;
};

}  // namespace ibid::serve
