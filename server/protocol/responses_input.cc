// Reads requests to /v1/responses.
#include <utility>

#include "server/protocol/answer_fields.h"
#include "server/protocol/chat_messages.h"
#include "server/protocol/handlers.h"
#include "server/protocol/openai_conversations.h"
#include "server/protocol/responses.h"
#include "server/protocol/responses_items.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

// Reads tools. In this protocol the fields of a function are not inside "function".
void read_bare_tools(const Json& list, ResponseCall& call) {
  Json wrapped = Json::array();
  for (const Json& bare : list) {
    if (!type_of(bare).empty() && type_of(bare) != "function") {  // not a function: read_tools() leaves it out
      wrapped.push_back(bare);
      continue;
    }
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      if (const Json* value = member(bare, name)) function[name] = *value;
    }
    wrapped.push_back({{"function", std::move(function)}});
  }
  call.echo["tools"] = list;
  try {
    read_tools(wrapped, call.request);
  } catch (Fault& fault) {
    // Removes "function" from the path in the fault, because the client's request does not have it.
    if (const size_t at = fault.param.find(".function."); at != std::string::npos) {
      fault.param.erase(at, std::string_view(".function").size());
    }
    throw;
  }
}

void read_text(const Json& value, ResponseCall& call) {
  call.echo["text"] = value;
  static constexpr Field<ResponseCall> kText[] = {{{"format", Shape::kObject}},
                                                  ignored_field<ResponseCall>("verbosity", "ask for it in a message")};
  read_fields<ResponseCall>(value, kText, call, ".");
  note_ignored(value, rules_of<ResponseCall>(kText), call.request.ignored, "text.");
  const Json* format = member(value, "format");
  if (format == nullptr || type_of(*format) == "text") return;
  if (type_of(*format) == "json_object") {
    return set_form(call.request, ResponseFormat::Kind::kJsonObject, Json(), "text.format");
  }
  if (type_of(*format) != "json_schema") {
    throw Fault{.message = "must be \"text\", \"json_object\" or \"json_schema\"", .param = ".format.type"};
  }
  const Json* schema = member(*format, "schema");
  read_at(".format.schema", [&] {
    set_form(call.request, ResponseFormat::Kind::kJsonSchema, schema == nullptr ? Json() : *schema,
             "text.format.schema");
  });
}

void read_reasoning(const Json& value, ResponseCall& call) {
  call.echo["reasoning"] = value;
  static constexpr Field<AnswerRequest> kReasoning[] = {
      {{"effort", Shape::kText, "", 1, 16}, read_effort},
      ignored_field<AnswerRequest>("summary", "reasoning is returned whole"),
      ignored_field<AnswerRequest>("generate_summary", "reasoning is returned whole")};
  read_fields<AnswerRequest>(value, kReasoning, call.request, ".");
  note_ignored(value, rules_of<AnswerRequest>(kReasoning), call.request.ignored, "reasoning.");
}

void read_include(const Json& value, ResponseCall& call) {
  for (size_t i = 0; i < value.size(); ++i) {
    if (is_text(value[i], "message.output_text.logprobs")) {
      call.wants_logprobs = true;
    } else {
      ignore(call.request.ignored, {.field = "include" + place_in_list(i), .reason = "answers have no such part"});
    }
  }
}

void read_truncation(const Json& value, ResponseCall& call) {
  if (!is_text(value, "auto") && !is_text(value, "disabled")) {
    throw Fault{.message = "must be \"auto\" or \"disabled\""};
  }
  call.request.when_full = is_text(value, "auto") ? WhenFull::kDropOldestTurns : WhenFull::kError;
}

void read_conversation(const Json& value, ResponseCall& call) {
  const std::string* id = value.is_string() ? &value.get_ref<const std::string&>() : text_member(value, "id");
  if (id == nullptr || id->empty()) throw wrong_type("must be an id, or an object with an id");
  call.conversation_id = *id;
}

