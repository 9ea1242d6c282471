#include "templates/message.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>

#include "base/utf8.h"

namespace ibid {
namespace {

bool is_utf8(const Json& value) {
  if (value.is_string()) return utf8_is_valid(value.get_ref<const std::string&>());
  if (value.is_object()) {
    return std::all_of(value.items().begin(), value.items().end(),
                       [](const auto& item) { return utf8_is_valid(item.key()) && is_utf8(item.value()); });
  }
  return !value.is_array() || std::all_of(value.begin(), value.end(), is_utf8);
}

// Compares two integers by value, whether they were parsed as signed or unsigned.
bool is_same_integer(const Json& a, const Json& b) {
  const bool a_is_negative = !a.is_number_unsigned() && a.get<int64_t>() < 0;
  const bool b_is_negative = !b.is_number_unsigned() && b.get<int64_t>() < 0;
  return a_is_negative == b_is_negative && a.get<uint64_t>() == b.get<uint64_t>();
}

}  // namespace

Status check_text(std::string_view name, std::string_view text) {
  if (utf8_is_valid(text)) return {};
  return {ErrorCode::kInvalidArgument, std::string(name) + " is not valid UTF-8"};
}

Status check_message(const Json& message) {
  if (!has_role(message)) {
    return {ErrorCode::kInvalidArgument, "a message must be an object with a string \"role\""};
  }
  if (!is_utf8(message)) return {ErrorCode::kInvalidArgument, "the message is not valid UTF-8"};
  return {};
}

Status check_variables(const Json& variables) {
  if (!variables.is_object()) {
    return {ErrorCode::kInvalidArgument, "the template's variables must be a JSON object"};
  }
  if (!is_utf8(variables)) return {ErrorCode::kInvalidArgument, "the template's variables are not valid UTF-8"};
  return {};
}

bool is_reply(const Json& message, std::string_view text) {
  if (!is_from(message, Role::kAssistant)) return false;
  // Accept the message whatever its text is, because this function does not know how the template renders these
  // members.
  if (message.contains("tool_calls") || reasoning_of(message) != nullptr) return true;
  const std::string* content = content_of(message);
  return content != nullptr && content->starts_with(text);
}

std::string leading_system_text(const Json& messages) {
  if (messages.empty() || !is_from(messages[0], Role::kSystem)) return {};
  const std::string* content = content_of(messages[0]);
  return content == nullptr ? std::string() : *content;
}

bool is_same_json(const Json& a, const Json& b) {
  if (a.is_number_integer() && b.is_number_integer()) return is_same_integer(a, b);  // including unsigned ones
  if (a.type() != b.type()) return false;
  switch (a.type()) {
    case Json::value_t::array: return std::equal(a.begin(), a.end(), b.begin(), b.end(), is_same_json);
    case Json::value_t::object: {
      const auto& left = a.get_ref<const Json::object_t&>();
      const auto& right = b.get_ref<const Json::object_t&>();
      return std::equal(left.begin(), left.end(), right.begin(), right.end(), [](const auto& x, const auto& y) {
        return x.first == y.first && is_same_json(x.second, y.second);
      });
    }
    case Json::value_t::number_float:
      return std::bit_cast<uint64_t>(a.get<double>()) == std::bit_cast<uint64_t>(b.get<double>());
    case Json::value_t::string: return a.get_ref<const std::string&>() == b.get_ref<const std::string&>();
    default: return a == b;
  }
}

}  // namespace ibid
