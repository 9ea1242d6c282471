#include "server/protocol/call.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/text.h"
#include "base/utf8.h"
#include "server/http/exchange.h"
#include "server/http/request_reader.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxUserBytes = 256;
constexpr std::string_view kUserHeader = "x-user-id";

// The user that a request names in one or several places, which must agree; empty if it names none.
class NamedUser {
 public:
  void add(std::string_view name, std::string_view param) {
    const auto is_control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; };
    if (name.size() > kMaxUserBytes || std::ranges::any_of(name, is_control) || !utf8_is_valid(name)) {
      throw no_user(param);
    }
    if (name.empty() || name == name_) return;
    if (!name_.empty()) {
      throw Fault{.message = "differs from the user named elsewhere in the request", .param = std::string(param)};
    }
    name_ = name;
  }
  void add(const Json* value, std::string_view param) {
    if (value == nullptr) return;
    if (!value->is_string()) throw no_user(param);
    add(std::string_view(value->get_ref<const std::string&>()), param);
  }

  const std::string& name() const { return name_; }

 private:
  static Fault no_user(std::string_view param) {
    return {.message =
                "must be a string of at most " + std::to_string(kMaxUserBytes) + " bytes, without control characters",
            .param = std::string(param)};
  }

  std::string name_;
};

constexpr double kMostKeepAliveMs = 1e12;  // thirty years

// Parses "1h30m", "1.5s", "300ms", "-1m"; a plain number is seconds. nullopt: not a duration.
std::optional<double> seconds_of_duration(std::string_view text) {
  struct Unit {
    std::string_view name;
    double seconds;
  };
  constexpr Unit kUnits[] = {{"h", 3600}, {"ms", 1e-3}, {"m", 60}, {"s", 1}, {"us", 1e-6}, {"ns", 1e-9}};
  const bool is_negative = text.starts_with('-');
  if (is_negative || text.starts_with('+')) text.remove_prefix(1);
  double seconds = 0;
  for (bool is_first = true; is_first || !text.empty(); is_first = false) {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
    if (error != std::errc() || text.starts_with('-')) return std::nullopt;
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (is_first && text.empty()) {
      seconds = number;
      break;
    }
    const auto unit = std::ranges::find_if(kUnits, [&](const Unit& one) { return text.starts_with(one.name); });
    if (unit == std::end(kUnits)) return std::nullopt;
    seconds += number * unit->seconds;
    text.remove_prefix(unit->name.size());
  }
  if (!std::isfinite(seconds)) return std::nullopt;
  return is_negative ? -seconds : seconds;
}

}  // namespace

Json begin_request(const Site& site, const http::Request& source, std::span<const FieldRule> rules,
                   AnswerRequest& request) {
  Json body = parse_body(source.body);
  static constexpr Field<AnswerRequest> kModel[] = {{model_field<AnswerRequest>().rule, set<&AnswerRequest::model>}};
  read_fields<AnswerRequest>(body, kModel, request);
  request.cache_namespace = read_namespace(site, source, body);
  note_ignored(body, rules, request.ignored);
  if (site.namespace_by_user) {
    const std::string_view user = style_of_path(source.path) == ErrorStyle::kAnthropic ? "metadata" : "user";
    std::erase_if(request.ignored, [&](const IgnoredPart& part) { return part.field == user; });
  }
  find_model(site, request.model, request.ignored);
  request.options = site.backend->default_options(request.model);
  return body;
}

void find_model(const Site& site, std::string& model, IgnoredParts& ignored) {
  if (site.checks_model_names || site.backend->resolve(model).ok()) return;
  const std::vector<ModelCard> cards = site.backend->models();
  if (cards.size() != 1) return;
  ignore(ignored, {.field = "model", .reason = "no model has this name: " + cards.front().name + " answers"});
  model.clear();
}

