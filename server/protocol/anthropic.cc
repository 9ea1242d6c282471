// POST /v1/messages and /v1/messages/count_tokens (Anthropic's Messages API).
//
// A message has blocks. Templates need messages: each tool_result of a user's message becomes a message of its own,
// before the text. The blocks of an assistant's message become one message.
//
// usage: input_tokens counts the prefilled tokens, cache_read_input_tokens the cached ones; writing to the cache costs
// nothing, so cache_creation_input_tokens is 0.
#include <memory>
#include <string>
#include <utility>

#include "base/checked.h"
#include "server/protocol/answer_fields.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/handlers.h"
#include "server/protocol/prompts.h"
#include "server/protocol/reply.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

struct MessagesCall {
  AnswerRequest request;
  bool stream = false;
  Json system = Json();  // all blocks as one text
  Json conversation = Json::array();
};

// The collected blocks of one message.
struct Blocks {
  std::string text;
  bool has_text = false;
  std::string thinking;
  Json calls = Json::array();
  Json results = Json::array();  // messages with results of tools
};

void read_tool_use(const Json& block, Blocks& blocks) {
  const std::string& id = need_text(block, "id");
  const std::string& name = need_text(block, "name", 1);
  const Json* input = member(block, "input");
  if (input != nullptr && !input->is_object()) throw wrong_type("must be an object", ".input");
  blocks.calls.push_back(tool_call_json(id, name, input == nullptr ? "{}" : json_to_string(*input)));
}

void read_tool_result(const Json& block, Blocks& blocks) {
  const std::string& id = need_text(block, "tool_use_id");
  std::string text;
  if (const Json* content = member(block, "content")) read_at(".content", [&] { text = read_content(*content); });
  blocks.results.push_back(tool_message(id, std::move(text)));
}

void read_block(const Json& block, bool is_assistant, Blocks& blocks) {
  const std::string* type = text_member(block, "type");
  if (type == nullptr) throw wrong_type("must be an object with a string \"type\"");
  if (*type == "text") {
    const std::string& text = need_text(block, "text");
    if (blocks.has_text) blocks.text += '\n';
    blocks.text += text;
    blocks.has_text = true;
  } else if (is_assistant && *type == "tool_use") {
    read_tool_use(block, blocks);
  } else if (is_assistant && *type == "thinking") {
    blocks.thinking += need_text(block, "thinking");
  } else if (!is_assistant && *type == "tool_result") {
    read_tool_result(block, blocks);
  } else if (!is_assistant || *type != "redacted_thinking") {
    throw Fault{.message = std::string("must be \"text\"") +
                           (is_assistant ? ", \"tool_use\" or \"thinking\"" : " or \"tool_result\"") +
                           ": only text is supported",
                .param = ".type",
                .code = "unsupported_content"};
  }
}

void read_blocks(const Json& content, bool is_assistant, Blocks& blocks) {
  if (content.is_string()) {
    blocks.text = content.get<std::string>();
    blocks.has_text = true;
    return;
  }
  if (!content.is_array()) throw wrong_type("must be a string or a list of blocks");
  read_each(content, [&](const Json& block) { read_block(block, is_assistant, blocks); });
}

void read_turn(const Json& message, Json& conversation) {
  const bool is_assistant = is_from(message, Role::kAssistant);
  if (!is_assistant && !is_from(message, Role::kUser)) {
    throw Fault{.message = "must be \"user\" or \"assistant\"", .param = ".role"};
  }
  const Json* content = member(message, "content");
  if (content == nullptr) throw missing_field(".content");
  Blocks blocks;
  read_at(".content", [&] { read_blocks(*content, is_assistant, blocks); });
  const bool has_results = !blocks.results.empty();
  for (Json& result : blocks.results) conversation.push_back(std::move(result));
  if (!is_assistant && has_results && !blocks.has_text) return;
  // Consecutive user messages are merged, as Anthropic's API does: many templates refuse two in a row.
  if (!is_assistant && !conversation.empty() && is_from(conversation.back(), Role::kUser)) {
    conversation.back()["content"].get_ref<std::string&>() += '\n' + blocks.text;
    return;
  }
  Json one = make_message(is_assistant ? Role::kAssistant : Role::kUser, std::move(blocks.text));
  if (!blocks.thinking.empty()) one["reasoning_content"] = std::move(blocks.thinking);
  if (!blocks.calls.empty()) one["tool_calls"] = std::move(blocks.calls);
  conversation.push_back(std::move(one));
}

