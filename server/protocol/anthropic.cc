// POST /v1/messages and /v1/messages/count_tokens (Anthropic's Messages API).
//
// A message has blocks. Templates need messages: each tool_result of a user's message becomes a message of its own,
// before the text. The blocks of an assistant's message become one message.
//
// usage: cache_read_input_tokens are the cached tokens. Those that were prefilled, and are kept as well, are
// cache_creation_input_tokens if the request has a "cache_control" anywhere, else input_tokens.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

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
  bool marks_cache = false;  // the request has a "cache_control"
  Json system = Json();      // system messages as one text
  Json conversation = Json::array();
};

// The collected blocks of one message.
struct Blocks {
  std::string text;
  bool has_text = false;
  std::string thinking;
  Json calls = Json::array();
  Json results = Json::array();  // messages with results of tools

  void add_text(std::string_view more) {
    if (has_text) text += '\n';
    text += more;
    has_text = true;
  }
};

void read_tool_use(const Json& block, Blocks& blocks) {
  const std::string& id = need_text(block, "id");
  const std::string& name = need_text(block, "name", 1);
  const Json* input = member(block, "input");
  if (input != nullptr && !input->is_object()) throw wrong_type("must be an object", ".input");
  blocks.calls.push_back(tool_call_json(id, name, input == nullptr ? "{}" : json_to_string(*input)));
}

void read_tool_result(const Json& block, const ReadPlace& place, Blocks& blocks) {
  const std::string& id = need_text(block, "tool_use_id");
  std::string text;
  if (const Json* content = member(block, "content"))
    read_at(".content", [&] { text = read_content(*content, place.at("content")); });
  blocks.results.push_back(tool_message(id, std::move(text)));
}

void read_block(const Json& block, bool is_assistant, const ReadPlace& place, Blocks& blocks) {
  const std::string* type = text_member(block, "type");
  if (type == nullptr) throw wrong_type("must be an object with a string \"type\"");
  if (*type == "text") {
    blocks.add_text(need_text(block, "text"));
  } else if (is_assistant && *type == "tool_use") {
    read_tool_use(block, blocks);
  } else if (is_assistant && *type == "thinking") {
    blocks.thinking += need_text(block, "thinking");
  } else if (!is_assistant && *type == "tool_result") {
    read_tool_result(block, place, blocks);
  } else if (const Json* text = text_of_document(block)) {
    blocks.add_text(read_content(*text, place));
  } else if (*type == "tool_use" || *type == "thinking" || *type == "tool_result") {
    throw Fault{.message = "belongs to a message of another role", .param = ".type"};
  } else if (*type != "redacted_thinking") {
    check_is_no_medium(*type);
    place.leave_out(*type);
  }
}

void read_blocks(const Json& content, bool is_assistant, const ReadPlace& place, Blocks& blocks) {
  if (content.is_string()) return blocks.add_text(content.get_ref<const std::string&>());
  if (!content.is_array()) throw wrong_type("must be a string or a list of blocks");
  for (size_t i = 0; i < content.size(); ++i) {
    read_at(place_in_list(i), [&] { read_block(content[i], is_assistant, place.at(i), blocks); });
  }
}

void read_turn(const Json& message, const ReadPlace& place, Json& conversation) {
  const bool is_assistant = is_from(message, Role::kAssistant);
  const bool is_system = is_from(message, Role::kSystem) || role_of(message) == "developer";
  if (!is_assistant && !is_system && !is_from(message, Role::kUser)) {
    throw Fault{.message = "must be \"user\", \"assistant\" or \"system\"", .param = ".role"};
  }
  const Json* content = member(message, "content");
  if (content == nullptr) throw missing_field(".content");
  Blocks blocks;
  read_at(".content", [&] { read_blocks(*content, is_assistant, place.at("content"), blocks); });
  const bool has_results = !blocks.results.empty();
  for (Json& result : blocks.results) conversation.push_back(std::move(result));
  if (!is_assistant && has_results && !blocks.has_text) return;
  if (is_system) return conversation.push_back(make_message(Role::kSystem, std::move(blocks.text)));
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

void read_named_tools(const Json& list, MessagesCall& call) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string_view type = type_of(list[i]);
    if (!type.empty() && type != "custom") {
      leave_out_tool(list[i], i, type, call.request);
    } else {
      read_at(place_in_list(i), [&] { read_named_tool(list[i], call.request); });
    }
  }
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
  if (member(value, "budget_tokens") != nullptr) {
    ignore(call.request.ignored, {.field = "thinking.budget_tokens", .reason = "is not enforced"});
  }
}

