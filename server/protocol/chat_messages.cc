#include "server/protocol/chat_messages.h"

#include <utility>

#include "server/protocol/field.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxToolCalls = 256;
constexpr size_t kMaxNameBytes = 256;

std::string at(size_t i) { return "[" + std::to_string(i) + "]"; }

MaybeFault refuse_part(const std::string& type) {
  const bool is_medium = type.find("image") != std::string::npos || type.find("audio") != std::string::npos ||
                         type.find("video") != std::string::npos || type.find("file") != std::string::npos ||
                         type == "document";
  return Fault{.message = is_medium ? "the model reads text alone: images, sound, videos and files are not supported"
                                    : "is no known type of content; \"text\" is",
               .param = ".type",
               .code = is_medium ? "unsupported_content" : "invalid_value"};
}

MaybeFault read_part(const Json& part, std::string& text) {
  const std::string* type = text_member(part, "type");
  if (type == nullptr) {
    return Fault{.message = "must be an object with a type, which is a text", .code = "invalid_type"};
  }
  if (*type == "refusal") {
    if (const std::string* words = text_member(part, "refusal")) text += *words;
    return {};
  }
  if (*type != "text" && *type != "input_text" && *type != "output_text") return refuse_part(*type);
  const std::string* words = text_member(part, "text");
  if (words == nullptr) return Fault{.message = "must be a text", .param = ".text", .code = "invalid_type"};
  text += *words;
  return {};
}

// An optional field of a message that is a text.
MaybeFault copy_text(const Json& message, std::string_view name, Json& copy) {
  const Json* value = member(message, name);
  if (value == nullptr) return {};
  const FieldRule rule{.shape = Shape::kText};
  if (MaybeFault fault = check_shape(rule, *value)) {
    fault->param = "." + std::string(name);
    return fault;
  }
  copy[std::string(name)] = *value;
  return {};
}

MaybeFault read_tool_call(const Json& call, Json& calls) {
  const Json* function = member(call, "function");
  const std::string* type = text_member(call, "type");
  if (type != nullptr && *type != "function") {
    return Fault{.message = "must be \"function\"", .param = ".type", .code = "unsupported_value"};
  }
  const std::string* name = function == nullptr ? nullptr : text_member(*function, "name");
  if (name == nullptr || name->empty() || name->size() > kMaxNameBytes) {
    return Fault{.message = "must be a text of 1 to 256 bytes", .param = ".function.name", .code = "invalid_type"};
  }
  const Json* arguments = member(*function, "arguments");
  if (arguments != nullptr && !arguments->is_string() && !arguments->is_object()) {
    return Fault{.message = "must be JSON as a text", .param = ".function.arguments", .code = "invalid_type"};
  }
  // As it came: what a client sends back as it got it has the ids that it had. Ollama's clients send an object.
  std::string text = arguments == nullptr ? "{}"
                     : arguments->is_string() ? arguments->get<std::string>()
                                              : json_to_string(*arguments);
  const std::string* id = text_member(call, "id");
  calls.push_back(tool_call_json(id == nullptr ? "" : *id, *name, text));
  return {};
}

MaybeFault read_tool_calls(const Json& message, Json& copy) {
  const Json* list = member(message, "tool_calls");
  if (list == nullptr) return {};
  const FieldRule rule{.shape = Shape::kList, .least = 0, .most = kMaxToolCalls};
  if (MaybeFault fault = check_shape(rule, *list)) {
    fault->param = ".tool_calls";
    return fault;
  }
  Json calls = Json::array();
  for (size_t i = 0; i < list->size(); ++i) {
    if (MaybeFault fault = read_tool_call((*list)[i], calls)) {
      fault->param = ".tool_calls" + at(i) + fault->param;
      return fault;
    }
  }
  if (!calls.empty()) copy["tool_calls"] = std::move(calls);
  return {};
}

// The role as templates know it; nullopt: none that is known.
std::optional<Role> role_from(std::string_view name) {
  if (name == "system" || name == "developer") return Role::kSystem;
  for (const Role role : {Role::kUser, Role::kAssistant, Role::kTool}) {
    if (name == role_name(role)) return role;
  }
  return {};
}

MaybeFault read_message(const Json& message, Json& messages) {
  const std::optional<Role> role = role_from(role_of(message));
  if (!message.is_object()) return Fault{.message = "must be an object", .code = "invalid_type"};
  if (!role) {
    return Fault{.message = "must be \"system\", \"developer\", \"user\", \"assistant\" or \"tool\"", .param = ".role"};
  }
  Json copy = Json::object();
  copy["role"] = std::string(role_name(*role));
  if (MaybeFault fault = copy_text(message, "name", copy)) return fault;
  const Json* content = member(message, "content");
  std::string text;
  if (content != nullptr) {
    if (MaybeFault fault = read_content(*content, text)) {
      fault->param = ".content" + fault->param;
      return fault;
    }
  }
  set_content(copy, std::move(text));
  if (*role == Role::kTool) {
    if (MaybeFault fault = copy_text(message, "tool_call_id", copy)) return fault;
  }
  if (*role == Role::kAssistant) {
    if (MaybeFault fault = copy_text(message, "reasoning_content", copy)) return fault;
    if (MaybeFault fault = read_tool_calls(message, copy)) return fault;
  }
  if (content == nullptr && !copy.contains("tool_calls")) {
    return Fault{.message = "is missing", .param = ".content", .code = "missing_required_parameter"};
  }
  messages.push_back(std::move(copy));
  return {};
}

}  // namespace

MaybeFault read_content(const Json& content, std::string& text) {
  if (content.is_string()) {
    text = content.get<std::string>();
    return {};
  }
  if (!content.is_array()) return Fault{.message = "must be a text or a list of parts", .code = "invalid_type"};
  for (size_t i = 0; i < content.size(); ++i) {
    if (i > 0) text += '\n';
    if (MaybeFault fault = read_part(content[i], text)) {
      fault->param = at(i) + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault read_chat_messages(const Json& list, Json& messages) {
  const FieldRule rule{.shape = Shape::kList, .least = 1, .most = kMaxMessages};
  if (MaybeFault fault = check_shape(rule, list)) return fault;
  for (size_t i = 0; i < list.size(); ++i) {
    if (MaybeFault fault = read_message(list[i], messages)) {
      fault->param = at(i) + fault->param;
      return fault;
    }
  }
  return {};
}

Json tool_call_json(std::string_view id, std::string_view name, std::string_view arguments) {
  Json function = Json::object();
  function["name"] = std::string(name);
  function["arguments"] = std::string(arguments);
  Json call = Json::object();
  call["id"] = std::string(id);
  call["type"] = "function";
  call["function"] = std::move(function);
  return call;
}

Json tool_message(std::string_view call_id, std::string content) {
  Json message = Json::object();
  message["role"] = std::string(role_name(Role::kTool));
  message["tool_call_id"] = std::string(call_id);
  set_content(message, std::move(content));
  return message;
}

MaybeFault check_awaits_answer(const Json& messages) {
  if (!messages.empty() && !is_from(messages.back(), Role::kAssistant)) return {};
  return Fault{.message = messages.empty() ? "must have a message"
                                           : "the last message is the assistant's, and an answer is not gone on with: "
                                             "the last has to be one that is to be answered",
               .param = "messages"};
}

}  // namespace ibid::serve
