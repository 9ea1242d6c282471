#include "server/protocol/anthropic_input.h"

#include <string>
#include <utility>

#include "server/protocol/answer_fields.h"
#include "server/protocol/anthropic_schemas.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/sampler_fields.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

Fault not_a_text(std::string param) {
  return {.message = "must be a text", .param = std::move(param), .code = "invalid_type"};
}

std::string index_text(size_t i) { return "[" + std::to_string(i) + "]"; }

// The blocks of one message, gathered.
struct Blocks {
  std::string text;
  bool has_text = false;
  std::string thinking;
  Json calls = Json::array();
  Json results = Json::array();   // messages of tools
};

MaybeFault read_tool_use(const Json& block, Blocks& blocks) {
  const std::string* id = text_member(block, "id");
  const std::string* name = text_member(block, "name");
  const Json* input = member(block, "input");
  if (id == nullptr) return not_a_text(".id");
  if (name == nullptr || name->empty()) return not_a_text(".name");
  if (input != nullptr && !input->is_object()) {
    return Fault{.message = "must be an object", .param = ".input", .code = "invalid_type"};
  }
  blocks.calls.push_back(tool_call_json(*id, *name, input == nullptr ? "{}" : json_to_string(*input)));
  return {};
}

MaybeFault read_tool_result(const Json& block, Blocks& blocks) {
  const std::string* id = text_member(block, "tool_use_id");
  if (id == nullptr) return not_a_text(".tool_use_id");
  std::string text;
  if (const Json* content = member(block, "content")) {
    if (MaybeFault fault = read_content(*content, text)) {
      fault->param = ".content" + fault->param;
      return fault;
    }
  }
  blocks.results.push_back(tool_message(*id, std::move(text)));
  return {};
}

MaybeFault read_block(const Json& block, bool is_assistant, Blocks& blocks) {
  const std::string* type = text_member(block, "type");
  if (type == nullptr) {
    return Fault{.message = "must be an object with a type, which is a text", .code = "invalid_type"};
  }
  if (*type == "text") {
    const std::string* text = text_member(block, "text");
    if (text == nullptr) return not_a_text(".text");
    if (blocks.has_text) blocks.text += '\n';
    blocks.text += *text;
    blocks.has_text = true;
    return {};
  }
  if (is_assistant && *type == "tool_use") return read_tool_use(block, blocks);
  if (is_assistant && *type == "redacted_thinking") return {};
  if (is_assistant && *type == "thinking") {
    const std::string* thinking = text_member(block, "thinking");
    if (thinking == nullptr) return not_a_text(".thinking");
    blocks.thinking += *thinking;
    return {};
  }
  if (!is_assistant && *type == "tool_result") return read_tool_result(block, blocks);
  return Fault{.message = std::string("must be \"text\"") +
                          (is_assistant ? ", \"tool_use\" or \"thinking\"" : " or \"tool_result\"") +
                          ": the model reads text alone",
               .param = ".type", .code = "unsupported_content"};
}

