#include "server/protocol/chat_messages.h"

#include <algorithm>
#include <utility>

#include "server/protocol/field.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxToolCalls = 256;
constexpr size_t kMaxNameBytes = 256;
constexpr size_t kMaxRoleBytes = 64;

void read_part(const Json& part, const ReadPlace& place, std::string& text) {
  const std::string* type = text_member(part, "type");
  if (part.is_string() || (type == nullptr && text_member(part, "text") != nullptr)) {
    text += part.is_string() ? part.get_ref<const std::string&>() : need_text(part, "text");
    return;
  }
  if (type == nullptr) throw wrong_type("must be a string, or an object with a string \"type\"");
  if (*type == "text" || *type == "input_text" || *type == "output_text") {
    text += need_text(part, "text");
  } else if (*type == "refusal") {
    if (const std::string* words = text_member(part, "refusal")) text += *words;
  } else if (const Json* document = text_of_document(part)) {
    text += read_content(*document, place);
  } else {
    check_is_no_medium(*type);
    place.leave_out(*type);
  }
}

// Copies an optional text field of a message.
void copy_text(const Json& message, std::string_view name, Json& copy) {
  const Json* value = member(message, name);
  if (value == nullptr) return;
  read_at("." + std::string(name), [&] { check_shape({.shape = Shape::kText}, *value); });
  copy[std::string(name)] = *value;
}

void read_tool_call(const Json& call, Json& calls) {
  std::string_view type = type_of(call);
  if (type.empty()) type = "function";
  const Json* function = member(call, type);  // a custom tool: {"type": "custom", "custom": {"name", "input"}}
  const std::string* name = function == nullptr ? nullptr : text_member(*function, "name");
  if (name == nullptr || name->empty() || name->size() > kMaxNameBytes) {
    throw wrong_type("must be a string of 1 to 256 bytes", "." + std::string(type) + ".name");
  }
  const Json* arguments = member(*function, "arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    throw wrong_type("must be a string that contains JSON", "." + std::string(type) + ".arguments");
  }
  const std::string* id = text_member(call, "id");
  calls.push_back(tool_call_json(id == nullptr ? "" : *id, *name, arguments_text(*function)));
}

void read_tool_calls(const Json& message, Json& copy) {
  Json calls = Json::array();
  if (const Json* list = member(message, "tool_calls")) {
    read_at(".tool_calls", [&] {
      check_shape({.shape = Shape::kList, .least = 0, .most = kMaxToolCalls}, *list);
      read_each(*list, [&](const Json& call) { read_tool_call(call, calls); });
    });
  } else if (const Json* call = member(message, "function_call")) {  // the older form: one call without an id
    read_at(".function_call",
            [&] { calls.push_back(tool_call_json("", need_text(*call, "name", 1), arguments_text(*call))); });
  }
  if (!calls.empty()) copy["tool_calls"] = std::move(calls);
}

// Returns the template's name of a message's role. A role that is not a common one stays as it is, and is reported.
std::string read_role(const Json& message, const ReadPlace& place) {
  const std::string_view name = role_of(message);
  if (name == "developer") return std::string(role_name(Role::kSystem));
  if (name == "function") return std::string(role_name(Role::kTool));
  if (name.empty() || name.size() > kMaxRoleBytes) {
    throw Fault{.message =
                    "must be \"system\", \"developer\", \"user\", \"assistant\", \"tool\", or a role that the "
                    "model's chat template knows, of at most 64 bytes",
                .param = ".role"};
  }
  constexpr Role kCommon[] = {Role::kSystem, Role::kUser, Role::kAssistant, Role::kTool};
  if (std::ranges::none_of(kCommon, [&](Role role) { return is_from(message, role); })) {
    ignore(place.ignored, {.field = place.path + ".role",
                           .reason = "is not a standard role: its effect depends on the chat template"});
  }
  return std::string(name);
}

}  // namespace

void ReadPlace::leave_out(std::string_view type) const {
  constexpr size_t kMaxTypeBytes = 64;
  ignore(ignored,
         {.field = path, .reason = "the type \"" + std::string(type.substr(0, kMaxTypeBytes)) + "\" is not supported"});
}

