// MetricsText: what Prometheus reads (its text format, version 0.0.4), written name by name. And Histogram, for what
// has a distribution.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ibid::serve {

// Seconds, from a millisecond to two minutes. Thread-safe.
class Histogram {
 public:
  static constexpr std::array kBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
                                         1.0,   2.5,    5.0,   10.0, 25.0,  50.0, 120.0};

  void add(double seconds);
  struct Sample {
    std::array<uint64_t, kBounds.size()> at_most{};  // cumulative
    uint64_t n = 0;
    double sum = 0;
  };
  Sample sample() const;

 private:
  std::array<std::atomic<uint64_t>, kBounds.size()> buckets_{};
  std::atomic<uint64_t> n_{0};
  std::atomic<uint64_t> sum_us_{0};
};

class MetricsText {
 public:
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // The same name's values come one behind the other; its help is written once.
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

}  // namespace ibid::serve
