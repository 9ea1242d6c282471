#include "server/metrics_text.h"

#include <charconv>

namespace ibid::serve {

namespace {

std::string number_text(double value) {
  char text[64];
  const auto [end, error] = std::to_chars(text, text + sizeof(text), value);
  return error == std::errc() ? std::string(text, end) : "0";
}

// Backslash, quote and newline are written with a backslash.
std::string escaped_label(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '\\' || c == '"') escaped += '\\';
    escaped += c == '\n' ? "\\n" : std::string(1, c);
  }
  return escaped;
}

}  // namespace

void Histogram::add(double seconds) {
  if (!(seconds >= 0)) return;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    if (seconds > kBounds[i]) continue;
    ++buckets_[i];
    break;
  }
  ++n_;
  sum_us_ += static_cast<uint64_t>(seconds * 1e6);
}

Histogram::Sample Histogram::sample() const {
  Sample sample;
  uint64_t n_below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) sample.at_most[i] = n_below += buckets_[i];
  // Others may add meanwhile; the last bucket holds the others.
  sample.n = std::max<uint64_t>(n_, n_below);
  sample.sum = static_cast<double>(sum_us_) / 1e6;
  return sample;
}

void MetricsText::begin(std::string_view name, std::string_view help, std::string_view type) {
  if (last_name_ == name) return;
  last_name_ = name;
  text_ += "# HELP " + last_name_ + " " + std::string(help) + "\n# TYPE " + last_name_ + " " + std::string(type) + "\n";
}

void MetricsText::value(std::string_view name, double value, const Labels& labels) {
  text_ += name;
  for (size_t i = 0; i < labels.size(); ++i) {
    text_ += i == 0 ? "{" : ",";
    text_ += std::string(labels[i].first) + "=\"" + escaped_label(labels[i].second) + "\"";
  }
  text_ += (labels.empty() ? " " : "} ") + number_text(value) + "\n";
}

void MetricsText::counter(std::string_view name, std::string_view help, double number, const Labels& labels) {
  begin(name, help, "counter");
  value(name, number, labels);
}

void MetricsText::gauge(std::string_view name, std::string_view help, double number, const Labels& labels) {
  begin(name, help, "gauge");
  value(name, number, labels);
}

void MetricsText::histogram(std::string_view name, std::string_view help, const Histogram::Sample& sample) {
  begin(name, help, "histogram");
  const std::string bucket = std::string(name) + "_bucket";
  for (size_t i = 0; i < Histogram::kBounds.size(); ++i) {
    value(bucket, static_cast<double>(sample.at_most[i]), {{"le", number_text(Histogram::kBounds[i])}});
  }
  value(bucket, static_cast<double>(sample.n), {{"le", "+Inf"}});
  value(std::string(name) + "_sum", sample.sum, {});
  value(std::string(name) + "_count", static_cast<double>(sample.n), {});
}

}  // namespace ibid::serve
