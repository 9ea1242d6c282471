// The fields of a request to /v1/responses.
#include <utility>

#include "server/protocol/answer_fields.h"
#include "server/protocol/responses.h"
#include "server/protocol/responses_items.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

// Functions stand bare here, not within "function".
MaybeFault read_bare_tools(const Json& list, ResponseCall& call) {
  Json wrapped = Json::array();
  for (size_t i = 0; i < list.size(); ++i) {
    Json tool = Json::object();
    const std::string* type = text_member(list[i], "type");
    tool["type"] = type == nullptr ? Json() : Json(*type);
    Json function = Json::object();
    for (const char* name : {"name", "description", "parameters", "strict"}) {
      if (const Json* value = member(list[i], name)) function[name] = *value;
    }
    tool["function"] = std::move(function);
    wrapped.push_back(std::move(tool));
  }
  call.echo["tools"] = list;
  MaybeFault fault = read_tools(wrapped, call.request);
  // The client wrote no "function".
  if (fault) {
    if (const size_t at = fault->param.find(".function."); at != std::string::npos) {
      fault->param.erase(at, std::string_view(".function").size());
    }
  }
  return fault;
}

MaybeFault read_text(const Json& value, ResponseCall& call) {
  call.echo["text"] = value;
  const Json* format = member(value, "format");
  if (format == nullptr) return {};
  const std::string* type = text_member(*format, "type");
  const std::string kind = type == nullptr ? "" : *type;
  if (kind == "text") return {};
  if (kind == "json_object") return set_form(call.request, AnswerForm::Kind::kJsonObject, Json(), "text.format");
  if (kind != "json_schema") {
    return Fault{.message = "must be \"text\", \"json_object\" or \"json_schema\"", .param = ".format.type"};
  }
  const Json* schema = member(*format, "schema");
  MaybeFault fault = set_form(call.request, AnswerForm::Kind::kJsonSchema, schema == nullptr ? Json() : *schema,
                              "text.format.schema");
  if (fault) fault->param = ".format.schema";
  return fault;
}

MaybeFault read_reasoning(const Json& value, ResponseCall& call) {
  call.echo["reasoning"] = value;
  static constexpr Field<AnswerRequest> kEffort[] = {{{"effort", Shape::kText, "", 1, 16}, read_effort}};
  return read_fields<AnswerRequest>(value, kEffort, call.request, ".");
}

MaybeFault read_include(const Json& value, ResponseCall& call) {
  for (const Json& wanted : value) {
    if (wanted.is_string() && wanted.get_ref<const std::string&>() == "message.output_text.logprobs") {
      call.wants_logprobs = true;
    }
  }
  return {};
}

template <bool ResponseCall::*Member>
MaybeFault set_flag(const Json& value, ResponseCall& call) {
  call.*Member = value.get<bool>();
  return {};
}

MaybeFault read_output_tokens(const Json& value, ResponseCall& call) {
  call.echo["max_output_tokens"] = value;
  return set_max_tokens(value, call.request);
}

MaybeFault read_conversation(const Json& value, ResponseCall& call) {
  const std::string* id = value.is_string() ? &value.get_ref<const std::string&>() : text_member(value, "id");
  if (id == nullptr || id->empty()) {
    return Fault{.message = "must be an id, or an object with one", .code = "invalid_type"};
  }
  call.conversation_id = *id;
  return {};
}

constexpr std::string_view kInputSchema =
    R"({"oneOf":[{"type":"string"},{"type":"array","minItems":1,"items":{"anyOf":[{"type":"object","required":)"
    R"(["role","content"],"properties":{"type":{"const":"message"},"role":{"enum":["system","developer","user",)"
    R"("assistant"]},"content":{"oneOf":[{"type":"string"},{"type":"array","items":{"type":"object","required":)"
    R"(["type","text"],"properties":{"type":{"enum":["input_text","output_text"]},"text":{"type":"string"}}}}]}}},)"
    R"({"type":"object","required":["type","call_id","name","arguments"],"properties":{"type":{"const":)"
    R"("function_call"},"call_id":{"type":"string"},"name":{"type":"string","minLength":1},"arguments":{"type":)"
    R"("string"}}},{"type":"object","required":["type","call_id","output"],"properties":{"type":{"const":)"
    R"("function_call_output"},"call_id":{"type":"string"},"output":{"oneOf":[{"type":"string"},{"type":"array",)"
    R"("items":{"type":"object","required":["type","text"],"properties":{"type":{"const":"input_text"},"text":)"
    R"({"type":"string"}}}}]}}},{"type":"object","required":["type"],"properties":{"type":{"const":"reasoning"},)"
    R"("content":{"type":"array","items":{"type":"object"}}}},{"type":"object","required":["type","id"],)"
    R"("properties":{"type":{"const":"item_reference"},"id":{"type":"string"}}}]}}]})";
