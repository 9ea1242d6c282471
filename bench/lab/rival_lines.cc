#include "bench/lab/rival_lines.h"

#include <algorithm>
#include <cmath>

namespace ibid {

namespace {

constexpr uint64_t kMaxFileBytes = 64'000'000;
constexpr JsonLimits kLineLimits = {.max_bytes = 1'000'000, .max_depth = 16, .max_values = 10'000};
constexpr const char* kUnnamedEngine = "rival";

Result<const Json*> required(const Json& line, const char* field, const std::string& where) {
  const auto found = line.find(field);
  if (found == line.end())
    return Status(ErrorCode::kMissingKey, where + ": the field \"" + field + "\" is missing");
  return &*found;
}

Result<size_t> count_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_number_unsigned()) {
    return Status(ErrorCode::kBadNumber,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", wanted a count");
  }
  return value->get<size_t>();
}

Result<double> positive_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_number()) {
    return Status(ErrorCode::kBadType,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", wanted a number");
  }
  const auto number = value->get<double>();
  if (!std::isfinite(number) || number <= 0) {
    return Status(ErrorCode::kBadNumber,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", wanted a positive number");
  }
  return number;
}

Result<std::string> string_field(const Json& line, const char* field, const std::string& where) {
  TRY_ASSIGN(const Json* const value, required(line, field, where));
  if (!value->is_string()) {
    return Status(ErrorCode::kBadType,
                  where + ": \"" + field + "\" is " + json_to_string(*value) + ", wanted a string");
  }
  return value->get<std::string>();
}

Rival& rival_named(std::vector<Rival>& rivals, const std::string& engine) {
  const auto found =
      std::find_if(rivals.begin(), rivals.end(), [&](const Rival& r) { return r.engine == engine; });
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
  if (!is_new)
    best->second = kind->less_is_better ? std::min(best->second, value) : std::max(best->second, value);
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
    return Status(ErrorCode::kMissingKey,
                  path + ": no figure of a known kind (\"what\": \"prefill\", \"decode\" ...)");
  }
  return rivals;
}

Result<std::vector<Rival>> read_rival_file(FileOps& files, const std::string& path) {
  TRY_ASSIGN(const std::string text, read_file(files, path, kMaxFileBytes));
  return parse_rival_lines(text, path);
}

}  // namespace ibid