void read_format_at(const Json& format, std::string field, MessagesCall& call) {
  if (type_of(format) != "json_schema") throw Fault{.message = "must be \"json_schema\"", .param = ".type"};
  const Json* schema = member(format, "schema");
  read_at(".schema", [&] {
    set_form(call.request, ResponseFormat::Kind::kJsonSchema, schema == nullptr ? Json() : *schema, field + ".schema");
  });
}

void read_output_config(const Json& value, MessagesCall& call) {
  static constexpr Field<MessagesCall> kConfig[] = {
      {{"format", Shape::kObject},
       [](const Json& format, MessagesCall& c) { read_format_at(format, "output_config.format", c); }},
      {{"effort", Shape::kText, "", 1, 16}, of_request<read_effort>}};
  read_fields<MessagesCall>(value, kConfig, call, ".");
  note_ignored(value, rules_of<MessagesCall>(kConfig), call.request.ignored, "output_config.");
}

// JSON schemas, for the OpenAPI description.
constexpr std::string_view kAnthropicMessagesSchema =
    R"({"type":"array","minItems":1,"items":{"anyOf":[{"type":"object","required":["role","content"],"properties":)"
    R"({"role":{"enum":["user","system"]},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":)"
    R"([{"type":"object","required":["type","text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}},)"
    R"({"type":"object","required":["type","tool_use_id"],"properties":{"type":{"const":"tool_result"},"tool_use_id":)"
    R"({"type":"string"},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":)"
    R"(["type","text"],"properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]}}}]}}]}}},)"
    R"({"type":"object","required":["role","content"],"properties":{"role":{"const":"assistant"},"content":)"
    R"({"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":"object","required":["type","text"],)"
    R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}},{"type":"object","required":["type","id",)"
    R"("name","input"],"properties":{"type":{"const":"tool_use"},"id":{"type":"string"},"name":{"type":"string",)"
    R"("minLength":1},"input":{"type":"object"}}},{"type":"object","required":["type","thinking"],"properties":)"
    R"({"type":{"const":"thinking"},"thinking":{"type":"string"}}},{"type":"object","required":["type"],"properties":)"
    R"({"type":{"enum":["redacted_thinking","server_tool_use","web_search_tool_result"]}}}]}}]}}}]}})";
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
       const ReadPlace place{"messages", call.request.ignored};
       for (size_t i = 0; i < list.size(); ++i) {
         read_at(place_in_list(i), [&] { read_turn(list[i], place.at(i), call.conversation); });
       }
     }},
    {{"max_tokens", Shape::kInteger, "maximum number of tokens of the answer; 0: only prefill", 0, kMostMaxTokens},
     of_request<set_max_tokens>},
    {{"system", Shape::kAny, "the system message: a string, or blocks of type text", 0, 0, Standing::kRead,
      R"({"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":["type","text"],)"
      R"("properties":{"type":{"const":"text"},"text":{"type":"string"}}}}]})"},
     [](const Json& value, MessagesCall& call) {
       call.system = read_content(value, {"system", call.request.ignored});
     }},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&MessagesCall::stream>},
    {{"stop_sequences", Shape::kList, "strings that end the answer and are not part of it", 0, kMaxStopStrings,
      Standing::kRead, R"({"type":"array","items":{"type":"string"},"maxItems":128})"},
     of_request<read_stop>},
    {{"tools", Shape::kList, "tools that the model may call; those of the provider's server are left out", 0, 1024,
      Standing::kRead,
      R"({"type":"array","items":{"anyOf":[{"type":"object","required":["name","input_schema"],"properties":{"type":)"
      R"({"const":"custom"},"name":{"type":"string","minLength":1},"description":{"type":"string"},"input_schema":)"
      R"({"type":"object"},"strict":{"type":"boolean"}}},{"type":"object","required":["type"],"properties":{"type":)"
      R"({"type":"string","minLength":1,"not":{"const":"custom"}}}}]}})"},
     read_named_tools},
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
    ignored_field<MessagesCall>("mcp_servers", "tools are called by the client"),
    ignored_field<MessagesCall>("container", "the server runs no code"),
    ignored_field<MessagesCall>("context_management", "see truncate"),
    ignored_field<MessagesCall>("inference_geo", "the server is in one place"),
};

