#include "bench/lab/figure.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace ibid {

namespace {

constexpr FigureKind kKinds[] = {
    {"load", {nullptr, nullptr}, "load", "ms", "ms", true},
    {"memory", {nullptr, nullptr}, "memory", "peak_mb", "MB", true},
    {"prefill", {"n", nullptr}, "prefill of #", "tps", "tok/s", false},
    {"decode", {"depth", nullptr}, "decode behind #", "tps", "tok/s", false},
    {"turn", {"history", "n"}, "@ tokens behind #", "ttft_ms", "ms", true},
    {"chat_turn", {"system_tokens", "turn"}, "turn @, system of #", "ttft_ms", "ms", true},
    {"conversation", {"turn", nullptr}, "turn #", "ttft_ms", "ms", true},
    {"serve_first", {"users", "rounds"}, "first token", "first_ms", "ms", true},
    {"serve_first_p90", {"users", "rounds"}, "first token, p90", "first_ms", "ms", true},
    {"serve_first_p99", {"users", "rounds"}, "first token, p99", "first_ms", "ms", true},
    {"serve_later", {"users", "rounds"}, "first token of later rounds", "first_ms", "ms", true},
    {"serve_later_p90", {"users", "rounds"}, "first token of later rounds, p90", "first_ms", "ms", true},
    {"serve_later_p99", {"users", "rounds"}, "first token of later rounds, p99", "first_ms", "ms", true},
    {"serve_token", {"users", "rounds"}, "time per token", "token_ms", "ms", true},
    {"serve_token_p90", {"users", "rounds"}, "time per token, p90", "token_ms", "ms", true},
    {"serve_token_p99", {"users", "rounds"}, "time per token, p99", "token_ms", "ms", true},
    {"serve_rate", {"users", "rounds"}, "said in all", "tps", "tok/s", false},
    {"serve_prompt", {"users", "rounds"}, "prompt tokens", "tokens", "tokens", true},
    {"serve_cached", {"users", "rounds"}, "cached tokens", "tokens", "tokens", false},
    {"serve_said_least", {"users", "rounds"}, "shortest answer", "tokens", "tokens", false},
    {"serve_said_most", {"users", "rounds"}, "longest answer", "tokens", "tokens", false},
    {"serve_failed", {"users", "rounds"}, "failed requests", "requests", "requests", true},
};

double at_fraction(const std::vector<double>& sorted, double fraction) {
  const double place = fraction * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (place - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

// Five significant digits: nobody reads sixteen of a clock.
double rounded(double value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double scale = std::pow(10.0, 4 - std::floor(std::log10(std::fabs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace

const FigureKind* find_figure_kind(std::string_view what) {
  for (const FigureKind& kind : kKinds) {
    if (what == kind.what) return &kind;
  }
  return nullptr;
}

Spread spread_of(std::vector<double> samples) {
  CHECK(!samples.empty());
  std::sort(samples.begin(), samples.end());
  return {at_fraction(samples, 0.25), at_fraction(samples, 0.5), at_fraction(samples, 0.75)};
}

std::string Figure::label() const {
  std::string text;
  for (const char* c = kind->label; *c != '\0'; ++c) {
    text += *c == '#' ? std::to_string(at[0]) : *c == '@' ? std::to_string(at[1]) : std::string(1, *c);
  }
  return text;
}

Json Figure::as_json() const {
  Json json = {{"what", kind->what}};
  for (size_t i = 0; i < kMaxFigureKeys; ++i) {
    if (kind->keys[i] != nullptr) json[kind->keys[i]] = at[i];
  }
  json[kind->value] = rounded(value.median);
  if (value.q1 != value.q3) {
    json["q1"] = rounded(value.q1);
    json["q3"] = rounded(value.q3);
  }
  if (throughput.field != nullptr) {
    json[throughput.field] = rounded(throughput.value);
    if (throughput.peak > 0) json["peak_percent"] = rounded(throughput.percent());
  }
  for (const auto& [field, detail] : details.items()) {
    json[field] = detail.is_number_float() ? Json(rounded(detail.get<double>())) : detail;
  }
  return json;
}

PrefillStep worst_prefill_step(std::span<const Figure> figures) {
  std::vector<const Figure*> prefills;
  for (const Figure& figure : figures) {
    if (figure.kind == find_figure_kind("prefill")) prefills.push_back(&figure);
  }
  std::sort(prefills.begin(), prefills.end(),
            [](const Figure* a, const Figure* b) { return a->at[0] < b->at[0]; });
  PrefillStep worst;
  for (size_t i = 1; i < prefills.size(); ++i) {
    const Spread &shorter = prefills[i - 1]->value, &longer = prefills[i]->value;
    const double ratio = longer.median / shorter.median;
    if (i > 1 && ratio >= worst.ratio) continue;
    worst = {prefills[i - 1]->at[0], prefills[i]->at[0], ratio, longer.q3 < shorter.q1};
  }
  return worst;
}

}  // namespace ibid