const Json* text_of_document(const Json& part) {
  if (type_of(part) == "search_result") return member(part, "content");
  const Json* source = type_of(part) == "document" ? member(part, "source") : nullptr;
  if (source == nullptr) return nullptr;
  if (type_of(*source) == "text") return member(*source, "data");
  return type_of(*source) == "content" ? member(*source, "content") : nullptr;
}

void check_is_no_medium(std::string_view type) {
  const auto has = [&](std::string_view word) { return type.find(word) != std::string_view::npos; };
  if (!has("image") && !has("audio") && !has("video") && !has("file") && type != "document") return;
  throw Fault{.message = "only text is supported: no images, audio, video or files",
              .param = ".type",
              .code = "unsupported_content"};
}

void read_chat_message(const Json& message, const ReadPlace& place, Json& messages) {
  if (!message.is_object()) throw wrong_type("must be an object");
  Json copy = Json::object();
  copy["role"] = read_role(message, place);
  copy_text(message, "name", copy);
  const Json* content = member(message, "content");
  std::string text;
  if (content != nullptr) read_at(".content", [&] { text = read_content(*content, place.at("content")); });
  set_content(copy, std::move(text));
  if (is_from(copy, Role::kTool)) copy_text(message, "tool_call_id", copy);
  if (is_from(copy, Role::kAssistant)) {
    copy_text(message, "reasoning_content", copy);
    if (const std::string* reasoning = reasoning_of(message)) copy["reasoning_content"] = *reasoning;
    read_tool_calls(message, copy);
  }
  if (content == nullptr && !copy.contains("tool_calls")) throw missing_field(".content");
  messages.push_back(std::move(copy));
}

std::string read_content(const Json& content, const ReadPlace& place) {
  if (content.is_string()) return content.get<std::string>();
  if (!content.is_array()) throw wrong_type("must be a string or a list of parts");
  std::string text;
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    read_at(place_in_list(i), [&] { read_part(content[i], place.at(i), text); });
  }
  return text;
}

void read_chat_messages(const Json& list, const ReadPlace& place, Json& messages) {
  check_shape({.shape = Shape::kList, .least = 1, .most = kMaxMessages}, list);
  for (size_t i = 0; i < list.size(); ++i) {
    read_at(place_in_list(i), [&] { read_chat_message(list[i], place.at(i), messages); });
  }
}

std::string arguments_text(const Json& call) {
  const Json* arguments = member(call, "arguments");
  if (arguments != nullptr) return arguments->is_string() ? arguments->get<std::string>() : json_to_string(*arguments);
  const Json* input = member(call, "input");
  return input == nullptr ? "{}" : json_to_string(Json{{"input", *input}});
}

Json tool_call_json(std::string_view id, std::string_view name, std::string_view arguments) {
  return {{"id", id}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
}

Json tool_message(std::string_view call_id, std::string content) {
  Json message = {{"role", role_name(Role::kTool)}, {"tool_call_id", call_id}};
  set_content(message, std::move(content));
  return message;
}

void check_awaits_answer(const Json& messages) {
  if (!messages.empty() && !is_from(messages.back(), Role::kAssistant)) return;
  throw Fault{.message = messages.empty()
                             ? "must not be empty"
                             : "the last message must not be from the assistant: it cannot be continued here",
              .param = "messages"};
}

void read_ending(AnswerRequest& request) {
  Json& messages = request.messages;
  if (messages.empty() || !is_from(messages.back(), Role::kAssistant)) return check_awaits_answer(messages);
  if (messages.back().contains("tool_calls")) {
    throw Fault{.message = "the last message has tool calls: the results of the tools are missing",
                .param = "messages"};
  }
  const std::string* content = content_of(messages.back());
  request.continues = content != nullptr && !content->empty();
  if (request.continues) return;
  messages.erase(messages.size() - 1);
  check_awaits_answer(messages);
}

}  // namespace ibid::serve