bool has_key(const Json& value, std::string_view key) {
  if (!value.is_structured()) return false;
  if (member(value, key) != nullptr) return true;
  return std::ranges::any_of(value, [&](const Json& part) { return has_key(part, key); });
}

MessagesCall read_messages_call(const Site& site, const http::Request& source, bool counts_only) {
  MessagesCall call;
  AnswerRequest& request = call.request;
  static const std::vector<FieldRule> kRules = messages_rules();
  Json body = begin_request(site, source, kRules, request);
  read_fields<MessagesCall>(body, kMessagesFields, call);
  if (!counts_only && member(body, "max_tokens") == nullptr) throw missing_field("max_tokens");
  call.marks_cache = has_key(body, "cache_control");
  // `tools` and `tool_choice` were read above; the rows that protocols share do not accept the form that these fields
  // have in Anthropic's protocol.
  body.erase("tools");
  body.erase("tool_choice");
  read_answer_fields(body, request, true);
  if (call.system.is_string()) request.messages.push_back(make_message(Role::kSystem, call.system.get<std::string>()));
  for (Json& message : call.conversation) request.messages.push_back(std::move(message));
  drop_client_lines(site, request);
  read_ending(request);
  return call;
}

Json usage_json(const TokenCounts& counts, bool marks_cache) {
  return {{"input_tokens", marks_cache ? 0 : counts.n_written()},
          {"cache_creation_input_tokens", marks_cache ? counts.n_written() : 0},
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
  MessageStream(http::ExchangePtr exchange, std::string id, bool marks_cache)
      : StreamReply(std::move(exchange), 1, kPing), id_(std::move(id)), marks_cache_(marks_cache) {}

 private:
  void opened() override {
    Json message = message_json(id_, heard_.model);
    message["usage"] = usage_json({.n_prompt = heard_.n_prompt}, marks_cache_);  // without the cached ones
    emit_named({{"type", "message_start"}, {"message", std::move(message)}});
    send_bytes(kPing);
  }
  void content(size_t, std::string_view text) override {
    open("text", {{"type", "text"}, {"text", ""}});
    emit_delta({{"type", "text_delta"}, {"text", text}});
  }
  void reasoning(size_t, std::string_view text) override {
    open("thinking", {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}});
    emit_delta({{"type", "thinking_delta"}, {"thinking", text}});
  }
  void called(size_t, size_t, std::string_view id, std::string_view name) override {
    close();
    open("tool_use", {{"type", "tool_use"}, {"id", id}, {"name", name}, {"input", Json::object()}});
  }
  void tool_arguments(size_t, size_t, std::string_view part) override {
    emit_delta({{"type", "input_json_delta"}, {"partial_json", part}});
  }
  void answered(size_t, const Answer&) override { close(); }
  void finished() override {
    const Answer& answer = heard_.answers.front();
    emit_named({{"type", "message_delta"},
                {"delta", {{"stop_reason", stop_reason(answer)}, {"stop_sequence", stop_sequence(answer)}}},
                {"usage", usage_json(count_tokens(heard_.answers, nullptr), marks_cache_)},
                {"ibid", ibid_details(answer, heard_.ignored)}});
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
  const bool marks_cache_;
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
    listener = std::make_shared<MessageStream>(exchange, id, call.marks_cache);
  } else {
    listener = std::make_shared<WholeReply>(exchange, 1, [id, marks_cache = call.marks_cache](const Heard& heard) {
      const Answer& answer = heard.answers.front();
      Json json = message_json(id, heard.model);
      json["content"] = content_blocks(answer);
      json["stop_reason"] = stop_reason(answer);
      json["stop_sequence"] = stop_sequence(answer);
      json["usage"] = usage_json(count_tokens(heard.answers, nullptr), marks_cache);
      json["ibid"] = ibid_details(answer, heard.ignored);
      return json;
    });
  }
  site.backend->start(std::move(call.request), std::move(listener), exchange->gone());
}

void post_count_tokens(const Site& site, const http::ExchangePtr& exchange) {
  check_text_body(exchange->request());
  MessagesCall call = read_messages_call(site, exchange->request(), true);
  site.backend->encode_prompt(std::move(call.request), respond_input_tokens(exchange), exchange->gone());
}

}  // namespace ibid::serve
