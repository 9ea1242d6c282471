#include "runtime/session/message_json.h"

#include <string>
#include <utility>

#include "base/json_limits.h"

namespace ibid {
namespace {

using Rows = Json::object_t::Container;  // its emplace_back() does not search for the key, unlike that of Json

// Parses a JSON object of the caller. It becomes an element of the array of messages, so its maximum depth is reduced.
Result<Json> parse_object(std::string_view text, const char* what) {
  Result<Json> parsed = parse_json(text, what, {.max_depth = kMaxJsonDepth - 2});
  if (!parsed.ok()) return {ErrorCode::kInvalidArgument, parsed.status().message()};
  if (!parsed->is_object()) return {ErrorCode::kInvalidArgument, std::string(what) + ": not a JSON object"};
  return parsed;
}

}  // namespace

Result<Json> json_of(const Message& message) {
  Json out = Json::object();
  Rows& rows = out.get_ref<Json::object_t&>();
  rows.emplace_back("role", message.role);
  if (message.fields.empty()) {
    rows.emplace_back("content", message.content);
    return out;
  }
  TRY_ASSIGN(Json fields, parse_object(message.fields, "the message's fields"));
  if (fields.contains("role")) {
    return {ErrorCode::kInvalidArgument, "the message's fields: \"role\" is given twice"};
  }
  if (!message.content.empty()) {
    if (fields.contains("content")) {
      return {ErrorCode::kInvalidArgument, "the message's fields: \"content\" is given twice"};
    }
    rows.emplace_back("content", message.content);
  }
  for (auto& [key, value] : fields.get_ref<Json::object_t&>()) rows.emplace_back(key, std::move(value));
  return out;
}

Result<Json> history_of(const std::vector<Message>& messages) {
  Json out = Json::array();
  for (size_t i = 0; i < messages.size(); ++i) {
    Result<Json> message = json_of(messages[i]);
    if (!message.ok()) {
      return {message.status().code(), "message " + std::to_string(i) + ": " + message.status().message()};
    }
    out.push_back(*std::move(message));
  }
  return out;
}

Message message_of(const Json& message) {
  Message out;
  Json fields = Json::object();
  const auto content = message.find("content");
  const bool is_text = content != message.end() && content->is_string();
  // Empty content beside other fields stays in `fields`, to distinguish it from missing content.
  const bool stands_alone = is_text && (message.size() == 2 || !content->get_ref<const std::string&>().empty());
  for (const auto& [key, value] : message.get_ref<const Json::object_t&>()) {
    if (key == "role") {
      out.role = value.get_ref<const std::string&>();
    } else if (key == "content" && stands_alone) {
      out.content = value.get_ref<const std::string&>();
    } else {
      static_cast<Rows&>(fields.get_ref<Json::object_t&>()).emplace_back(key, value);
    }
  }
  if (!stands_alone || !fields.empty()) out.fields = json_to_string(fields);
  return out;
}

Result<Json> variables_of(std::string_view text) {
  if (text.empty()) return Json::object();
  return parse_object(text, "the template's variables");
}

}  // namespace ibid