constexpr std::string_view kResponseInputSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"anyOf":[{"type":"object","required":)"
    R"(["role","content"],"properties":{"type":{"const":"message"},"role":{"enum":["system","developer","user",)"
    R"("assistant"]},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"anyOf":[{"type":)"
    R"("string"},{"type":"object","required":["text"],"properties":{"type":{"enum":["input_text","output_text",null]},)"
    R"("text":{"type":"string"}}}]}}]}}},)"
    R"({"type":"object","required":["type","call_id","name","arguments"],"properties":{"type":{"const":)"
    R"("function_call"},"call_id":{"type":"string"},"name":{"type":"string","minLength":1},"arguments":{"type":)"
    R"("string"}}},{"type":"object","required":["type","call_id","output"],"properties":{"type":{"const":)"
    R"("function_call_output"},"call_id":{"type":"string"},"output":{"oneOf":[{"type":"string"},{"type":"array",)"
    R"("items":{"type":"object","required":["type","text"],"properties":{"type":{"const":"input_text"},"text":)"
    R"({"type":"string"}}}}]}}},{"type":"object","required":["type"],"properties":{"type":{"const":"reasoning"},)"
    R"("content":{"type":"array","items":{"type":"object"}}}},{"type":"object","required":["type","id"],)"
    R"("properties":{"type":{"const":"item_reference"},"id":{"type":"string"}}}]}}]})";
constexpr std::string_view kResponseTextSchema =
    R"({"type":"object","properties":{"format":{"anyOf":[{"type":"object","required":["type"],"properties":{"type":)"
    R"({"enum":["text","json_object"]}}},{"type":"object","required":["type","schema"],"properties":{"type":)"
    R"({"const":"json_schema"},"name":{"type":"string"},"schema":{"type":"object"},"strict":{"type":"boolean"}}}]}}})";
constexpr std::string_view kReasoningSchema =
    R"({"type":"object","properties":{"effort":{"enum":["none","minimal","low","medium","high","xhigh","max"]}}})";

constexpr Field<ResponseCall> kResponseFields[] = {
    model_field<ResponseCall>(),
    one_answer_field<ResponseCall>(),
    {{"input", Shape::kAny, "a string, or items: messages, function calls and their outputs, reasoning", 0, 0,
      Standing::kRead, kResponseInputSchema, true},
     set<&ResponseCall::input>},
    {{"instructions", Shape::kText, "the system message of this request", 0, 64 << 20},
     set<&ResponseCall::instructions>},
    {{"previous_response_id", Shape::kText, "the stored response to continue", 1, 256},
     set<&ResponseCall::previous_id>},
    {{"conversation", Shape::kAny, "the stored conversation to continue: its id, or an object with its id", 0, 0,
      Standing::kRead,
      R"({"oneOf":[{"type":"string","minLength":1},{"type":"object","required":["id"],"properties":)"
      R"({"id":{"type":"string","minLength":1}}}]})"},
     read_conversation},
    {{"stream", Shape::kBoolean, "stream the answer as server-sent events"}, set<&ResponseCall::stream>},
    {{"store", Shape::kBoolean, "store the response so that it can be continued; default true"},
     set<&ResponseCall::store>},
    {{"max_output_tokens", Shape::kInteger, "maximum number of tokens of the answer; -1: no limit; 0: only prefill", -1,
      kMostMaxTokens},
     [](const Json& value, ResponseCall& call) {
       call.echo["max_output_tokens"] = value;
       set_max_tokens(value, call.request);
     }},
    {{"tools", Shape::kList, "functions that the model may call; other tools are left out", 0, 1024, Standing::kRead,
      R"({"type":"array","items":{"anyOf":[{"type":"object","required":["type","name"],"properties":{"type":)"
      R"({"const":"function"},"name":{"type":"string","minLength":1,"maxLength":64},"parameters":)"
      R"({"type":"object"},"strict":{"type":"boolean"}}},{"type":"object","required":["type"],"properties":{"type":)"
      R"({"type":"string","minLength":1,"not":{"const":"function"}}}}]}})"},
     read_bare_tools},
    {{"text", Shape::kObject, "format: text, json_object, json_schema", 0, 0, Standing::kRead, kResponseTextSchema},
     read_text},
    {{"reasoning", Shape::kObject, "effort: passed to the template", 0, 0, Standing::kRead, kReasoningSchema},
     read_reasoning},
    {{"include", Shape::kList, "message.output_text.logprobs", 0, 32}, read_include},
    {{"top_logprobs", Shape::kInteger, "number of most likely alternatives per token; needs include", 0, 20},
     [](const Json& value, ResponseCall& call) { store(value, call.request.options.n_logprobs); }},
    {{"truncation", Shape::kText, "if the context is full: auto (drops the oldest turns), disabled (an error)", 1, 16,
      Standing::kRead, R"({"enum":["auto","disabled"]})"},
     read_truncation},
    {{"metadata", Shape::kObject, "returned with the response"},
     [](const Json& value, ResponseCall& call) { call.echo["metadata"] = value; }},
    {{"return_progress", Shape::kBoolean, "send events with prompt_progress during prefill; needs stream"},
     set<&ResponseCall::progress>},
    {{"timings_per_token", Shape::kBoolean, "send the timings so far with each event of text; needs stream"},
     set<&ResponseCall::timings>},
    refused_field<ResponseCall>("prompt_logprobs", "see /v1/completions"),
    refused_field<ResponseCall>("return_tokens_as_token_ids", "see include"),
    refused_field<ResponseCall>("background", "background responses are not supported"),
    refused_field<ResponseCall>("prompt", "stored prompts are not supported"),
    ignored_field<ResponseCall>("max_tool_calls", "tools are called by the client"),
    ignored_field<ResponseCall>("client_metadata", "an annotation"),
    ignored_field<ResponseCall>("context_management", "see truncation"),
};

// Finds the response or the conversation that the request continues, if it names one.
void find_history(const Site& site, ResponseContext& context) {
  const ResponseCall& call = context.call;
  if (!call.previous_id.empty() && !call.conversation_id.empty()) {
    throw Fault{.message = "cannot be combined with previous_response_id", .param = "conversation"};
  }
  if (!call.conversation_id.empty()) {
    auto taken = site.store->take_conversation(context.cache_namespace, call.conversation_id);
    if (!taken.ok()) {
      Fault fault = fault_of_conversation(site, taken.status());
      fault.param = "conversation";
      throw fault;
    }
    context.conversation = *std::move(taken);
    context.in_front = context.conversation->conversation().items;
    return;
  }
  if (call.previous_id.empty()) return;
  constexpr const char* kParam = "previous_response_id";
  const StoredResponse found = find_response(site, context.cache_namespace, call.previous_id, kParam);
  context.in_front = items_of(site, context.cache_namespace, found, kParam);
  if (found.conversation_id.empty()) context.previous_id = call.previous_id;
}

// Replaces references by the items that they name. The param of a fault is relative to "input".
void resolve_references(const Site& site, const std::string& cache_namespace, const Json& in_front, Json& input) {
  if (!input.is_array()) return;
  for (size_t i = 0; i < input.size(); ++i) {
    if (type_of(input[i]) != "item_reference") continue;
    read_at(place_in_list(i), [&] {
      const std::string& id = need_text(input[i], "id");
      Json found;
      for (const Json& item : in_front) {
        if (item["id"] == id) found = item;
      }
      if (found.is_null()) {
        Result<Json> kept = site.store->find_item(cache_namespace, id);
        if (!kept.ok()) throw fault_of_store(site, kept.status());
        found = *std::move(kept);
      }
      if (found.is_null()) {
        throw Fault{.status = 404,
                    .message = "no item has this id, or it is no longer stored",
                    .param = ".id",
                    .code = "not_found"};
      }
      input[i] = std::move(found);
    });
  }
}

// Sets all messages: instructions, preceding items, input. Converts the input to items that can be stored.
void read_items(const Site& site, ResponseContext& context) {
  ResponseCall& call = context.call;
  find_history(site, context);
  read_at("input", [&] {
    resolve_references(site, context.cache_namespace, context.in_front, call.input);
    Json own = Json::array();
    IgnoredParts ignored;  // not reported here: all items are read again below
    read_input(call.input, own, ignored);
  });
  call.input = stored_items(call.input, site.new_id);
  Json& messages = call.request.messages;
  if (call.instructions.is_string()) {
    messages.push_back(make_message(Role::kSystem, call.instructions.get<std::string>()));
  }
  // The preceding items and the input are read together, because a call and its reasoning may be on different sides of
  // the boundary.
  Json items = context.in_front;
  items.insert(items.end(), call.input.begin(), call.input.end());
  try {
    read_input(items, messages, call.request.ignored, context.in_front.size());
    read_ending(call.request);
  } catch (Fault& fault) {
    fault.param = "input";
    throw;
  }
  context.continues = call.request.continues;
}

}  // namespace