MaybeFault read_blocks(const Json& content, bool is_assistant, Blocks& blocks) {
  if (content.is_string()) {
    blocks.text = content.get<std::string>();
    blocks.has_text = true;
    return {};
  }
  if (!content.is_array()) return Fault{.message = "must be a text or a list of blocks", .code = "invalid_type"};
  for (size_t i = 0; i < content.size(); ++i) {
    if (MaybeFault fault = read_block(content[i], is_assistant, blocks)) {
      fault->param = index_text(i) + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault read_turn(const Json& message, Json& conversation) {
  const std::string_view role = role_of(message);
  const bool is_assistant = role == role_name(Role::kAssistant);
  if (!is_assistant && role != role_name(Role::kUser)) {
    return Fault{.message = "must be \"user\" or \"assistant\"", .param = ".role"};
  }
  const Json* content = member(message, "content");
  if (content == nullptr) {
    return Fault{.message = "is missing", .param = ".content", .code = "missing_required_parameter"};
  }
  Blocks blocks;
  if (MaybeFault fault = read_blocks(*content, is_assistant, blocks)) {
    fault->param = ".content" + fault->param;
    return fault;
  }
  const bool has_results = !blocks.results.empty();
  for (Json& result : blocks.results) conversation.push_back(std::move(result));
  if (!is_assistant && has_results && !blocks.has_text) return {};
  // Turns of the user that follow each other are one, as Anthropic has it: many templates refuse two.
  if (!is_assistant && !conversation.empty() && is_from(conversation.back(), Role::kUser)) {
    conversation.back()["content"].get_ref<std::string&>() += '\n' + blocks.text;
    return {};
  }
  Json one = make_message(is_assistant ? Role::kAssistant : Role::kUser, std::move(blocks.text));
  if (!blocks.thinking.empty()) one["reasoning_content"] = std::move(blocks.thinking);
  if (!blocks.calls.empty()) one["tool_calls"] = std::move(blocks.calls);
  conversation.push_back(std::move(one));
  return {};
}

MaybeFault read_turns(const Json& list, MessagesCall& call) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (MaybeFault fault = read_turn(list[i], call.conversation)) {
      fault->param = index_text(i) + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault read_system(const Json& value, MessagesCall& call) {
  std::string text;
  if (MaybeFault fault = read_content(value, text)) return fault;
  call.system = text;
  return {};
}

MaybeFault read_named_tools(const Json& list, MessagesCall& call) {
  Json wrapped = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string* type = text_member(list[i], "type");
    if (type != nullptr && *type != "custom") {
      return Fault{.message = "must be \"custom\": other tools are not supported", .param = index_text(i) + ".type",
                   .code = "unsupported_value"};
    }
    const std::string* name = text_member(list[i], "name");
    if (name == nullptr || name->empty()) return not_a_text(index_text(i) + ".name");
    const Json* schema = member(list[i], "input_schema");
    if (schema == nullptr || !schema->is_object()) {
      return Fault{.message = "must be a JSON schema, which is an object", .param = index_text(i) + ".input_schema",
                   .code = "invalid_type"};
    }
    if (MaybeFault fault = check_strict(list[i])) {
      fault->param = index_text(i) + fault->param;
      return fault;
    }
    Json function = Json::object();
    function["name"] = *name;
    if (const std::string* description = text_member(list[i], "description")) function["description"] = *description;
    function["parameters"] = *schema;
    if (const Json* strict = member(list[i], "strict")) function["strict"] = *strict;
    add_tool(call.request, std::move(function));
  }
  return {};
}

MaybeFault read_choice(const Json& value, MessagesCall& call) {
  using Kind = ToolChoice::Kind;
  ToolChoice& choice = call.request.tool_choice;
  const std::string* type = text_member(value, "type");
  const std::string kind = type == nullptr ? "" : *type;
  if (kind == "auto") {
    choice.kind = Kind::kAuto;
  } else if (kind == "any") {
    choice.kind = Kind::kRequired;
  } else if (kind == "none") {
    choice.kind = Kind::kNone;
  } else if (kind == "tool") {
    const std::string* name = text_member(value, "name");
    if (name == nullptr) return not_a_text(".name");
    choice.kind = Kind::kNamed;
    choice.name = *name;
  } else {
    return Fault{.message = "must be \"auto\", \"any\", \"tool\" or \"none\"", .param = ".type"};
  }
  if (const Json* disabled = member(value, "disable_parallel_tool_use")) {
    if (!disabled->is_boolean()) {
      return Fault{.message = "must be true or false", .param = ".disable_parallel_tool_use", .code = "invalid_type"};
    }
    choice.parallel = !disabled->get<bool>();
  }
  return {};
}

MaybeFault read_thinking(const Json& value, MessagesCall& call) {
  const std::string* type = text_member(value, "type");
  const std::string kind = type == nullptr ? "" : *type;
  if (kind != "enabled" && kind != "disabled" && kind != "adaptive") {
    return Fault{.message = "must be \"enabled\", \"adaptive\" or \"disabled\"", .param = ".type"};
  }
  set_thinking(call.request, kind != "disabled");
  return {};
}

MaybeFault read_format_at(const Json& format, std::string field, MessagesCall& call) {
  const std::string* type = text_member(format, "type");
  if (type == nullptr || *type != "json_schema") {
    return Fault{.message = "must be \"json_schema\"", .param = ".type"};
  }
  const Json* schema = member(format, "schema");
  MaybeFault fault = set_form(call.request, AnswerForm::Kind::kJsonSchema, schema == nullptr ? Json() : *schema,
                              std::move(field) + ".schema");
  if (fault) fault->param = ".schema";
  return fault;
}

MaybeFault read_output_format(const Json& format, MessagesCall& call) {
  return read_format_at(format, "output_format", call);
}

MaybeFault read_output_config(const Json& value, MessagesCall& call) {
  static constexpr Field<MessagesCall> kConfig[] = {
      {{"format", Shape::kObject}, [](const Json& format, MessagesCall& c) {
         return read_format_at(format, "output_config.format", c);
       }},
      {{"effort", Shape::kText, "", 1, 16}, [](const Json& effort, MessagesCall& c) {
         return effort == Json("max") ? MaybeFault() : read_effort(effort, c.request);
       }}};
  return read_fields<MessagesCall>(value, kConfig, call, ".");
}

constexpr Field<MessagesCall> kMessagesFields[] = {
    model_field<MessagesCall>(),
    one_answer_field<MessagesCall>(),
    {{"messages", Shape::kList, "the conversation, the whole of it each time: texts, or blocks text, tool_use, "
                                "tool_result, thinking", 1, kMaxMessages, Standing::kRead,
      kAnthropicMessagesSchema, true},
     read_turns},
    {{"max_tokens", Shape::kInteger, "the most tokens of the answer", 1, kMostMaxTokens},
     [](const Json& value, MessagesCall& call) { return set_max_tokens(value, call.request); }},
    {{"system", Shape::kAny, "the system message: a text, or blocks of text", 0, 0, Standing::kRead,
      R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type","text"],)"
      R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]})"},
     read_system},
    {{"stream", Shape::kBoolean, "the answer comes in parts, as events"},
     [](const Json& value, MessagesCall& call) { return call.stream = value.get<bool>(), MaybeFault(); }},
    {{"stop_sequences", Shape::kList, "texts that end the answer and are not part of it", 0, kMaxStopStrings,
      Standing::kRead, R"({"type":"array","items":{"type":"string","minLength":1},"maxItems":16})"},
     [](const Json& value, MessagesCall& call) { return read_stop(value, call.request); }},
    {{"tools", Shape::kList, "tools that the model may call", 0, 1024, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["name","input_schema"],"properties":{"name":)"
      R"({"type":"string","minLength":1},"description":{"type":"string"},"input_schema":{"type":"object"},)"
      R"("strict":{"type":"boolean"}}}})"},
     read_named_tools},
    {{"tool_choice", Shape::kObject, "auto, any, tool with its name, none; disable_parallel_tool_use", 0, 0,
      Standing::kRead, kAnthropicToolChoiceSchema},
     read_choice},
    {{"thinking", Shape::kObject, "enabled, adaptive or disabled: for the template; a budget is not held", 0, 0,
      Standing::kRead, R"({"type":"object","required":["type"],"properties":{"type":{"enum":["enabled","adaptive",)"
                       R"("disabled"]},"budget_tokens":{"type":"integer"}}})"},
     read_thinking},
    {{"output_config", Shape::kObject, "format: a JSON schema; effort: for the template", 0, 0, Standing::kRead,
      kAnthropicConfigSchema},
     read_output_config},
    {{"output_format", Shape::kObject, "the same as output_config.format", 0, 0, Standing::kRead,
      kAnthropicFormatSchema},
     read_output_format},
    refused_field<MessagesCall>("mcp_servers", "tools are the client's to call"),
    refused_field<MessagesCall>("container", "nothing is run"),
    ignored_field<MessagesCall>("context_management", "see truncate"),
    ignored_field<MessagesCall>("inference_geo", ""),
};

}  // namespace

std::span<const Field<MessagesCall>> messages_fields() { return kMessagesFields; }

MaybeFault read_messages_call(const Site& site, const http::Request& source, bool counts_only, MessagesCall& call) {
  Json body;
  if (MaybeFault fault = begin_request(site, source, body, call.request)) return fault;
  if (MaybeFault fault = read_fields(body, messages_fields(), call)) return fault;
  if (!counts_only && call.request.options.max_tokens == 0) {
    return Fault{.message = "is missing", .param = "max_tokens", .code = "missing_required_parameter"};
  }
  // These have been read in this protocol's own form.
  body.erase("tools");
  body.erase("tool_choice");
  if (MaybeFault fault = read_answer_fields(body, call.request, true)) return fault;
  Json messages = Json::array();
  if (call.system.is_string()) messages.push_back(make_message(Role::kSystem, call.system.get<std::string>()));
  for (Json& message : call.conversation) messages.push_back(std::move(message));
  call.request.messages = std::move(messages);
  return check_awaits_answer(call.request.messages);
}

}  // namespace ibid::serve