void read_named_tool(const Json& tool, AnswerRequest& request) {
  const std::string* type = text_member(tool, "type");
  if (type != nullptr && *type != "custom") {
    throw Fault{
        .message = "must be \"custom\": other tools are not supported", .param = ".type", .code = "unsupported_value"};
  }
  const std::string& name = need_text(tool, "name", 1);
  const Json* schema = member(tool, "input_schema");
  if (schema == nullptr || !schema->is_object()) {
    throw wrong_type("must be a JSON schema (an object)", ".input_schema");
  }
  check_strict(tool);
  Json function = {{"name", name}};
  if (const std::string* description = text_member(tool, "description")) function["description"] = *description;
  function["parameters"] = *schema;
  if (const Json* strict = member(tool, "strict")) function["strict"] = *strict;
  add_tool(request, std::move(function));
}

void read_choice(const Json& value, MessagesCall& call) {
  using Kind = ToolChoice::Kind;
  ToolChoice& choice = call.request.tool_choice;
  const std::string_view kind = type_of(value);
  if (kind == "auto") {
    choice.kind = Kind::kAuto;
  } else if (kind == "any") {
    choice.kind = Kind::kRequired;
  } else if (kind == "none") {
    choice.kind = Kind::kNone;
  } else if (kind == "tool") {
    choice.kind = Kind::kNamed;
    choice.name = need_text(value, "name");
  } else {
    throw Fault{.message = "must be \"auto\", \"any\", \"tool\" or \"none\"", .param = ".type"};
  }
  if (const Json* disabled = member(value, "disable_parallel_tool_use")) {
    if (!disabled->is_boolean()) throw wrong_type("must be true or false", ".disable_parallel_tool_use");
    choice.parallel = !disabled->get<bool>();
  }
}

void read_thinking(const Json& value, MessagesCall& call) {
  const std::string_view kind = type_of(value);
  if (kind != "enabled" && kind != "disabled" && kind != "adaptive") {
    throw Fault{.message = "must be \"enabled\", \"adaptive\" or \"disabled\"", .param = ".type"};
  }
  set_thinking(call.request, kind != "disabled");
}

void read_format_at(const Json& format, std::string field, MessagesCall& call) {
  if (type_of(format) != "json_schema") throw Fault{.message = "must be \"json_schema\"", .param = ".type"};
  const Json* schema = member(format, "schema");
  read_at(".schema", [&] {
    set_form(call.request, ResponseFormat::Kind::kJsonSchema, schema == nullptr ? Json() : *schema, field + ".schema");
  });
}

void read_config_effort(const Json& value, MessagesCall& call) {
  if (!is_text(value, "max")) read_effort(value, call.request);
}

void read_output_config(const Json& value, MessagesCall& call) {
  static constexpr Field<MessagesCall> kConfig[] = {
      {{"format", Shape::kObject},
       [](const Json& format, MessagesCall& c) { read_format_at(format, "output_config.format", c); }},
      {{"effort", Shape::kText, "", 1, 16}, read_config_effort}};
  read_fields<MessagesCall>(value, kConfig, call, ".");
}