std::vector<FieldRule> response_rules() { return message_rules(rules_of<ResponseCall>(kResponseFields)); }

Fault fault_of_response(const Site& site, const Status& status, const std::string& id, const char* param) {
  if (status.code() != ErrorCode::kNotFound) return fault_of_store(site, status);
  return {.status = 404,
          .message = "Response with id '" + id.substr(0, 64) + "' not found: it does not exist, or is no longer stored",
          .param = param,
          .code = "not_found"};
}

StoredResponse find_response(const Site& site, const std::string& cache_namespace, const std::string& id,
                             const char* param) {
  Result<StoredResponse> found = site.store->find_response(cache_namespace, id);
  if (!found.ok()) throw fault_of_response(site, found.status(), id, param);
  return *std::move(found);
}

Json items_of(const Site& site, const std::string& cache_namespace, const StoredResponse& response, const char* param) {
  Json items = response.in_front;
  if (response.conversation_id.empty()) {
    items.insert(items.end(), response.items.begin(), response.items.end());
    return items;
  }
  Result<StoredConversation> conversation = site.store->find_conversation(cache_namespace, response.conversation_id);
  if (!conversation.ok()) throw fault_of_response(site, conversation.status(), response.id, param);
  Json& all = conversation->items;
  const auto last = std::ranges::find(all, response.items.back()["id"], [](const Json& item) { return item["id"]; });
  if (last == all.end()) {
    throw fault_of_response(site, Status(ErrorCode::kNotFound, "its items were deleted"), response.id, param);
  }
  all.erase(last + 1, all.end());
  return std::move(all);
}

void read_response(const Site& site, const http::Request& source, ResponseContext& context) {
  ResponseCall& call = context.call;
  std::optional<size_t>& n_logprobs = call.request.options.n_logprobs;
  static const std::vector<FieldRule> kRules = response_rules();
  Json body = begin_request(site, source, kRules, call.request);
  // Responses are stored in the namespace without the salt, because the salt may change between requests.
  context.cache_namespace = call.request.cache_namespace;
  read_fields<ResponseCall>(body, kResponseFields, call);
  // The tools were read above; the shared row would require "function" in them.
  body.erase("tools");
  read_answer_fields(body, call.request, true);
  for (const char* name : {"tool_choice", "parallel_tool_calls", "temperature", "top_p", "truncation", "user"}) {
    if (const Json* value = member(body, name)) call.echo[name] = *value;
  }
  // Timings need log-probabilities, too, because the tokens of a stream are counted by them.
  const bool needs_ids = call.wants_logprobs || (call.timings && call.stream);
  n_logprobs = needs_ids ? std::optional(n_logprobs.value_or(0)) : std::nullopt;
  read_items(site, context);
  drop_client_lines(site, call.request);
  call.request.store = call.store;
}

}  // namespace ibid::serve
