// ServerMetrics: the text of GET /metrics. It counts exchanges as they are reported, and reads all other figures from
// the parts of the server when the text is requested. It takes only locks that the compute thread holds very briefly.
// Thread-safe. MetricsText and Histogram write the format.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "server/http/server.h"

namespace ibid::serve {

struct HostedModel;
class KvEventPublisher;
class ModelHost;
class RequestLog;
class Service;
struct ServiceStats;

// A histogram of seconds, from a millisecond to two minutes. Thread-safe.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,  0.25,
                                         0.5,   1.0,    2.5,   5.0,  10.0,  25.0, 50.0, 120.0};

  void add(double seconds);
  struct Sample {
    std::array<uint64_t, kBounds.size()> at_most{};  // entry i counts the values up to kBounds[i]
    uint64_t n = 0;
    double sum = 0;
  };
  Sample sample() const;

 private:
  std::array<std::atomic<uint64_t>, kBounds.size()> buckets_{};
  std::atomic<uint64_t> n_{0};
  std::atomic<uint64_t> sum_us_{0};
};

// Writes the text format of Prometheus, version 0.0.4, metric by metric.
class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // Adds a value. Add all values of one name consecutively; the name's help is written once.
  void counter(std::string_view name, std::string_view help, double value, const Labels& labels = {});
  void gauge(std::string_view name, std::string_view help, double value, const Labels& labels = {});
  void histogram(std::string_view name, std::string_view help, const Histogram::Sample& sample);

  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, std::string_view help, std::string_view type);
  void value(std::string_view name, double value, const Labels& labels);

  std::string text_;
  std::string last_name_;
};

class ServerMetrics {
 public:
  void add(const http::ExchangeRecord& record);
  // Sets the log whose dropped lines are reported. REQUIRES: no other thread uses this object yet.
  void set_log(std::shared_ptr<const RequestLog> log) { log_ = std::move(log); }
  // Sets the publisher whose batches are counted. REQUIRES: it outlives the calls of text().
  void set_events(const KvEventPublisher* events) { events_ = events; }

  int64_t start_s() const { return start_s_; }  // seconds since 1970

  // `service` and `models` may be null.
  std::string text(const http::ServerStats& server, const Service* service, const ModelHost* models) const;

 private:
  void write_exchanges(MetricsText& text) const;
  void write_sequences(MetricsText& text) const;
  void write_llama_names(MetricsText& text, const ServiceStats& stats, const std::vector<HostedModel>& models) const;

  using RouteKey = std::tuple<std::string, std::string, int>;  // pattern, method, status; no text of clients
  mutable std::mutex mutex_;
  std::map<RouteKey, uint64_t> n_requests_;
  uint64_t n_bytes_in_ = 0, n_bytes_out_ = 0, n_clients_gone_ = 0;
  std::map<std::string_view, uint64_t> n_ended_;  // number of answers for each finish reason
  uint64_t n_tokens_max_ = 0;
  double prompt_seconds_ = 0, predicted_seconds_ = 0;

  const int64_t start_s_ = system_clock().unix_ns() / 1'000'000'000;
  std::shared_ptr<const RequestLog> log_;  // may be null
  std::atomic<const KvEventPublisher*> events_{nullptr};
  Histogram request_seconds_, first_token_seconds_, token_seconds_, queue_seconds_;
};

}  // namespace ibid::serve