// JSON schemas, for the OpenAPI description.
constexpr std::string_view kAnthropicMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"anyOf":[{"type":"object","required":["role","content"],"properties":)"
    R"({"role":{"const":"user"},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":)"
    R"("object","required":["type","text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}},{"type":)"
    R"("object","required":["type","tool_use_id"],"properties":{"type":{"const":"tool_result"},"tool_use_id":{"type":)"
    R"("string"},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type",)"
    R"("text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]}}}]}}]}}},)"
    R"({"type":"object","required":["role","content"],"properties":{"role":{"const":"assistant"},"content":)"
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":"object","required":["type","text"],)"
    R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}},{"type":"object","required":["type","id",)"
    R"("name","input"],"properties":{"type":{"const":"tool_use"},"id":{"type":"string"},"name":{"type":"string",)"
    R"("minLength":1},"input":{"type":"object"}}},{"type":"object","required":["type","thinking"],"properties":)"
    R"({"type":{"const":"thinking"},"thinking":{"type":"string"}}},{"type":"object","required":["type"],"properties":)"
    R"({"type":{"const":"redacted_thinking"}}}]}}]}}}]}})";
constexpr std::string_view kAnthropicToolChoiceSchema =
    R"({"type":"object","required":["type"],"properties":{"type":{"enum":["auto","any","tool","none"]},"name":)"
    R"({"type":"string"},"disable_parallel_tool_use":{"type":"boolean"}},"anyOf":[{"properties":{"type":{"enum":)"
    R"(["auto","any","none"]}}},{"required":["name"]}]})";
constexpr std::string_view kAnthropicFormatSchema =
    R"({"type":"object","required":["type","schema"],"properties":{"type":{"const":"json_schema"},"schema":)"
    R"({"type":"object"}}})";
constexpr std::string_view kAnthropicConfigSchema =
    R"({"type":"object","properties":{"format":{"type":"object","required":["type","schema"],"properties":{"type":)"
    R"({"const":"json_schema"},"schema":{"type":"object"}}},"effort":{"enum":["none","minimal","low","medium","high",)"
    R"("xhigh","max"]}}})";
constexpr Field<MessagesCall> kMessagesFields[] = {
    model_field<MessagesCall>(),
    one_answer_field<MessagesCall>(),
    {{"messages", Shape::kList,
      "the whole conversation; content is a string, or blocks of type text, tool_use, tool_result, thinking", 1,
      kMaxMessages, Standing::kRead, kAnthropicMessagesSchema, true},
     [](const Json& list, MessagesCall& call) {
       read_each(list, [&](const Json& message) { read_turn(message, call.conversation); });
     }},
    {{"max_tokens", Shape::kInteger, "maximum number of tokens of the answer", 1, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"system", Shape::kAny, "the system message: a string, or blocks of type text", 0, 0, Standing::kRead,
      R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type","text"],)"
      R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]})"},
     [](const Json& value, MessagesCall& call) { call.system = read_content(value); }},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&MessagesCall::stream>},
    {{"stop_sequences", Shape::kList, "strings that end the answer and are not part of it", 0, kMaxStopStrings,
      Standing::kRead, R"({"type":"array","items":{"type":"string","minLength":1},"maxItems":16})"},
     of_request<read_stop>},
    {{"tools", Shape::kList, "tools that the model may call", 0, 1024, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["name","input_schema"],"properties":{"name":)"
      R"({"type":"string","minLength":1},"description":{"type":"string"},"input_schema":{"type":"object"},)"
      R"("strict":{"type":"boolean"}}}})"},
     [](const Json& list, MessagesCall& call) {
       read_each(list, [&](const Json& tool) { read_named_tool(tool, call.request); });
     }},
    {{"tool_choice", Shape::kObject, "auto, any, tool with its name, none; disable_parallel_tool_use", 0, 0,
      Standing::kRead, kAnthropicToolChoiceSchema},
     read_choice},
    {{"thinking", Shape::kObject,
      "enabled, adaptive or disabled: passed to the template; budget_tokens is not enforced", 0, 0, Standing::kRead,
      R"({"type":"object","required":["type"],"properties":{"type":{"enum":["enabled","adaptive",)"
      R"("disabled"]},"budget_tokens":{"type":"integer"}}})"},
     read_thinking},
    {{"output_config", Shape::kObject, "format: a JSON schema; effort: passed to the template", 0, 0, Standing::kRead,
      kAnthropicConfigSchema},
     read_output_config},
    {{"output_format", Shape::kObject, "the same as output_config.format", 0, 0, Standing::kRead,
      kAnthropicFormatSchema},
     [](const Json& format, MessagesCall& call) { read_format_at(format, "output_format", call); }},
    refused_field<MessagesCall>("prompt_logprobs", "see /v1/completions"),
    refused_field<MessagesCall>("mcp_servers", "tools are called by the client"),
    refused_field<MessagesCall>("container", "the server runs no code"),
    ignored_field<MessagesCall>("context_management", "see truncate"),
    ignored_field<MessagesCall>("inference_geo", ""),
};

MessagesCall read_messages_call(const Site& site, const http::Request& source, bool counts_only) {
  MessagesCall call;
  AnswerRequest& request = call.request;
  Json body = begin_request(site, source, request);
  read_fields<MessagesCall>(body, kMessagesFields, call);
  if (!counts_only && request.options.max_tokens == 0) throw missing_field("max_tokens");
  // kMessagesFields has read these fields in the form of this protocol.
  body.erase("tools");
  body.erase("tool_choice");
  read_answer_fields(body, request, true);
  if (call.system.is_string()) request.messages.push_back(make_message(Role::kSystem, call.system.get<std::string>()));
  for (Json& message : call.conversation) request.messages.push_back(std::move(message));
  read_ending(request);
  return call;
}

Json usage_json(const TokenCounts& counts) {
  return {{"input_tokens", saturating_sub(counts.n_prompt, counts.n_cached)},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", counts.n_cached},
          {"output_tokens", counts.n_completion}};
}

const char* stop_reason(const Answer& answer) {
  if (is_cut(answer)) return "max_tokens";
  if (answer.finish_reason == FinishReason::kStopString) return "stop_sequence";
  return answer.tool_calls.empty() ? "end_turn" : "tool_use";
}

Json stop_sequence(const Answer& answer) { return answer.stop_string.empty() ? Json() : Json(answer.stop_string); }

// Makes the message without content that starts a stream.
Json message_json(const std::string& id, const std::string& model) {
  return {{"id", id},
          {"type", "message"},
          {"role", "assistant"},
          {"model", model},
          {"content", Json::array()},
          {"stop_reason", Json()},
          {"stop_sequence", Json()}};
}

