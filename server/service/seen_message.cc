#include "server/service/seen_message.h"

#include <xxhash.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "templates/message.h"

namespace ibid::serve {
namespace {

bool is_reasoning_key(std::string_view key) {
  return std::find(std::begin(kReasoningKeys), std::end(kReasoningKeys), key) != std::end(kReasoningKeys);
}

bool is_empty_value(const Json& value) {
  return value.is_null() || (value.is_string() && value.get_ref<const std::string&>().empty()) ||
         (value.is_structured() && value.empty());
}

// Appends the length before the part, so that the boundary between parts is unambiguous.
void append_part(std::string& out, std::string_view part) {
  out += std::to_string(part.size());
  out += ':';
  out += part;
}

const Json* member(const Json& object, std::string_view key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

// Returns the text of a content that is only one text, else nullptr.
const std::string* one_text(const Json& content) {
  if (content.is_string()) return &content.get_ref<const std::string&>();
  if (!content.is_array() || content.size() != 1 || !content[0].is_object()) return nullptr;
  const Json& part = content[0];
  const std::string* type = text_member(part, "type");
  if (type == nullptr || *type != "text") return nullptr;
  for (const auto& [key, value] : part.items()) {
    if (key != "type" && key != "text" && !is_empty_value(value)) return nullptr;
  }
  return text_member(part, "text");
}

void append_content(std::string& out, const Json& content) {
  if (is_empty_value(content)) return;
  if (const std::string* text = one_text(content)) {
    if (text->empty()) return;
    out += 't';
    return append_part(out, *text);
  }
  out += 'j';
  append_part(out, json_to_string(content));
}

// Writes whole numbers that a double represents exactly in one form, because JavaScript clients write 1.0 as 1.
void write_whole_numbers(Json& value) {
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  if (value.is_number_float()) {
    const double number = value.get<double>();
    if (number == std::trunc(number) && std::abs(number) <= kMostExact) value = static_cast<int64_t>(number);
  } else if (value.is_structured()) {
    for (Json& part : value) write_whole_numbers(part);
  }
}

void append_value(std::string& out, Json value) {
  write_whole_numbers(value);
  append_part(out, json_to_string(value));
}

void append_arguments(std::string& out, const Json& arguments) {
  if (!arguments.is_string()) return append_value(out, arguments);
  const std::string& text = arguments.get_ref<const std::string&>();
  Result<Json> parsed = parse_json(text, "arguments");
  if (!parsed.ok()) return append_part(out, text);
  append_value(out, *std::move(parsed));
}

void append_calls(std::string& out, const Json& calls) {
  if (!calls.is_array()) return append_part(out, json_to_string(calls));
  for (const Json& call : calls) {
    const Json* function = member(call, "function");
    const Json& of = function == nullptr ? call : *function;
    const std::string* name = text_member(of, "name");
    const Json* arguments = member(of, "arguments");
    if (name == nullptr) {
      append_part(out, json_to_string(call));
      continue;
    }
    append_part(out, *name);
    append_arguments(out, arguments == nullptr ? Json::object() : *arguments);
  }
}

}  // namespace

std::string seen_form(const Json& message) {
  std::string out;
  append_part(out, role_of(message));
  if (!message.is_object()) return out + json_to_string(message);
  const bool is_answer = is_from(message, Role::kAssistant);
  std::vector<std::pair<std::string_view, const Json*>> others;
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
    if (key == "role" || is_empty_value(value)) continue;
    if (key == "content") {
      append_content(out, value);
    } else if (!is_answer || !is_reasoning_key(key)) {
      others.emplace_back(key, &value);
    }
  }
  std::sort(others.begin(), others.end());
  for (const auto& [key, value] : others) {
    out += 'k';
    append_part(out, key);
    if (key == "tool_calls") {
      append_calls(out, *value);
    } else {
      append_part(out, json_to_string(*value));
    }
  }
  return out;
}

std::string seen_reasoning(const Json& message) {
  const std::string* reasoning = reasoning_of(message);
  return reasoning == nullptr ? std::string() : *reasoning;
}

bool is_seen_as(const Json& known, const Json& sent) {
  if (seen_form(known) != seen_form(sent)) return false;
  if (!is_from(sent, Role::kAssistant)) return true;
  const std::string reasoning = seen_reasoning(sent);
  return reasoning.empty() || reasoning == seen_reasoning(known);
}

uint64_t chain_start(const std::string& space, uint64_t seed) {
  return XXH3_64bits_withSeed(space.data(), space.size(), seed);
}

uint64_t chain_hash(uint64_t before, const Json& message) {
  const std::string form = seen_form(message);
  return XXH3_64bits_withSeed(form.data(), form.size(), before);
}

}  // namespace ibid::serve