namespace {

// A client line is an HTTP header whose name begins with one of kClientHeaders, or a list of values ("...; ...;") one
// of which begins with an entry of kClientValues: "x-anthropic-billing-header: cc_version=2.1.177; cch=36ee5;".
constexpr std::string_view kClientHeaders[] = {
    "x-anthropic-", "x-claude-",           "x-codex-",     "x-openai-",  "x-stainless-",
    "x-request-id", "x-client-request-id", "x-session-id", "x-trace-id", "x-correlation-id"};
constexpr std::string_view kClientValues[] = {"cch="};

bool is_client_line(std::string_view line) {
  line = trimmed(line, " \t\r");
  const std::string_view name = line.substr(0, line.find(':'));
  const bool is_header = name.size() < line.size() && name.find(' ') == name.npos;
  if (is_header && std::ranges::any_of(kClientHeaders, [&](std::string_view prefix) {
        return equals_ignoring_case(name.substr(0, prefix.size()), prefix);
      })) {
    return true;
  }
  return std::ranges::any_of(kClientValues, [&](std::string_view value) {
    const std::string in_list = "; " + std::string(value);
    return line.ends_with(';') && (line.starts_with(value) || line.find(in_list) != line.npos);
  });
}

}  // namespace

void drop_client_lines(const Site& site, AnswerRequest& request) {
  if (site.keeps_client_lines || request.messages.empty()) return;
  Json& first = request.messages.front();
  const std::string* text = content_of(first);
  if (!is_from(first, Role::kSystem) || text == nullptr) return;
  size_t begin = 0;  // position after the last client line
  for (size_t at = 0; at < text->size();) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    at = std::min(end + 1, text->size());
    if (is_client_line(line)) {
      begin = at;
    } else if (!trimmed(line, " \t\r").empty()) {
      break;
    }
  }
  if (begin == 0) return;
  ignore(request.ignored,
         {.field = "system", .reason = "its first line is the client's own and changes with each request"});
  if (begin == text->size()) {
    request.messages.erase(0);
  } else {
    set_content(first, text->substr(begin));
  }
}

std::string read_namespace(const Site& site, const http::Request& source, const Json& body) {
  const std::string owner = source.named_namespace.empty()
                                ? source.key_namespace
                                : named_namespace(source.key_namespace, source.named_namespace);
  if (!site.namespace_by_user) return owner;
  NamedUser user;
  user.add(member(body, "user"), "user");
  if (style_of_path(source.path) == ErrorStyle::kAnthropic) {
    const Json* metadata = member(body, "metadata");
    user.add(metadata == nullptr ? nullptr : member(*metadata, "user_id"), "metadata.user_id");
  }
  for (const std::string& value : http::query_values(source.query, "user")) user.add(value, "user");
  for (const auto& [name, value] : source.headers) {
    if (equals_ignoring_case(name, kUserHeader)) user.add(trimmed(value, http::kHeaderBlanks), kUserHeader);
  }
  if (!user.name().empty()) return user_namespace(owner, user.name());
  if (site.allows_no_user || !source.named_namespace.empty()) return owner;
  throw Fault{.message =
                  "this server separates users, and the request names none: send \"user\" in the body or the "
                  "query, or the header x-user-id",
              .param = "user",
              .code = "missing_required_parameter"};
}

std::string read_namespace(const Site& site, const http::Request& source) {
  const bool names_user = site.namespace_by_user && !source.body.empty();
  return read_namespace(site, source, names_user ? parse_body(source.body) : Json());
}

void read_keep_alive(const Json& value, std::optional<std::chrono::milliseconds>& keep_alive) {
  constexpr const char* kRule = "must be a number of seconds, or a duration such as \"5m\" or \"1h30m\"";
  if (!value.is_number() && !value.is_string()) throw wrong_type(kRule);
  const std::optional<double> seconds =
      value.is_number() ? value.get<double>() : seconds_of_duration(value.get_ref<const std::string&>());
  if (!seconds) throw Fault{.message = kRule};
  // Rounded up, because a fraction of a millisecond must not become 0, which unloads at once.
  const double ms = *seconds < 0 ? -1 : std::min(std::ceil(*seconds * 1000), kMostKeepAliveMs);
  keep_alive = std::chrono::milliseconds(static_cast<int64_t>(ms));
}

}  // namespace ibid::serve
