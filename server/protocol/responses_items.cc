#include "server/protocol/responses_items.h"

#include <utility>

#include "server/protocol/chat_messages.h"
#include "server/protocol/field.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

Fault wrong_text(std::string param) {
  return {.message = "must be a text", .param = std::move(param), .code = "invalid_type"};
}

// Reads items in their order. Reasoning waits for the text or the call that it belongs to.
class ItemReader {
 public:
  explicit ItemReader(Json& messages) : messages_(messages) {}

  MaybeFault read(const Json& item) {
    if (!item.is_object()) return Fault{.message = "must be an object", .code = "invalid_type"};
    const std::string* type = text_member(item, "type");
    if (type == nullptr || *type == "message") return read_message(item);
    if (*type == "function_call") return read_call(item);
    if (*type == "function_call_output") return read_output(item);
    if (*type == "reasoning") return read_reasoning(item);
    return Fault{.message = "must be \"message\", \"function_call\", \"function_call_output\" or \"reasoning\": other "
                            "items are not supported",
                 .param = ".type", .code = "unsupported_value"};
  }

 private:
  MaybeFault read_message(const Json& item) {
    // Chat's own reader: roles and contents are the same, but for what assistants said before.
    Json one = Json::array();
    one.push_back(item);
    Json read = Json::array();
    if (MaybeFault fault = read_chat_messages(one, read)) {
      fault->param.erase(0, std::string_view("[0]").size());
      return fault;
    }
    Json& message = read[0];
    if (is_from(message, Role::kAssistant)) take_reasoning(message);
    messages_.push_back(std::move(message));
    goes_on_ = is_from(messages_.back(), Role::kAssistant);
    return {};
  }

  MaybeFault read_call(const Json& item) {
    const std::string* id = text_member(item, "call_id");
    const std::string* name = text_member(item, "name");
    const std::string* arguments = text_member(item, "arguments");
    if (id == nullptr) return wrong_text(".call_id");
    if (name == nullptr || name->empty()) return wrong_text(".name");
    if (arguments == nullptr) return wrong_text(".arguments");
    if (!goes_on_ || !reasoning_.empty()) {
      Json message = make_message(Role::kAssistant, "");
      take_reasoning(message);
      messages_.push_back(std::move(message));
      goes_on_ = true;
    }
    Json& calls = messages_.back()["tool_calls"];
    if (!calls.is_array()) calls = Json::array();
    calls.push_back(tool_call_json(*id, *name, *arguments));
    return {};
  }

  MaybeFault read_output(const Json& item) {
    const std::string* id = text_member(item, "call_id");
    if (id == nullptr) return wrong_text(".call_id");
    const Json* output = member(item, "output");
    std::string text;
    if (output == nullptr) return wrong_text(".output");
    if (MaybeFault fault = read_content(*output, text)) {
      fault->param = ".output" + fault->param;
      return fault;
    }
    messages_.push_back(tool_message(*id, std::move(text)));
    goes_on_ = false;
    return {};
  }

  MaybeFault read_reasoning(const Json& item) {
    const Json* content = member(item, "content");
    if (content == nullptr) return {};  // a summary alone: the reasoning itself stayed with whoever wrote it
    if (!content->is_array()) {
      return Fault{.message = "must be a list", .param = ".content", .code = "invalid_type"};
    }
    for (const Json& part : *content) {
      if (const std::string* text = text_member(part, "text")) reasoning_ += *text;
    }
    return {};
  }

  void take_reasoning(Json& message) {
    if (!reasoning_.empty()) message["reasoning_content"] = std::exchange(reasoning_, {});
  }

  Json& messages_;
  std::string reasoning_;
  bool goes_on_ = false;  // whether the last message is of the answer that is being read
};

Json typed(const char* type) {
  Json json = Json::object();
  json["type"] = type;
  return json;
}

}  // namespace

MaybeFault read_input(const Json& input, Json& messages) {
  if (input.is_string()) {
    messages.push_back(make_message(Role::kUser, input.get<std::string>()));
    return {};
  }
  const FieldRule rule{.shape = Shape::kList, .least = 0, .most = kMaxMessages};
  if (!input.is_array()) return Fault{.message = "must be a text or a list of items", .code = "invalid_type"};
  if (MaybeFault fault = check_shape(rule, input)) return fault;
  ItemReader reader(messages);
  for (size_t i = 0; i < input.size(); ++i) {
    if (MaybeFault fault = reader.read(input[i])) {
      fault->param = "[" + std::to_string(i) + "]" + fault->param;
      return fault;
    }
  }
  return {};
}

namespace {

// What the id of an item begins with.
const char* prefix_of_item(const std::string& type) {
  if (type == "function_call") return "fc_";
  if (type == "function_call_output") return "fco_";
  return type == "reasoning" ? "rs_" : "msg_";
}

Json stored_part(const std::string& role, const std::string& text) {
  if (role == role_name(Role::kAssistant)) return output_text(text, Json::array());
  Json part = typed("input_text");
  part["text"] = text;
  return part;
}

}  // namespace

Json stored_items(const Json& input, const std::function<std::string(std::string_view prefix)>& new_id) {
  Json items = Json::array();
  if (input.is_string()) {
    Json item = Json::object();
    item["role"] = std::string(role_name(Role::kUser));
    item["content"] = input;
    items.push_back(std::move(item));
  } else {
    items = input;
  }
  for (Json& item : items) {
    if (member(item, "type") == nullptr) item["type"] = "message";
    if (text_member(item, "id") == nullptr) item["id"] = new_id(prefix_of_item(item["type"]));
    if (text_member(item, "status") == nullptr) item["status"] = "completed";
    const std::string* text = item["type"] == "message" ? text_member(item, "content") : nullptr;
    if (text != nullptr) {
      Json parts = Json::array();
      parts.push_back(stored_part(item["role"], *text));
      item["content"] = std::move(parts);
    }
  }
  return items;
}

Json reasoning_text(const std::string& text) {
  Json part = typed("reasoning_text");
  part["text"] = text;
  return part;
}

Json reasoning_item(const std::string& id, const std::string& text, const char* status) {
  Json item = typed("reasoning");
  item["id"] = id;
  item["summary"] = Json::array();
  item["content"] = Json::array();
  if (!text.empty()) item["content"].push_back(reasoning_text(text));
  item["status"] = status;
  return item;
}

Json message_item(const std::string& id, Json content, const char* status) {
  Json item = typed("message");
  item["id"] = id;
  item["status"] = status;
  item["role"] = "assistant";
  item["content"] = std::move(content);
  return item;
}

Json output_text(const std::string& text, Json logprobs) {
  Json part = typed("output_text");
  part["text"] = text;
  part["annotations"] = Json::array();
  part["logprobs"] = std::move(logprobs);
  return part;
}

Json call_item(const std::string& id, const ToolCall& call, const char* status) {
  Json item = typed("function_call");
  item["id"] = id;
  item["call_id"] = call.id;
  item["name"] = call.name;
  item["arguments"] = call.arguments;
  item["status"] = status;
  return item;
}

}  // namespace ibid::serve