Json content_blocks(const Answer& answer) {
  Json blocks = Json::array();
  if (!answer.reasoning.empty()) {
    blocks.push_back({{"type", "thinking"}, {"thinking", answer.reasoning}, {"signature", ""}});
  }
  if (!answer.content.empty()) blocks.push_back({{"type", "text"}, {"text", answer.content}});
  for (const ToolCall& call : answer.tool_calls) {
    // The protocol requires an object. If the model wrote arguments that are no object, the client gets them as text.
    const Result<Json> input = parse_json(call.arguments, "arguments", {.max_depth = 60});
    const bool is_object = input.ok() && input->is_object();
    blocks.push_back({{"type", "tool_use"},
                      {"id", call.id},
                      {"name", call.name},
                      {"input", is_object ? *input : Json{{"arguments", call.arguments}}}});
  }
  return blocks;
}

constexpr const char* kPing = "event: ping\ndata: {\"type\":\"ping\"}\n\n";

// Writes message_start, ping; for each block content_block_start, content_block_delta, content_block_stop; then
// message_delta and message_stop. An error is an event of its own.
class MessageStream final : public StreamReply {
 public:
  MessageStream(http::ExchangePtr exchange, std::string id)
      : StreamReply(std::move(exchange), 1, kPing), id_(std::move(id)) {}

 private:
  void opened() override {
    Json message = message_json(id_, heard_.model);
    message["usage"] = usage_json({.n_prompt = heard_.n_prompt});  // message_delta reports the cached part
    emit_named({{"type", "message_start"}, {"message", std::move(message)}});
    send_bytes(kPing);
  }
  void said(size_t, std::string_view text) override {
    open("text", {{"type", "text"}, {"text", ""}});
    emit_delta({{"type", "text_delta"}, {"text", text}});
  }
  void thought(size_t, std::string_view text) override {
    open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    emit_delta({{"type", "thinking_delta"}, {"thinking", text}});
  }
  void called(size_t, size_t, std::string_view id, std::string_view name) override {
    close();
    open("tool_use", {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", Json::object()}});
  }
  void call_part(size_t, size_t, std::string_view part) override {
    emit_delta({{"type", "input_json_delta"}, {"partial_json", part}});
  }
  void answered(size_t, const Answer&) override { close(); }
  void finished() override {
    const Answer& answer = heard_.answers.front();
    emit_named({{"type", "message_delta"},
                {"delta", {{"stop_reason", stop_reason(answer)}, {"stop_sequence", stop_sequence(answer)}}},
                {"usage", usage_json(count_tokens(heard_.answers, nullptr))},
                {"ibid", ibid_details(answer)}});
    emit_named({{"type", "message_stop"}});
  }
  void failed(const Fault& fault) override { emit_named(fault_json(fault, style_)); }

  void open(const char* kind, Json block) {
    if (block_ == kind) return;
    close();
    block_ = kind;
    emit_named({{"type", "content_block_start"}, {"index", n_blocks_++}, {"content_block", std::move(block)}});
  }
  void close() {
    if (block_.empty()) return;
    if (block_ == "thinking") emit_delta({{"type", "signature_delta"}, {"signature", ""}});
    emit_named({{"type", "content_block_stop"}, {"index", n_blocks_ - 1}});
    block_.clear();
  }
  void emit_delta(Json delta) {
    emit_named({{"type", "content_block_delta"}, {"index", n_blocks_ - 1}, {"delta", std::move(delta)}});
  }

  const std::string id_;
  std::string block_;    // kind of the open block; empty: no block is open
  size_t n_blocks_ = 0;  // number of blocks opened so far
};

}  // namespace

std::vector<FieldRule> messages_rules() { return message_rules(rules_of<MessagesCall>(kMessagesFields)); }

void post_messages(const Site& site, const http::ExchangePtr& exchange) {
  MessagesCall call = read_messages_call(site, exchange->request(), false);
  const std::string id = site.new_id("msg_");
  std::shared_ptr<AnswerListener> listener;
  if (call.stream) {
    listener = std::make_shared<MessageStream>(exchange, id);
  } else {
    listener = std::make_shared<WholeReply>(exchange, 1, [id](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      Json json = message_json(id, heard.model);
      json["content"] = content_blocks(answer);
      json["stop_reason"] = stop_reason(answer);
      json["stop_sequence"] = stop_sequence(answer);
      json["usage"] = usage_json(count_tokens(heard.answers, nullptr));
      json["ibid"] = ibid_details(answer);
      return json;
    });
  }
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

void post_count_tokens(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  MessagesCall call = read_messages_call(site, exchange->request(), true);
  const auto then = [exchange](const Result<size_t>& n) {
    answer_or_refuse(*exchange, [&] {
      if (!n.ok()) throw fault_of(n.status());
      respond_json(*exchange, {{"input_tokens", *n}});
    });
  };
  site.backend->count_prompt(std::move(call.request), then, exchange->gone());
}

}  // namespace ibid::serve