constexpr std::string_view kTextSchema =
    R"({"type":"object","properties":{"format":{"anyOf":[{"type":"object","required":["type"],"properties":{"type":)"
    R"({"enum":["text","json_object"]}}},{"type":"object","required":["type","schema"],"properties":{"type":)"
    R"({"const":"json_schema"},"name":{"type":"string"},"schema":{"type":"object"},"strict":{"type":"boolean"}}}]}}})";
constexpr std::string_view kReasoningSchema =
    R"({"type":"object","properties":{"effort":{"enum":["none","minimal","low","medium","high","xhigh"]}}})";

constexpr Field<ResponseCall> kResponseFields[] = {
    model_field<ResponseCall>(),
    one_answer_field<ResponseCall>(),
    {{"input", Shape::kAny, "a text, or items: messages, calls of functions, their outputs, reasoning", 0, 0,
      Standing::kRead, kInputSchema, true},
     [](const Json& value, ResponseCall& call) { return call.input = value, MaybeFault(); }},
    {{"instructions", Shape::kText, "the system message of this request", 0, 64 << 20},
     [](const Json& value, ResponseCall& call) { return call.instructions = value, MaybeFault(); }},
    {{"previous_response_id", Shape::kText, "goes on from that response, which may be any that is stored", 1, 256},
     [](const Json& value, ResponseCall& call) { return call.previous_id = value.get<std::string>(), MaybeFault(); }},
    {{"conversation", Shape::kAny, "the id of a stored conversation, or an object with it: it is gone on with", 0, 0,
      Standing::kRead, R"({"oneOf":[{"type":"string","minLength":1},{"type":"object","required":["id"],"properties":)"
                       R"({"id":{"type":"string","minLength":1}}}]})"},
     read_conversation},
    {{"stream", Shape::kBoolean, "the answer comes in parts, as events"}, set_flag<&ResponseCall::stream>},
    {{"store", Shape::kBoolean, "whether others may go on from it; true where it is absent"},
     set_flag<&ResponseCall::store>},
    {{"max_output_tokens", Shape::kInteger, "the most tokens of the answer", 1, kMostMaxTokens}, read_output_tokens},
    {{"tools", Shape::kList, "functions that the model may call", 0, 1024, Standing::kRead,
      R"({"type":"array","items":{"type":"object","required":["type","name"],"properties":{"type":)"
      R"({"const":"function"},"name":{"type":"string","minLength":1,"maxLength":64},"parameters":)"
      R"({"type":"object"},"strict":{"type":"boolean"}}}})"},
     read_bare_tools},
    {{"text", Shape::kObject, "format: text, json_object, json_schema", 0, 0, Standing::kRead, kTextSchema}, read_text},
    {{"reasoning", Shape::kObject, "effort: for the template", 0, 0, Standing::kRead, kReasoningSchema},
     read_reasoning},
    {{"include", Shape::kList, "message.output_text.logprobs", 0, 32}, read_include},
    {{"top_logprobs", Shape::kInteger, "the likeliest tokens in each place; with include", 0, 20},
     [](const Json& value, ResponseCall& call) {
       call.request.options.n_logprobs = static_cast<size_t>(integer_of(value));
       return MaybeFault();
     }},
    {{"truncation", Shape::kText, "auto: whole turns go where the context is full; disabled: an error", 1, 16,
      Standing::kRead, R"({"enum":["auto","disabled"]})"},
     [](const Json& value, ResponseCall& call) {
       const std::string& word = value.get_ref<const std::string&>();
       if (word != "auto" && word != "disabled") {
         return MaybeFault(Fault{.message = "must be \"auto\" or \"disabled\""});
       }
       call.request.when_full = word == "auto" ? WhenFull::kDropOldestTurns : WhenFull::kError;
       return MaybeFault();
     }},
    {{"metadata", Shape::kObject, "comes back with the response"},
     [](const Json& value, ResponseCall& call) { return call.echo["metadata"] = value, MaybeFault(); }},
    refused_field<ResponseCall>("background", "an answer comes with its request"),
    refused_field<ResponseCall>("prompt", "there are no stored prompts"),
    ignored_field<ResponseCall>("max_tool_calls", "tools are the client's to call"),
};

}  // namespace

std::span<const Field<ResponseCall>> response_fields() { return kResponseFields; }

}  // namespace ibid::serve
