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
    {"decode", {"depth", nullptr}, "decode at depth #", "tps", "tok/s", false},
    {"turn", {"history", "n"}, "@ tokens at depth #", "ttft_ms", "ms", true},
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
    {"serve_rate", {"users", "rounds"}, "generated in total", "tps", "tok/s", false},
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

// Rounds to five significant digits, because a clock is not more precise.
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
  std::sort(prefills.begin(), prefills.end(), [](const Figure* a, const Figure* b) { return a->at[0] < b->at[0]; });
  PrefillStep worst;
  for (size_t i = 1; i < prefills.size(); ++i) {
    const Spread &shorter = prefills[i - 1]->value, &longer = prefills[i]->value;
    const double ratio = longer.median / shorter.median;
    if (i > 1 && ratio >= worst.ratio) continue;
    worst = {prefills[i - 1]->at[0], prefills[i]->at[0], ratio, longer.q3 < shorter.q1};
  }
  return worst;
}

namespace {

constexpr uint64_t kMaxFileBytes = 64'000'000;
constexpr JsonLimits kLineLimits = {.max_bytes = 1'000'000, .max_depth = 16, .max_values = 10'000};
constexpr const char* kUnnamedEngine = "rival";

Result<const Json*> required(const Json& line, const char* field, const std::string& where) {
  const auto found = line.find(field);
  if (found == line.end()) return Status(ErrorCode::kMissingKey, where + ": the field \"" + field + "\" is missing");
  return &*found;
}

Result<size_t> count_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_number_unsigned()) {
    return Status(ErrorCode::kBadNumber,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", expected a count");
  }
  return value->get<size_t>();
}

Result<double> positive_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_number()) {
    return Status(ErrorCode::kBadType,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", expected a number");
  }
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number <= 0) {
    return Status(ErrorCode::kBadNumber,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", expected a positive number");
  }
  return number;
}

Result<std::string> string_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_string()) {
    return Status(ErrorCode::kBadType,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", expected a string");
  }
  return value->get<std::string>();
}

Rival& rival_named(std::vector<Rival>& rivals, const std::string& engine) {
  const auto found = std::find_if(rivals.begin(), rivals.end(), [&](const Rival& r) { return r.engine == engine; });
  if (found != rivals.end()) return *found;
  return rivals.emplace_back(Rival{engine, {}});
}

Status add_line(std::string_view text, const std::string& where, std::vector<Rival>& rivals) {
  TRY_ASSIGN(const Json line, parse_json(text, where, kLineLimits));
  if (!line.is_object()) return {ErrorCode::kBadType, where + ": not an object"};
  TRY_ASSIGN(const std::string what, string_field(line, "what", where));
  std::string engine = kUnnamedEngine;
  if (line.contains("engine")) {
    TRY_ASSIGN(engine, string_field(line, "engine", where));
  }
  const FigureKind* kind = find_figure_kind(what);
  if (kind == nullptr) return {};
  Rival::Key key = {kind, {}};
  for (size_t i = 0; i < kMaxFigureKeys; ++i) {
    if (kind->keys[i] == nullptr) continue;
    TRY_ASSIGN(key.second[i], count_field(line, kind->keys[i], where));
  }
  TRY_ASSIGN(const double value, positive_field(line, kind->value, where));
  const auto [best, is_new] = rival_named(rivals, engine).best.try_emplace(key, value);
  if (!is_new) best->second = kind->less_is_better ? std::min(best->second, value) : std::max(best->second, value);
  return {};
}

}  // namespace

std::optional<double> Rival::value_for(const Figure& figure) const {
  const auto found = best.find({figure.kind, figure.at});
  return found == best.end() ? std::nullopt : std::optional<double>(found->second);
}

std::optional<double> Rival::ratio_for(const Figure& figure) const {
  const std::optional<double> theirs = value_for(figure);
  const double ours = figure.value.median;
  if (!theirs || ours <= 0) return std::nullopt;
  return figure.kind->less_is_better ? *theirs / ours : ours / *theirs;
}

Result<std::vector<Rival>> parse_rival_lines(std::string_view text, const std::string& path) {
  std::vector<Rival> rivals;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    TRY(add_line(line, path + " line " + std::to_string(number), rivals));
  }
  if (rivals.empty()) {
    return Status(ErrorCode::kMissingKey, path + ": no figure of a known kind (\"what\": \"prefill\", \"decode\" ...)");
  }
  return rivals;
}

Result<std::vector<Rival>> read_rival_file(FileOps& files, const std::string& path) {
  TRY_ASSIGN(const std::string text, read_file(files, path, kMaxFileBytes));
  return parse_rival_lines(text, path);
}

}  // namespace ibid
