#include "server/protocol/answer_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/session/chat_session.h"
#include "server/protocol/request_namespace.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxToolNameBytes = 256;
constexpr size_t kMaxChoices = 4096;
constexpr size_t kMaxSaltBytes = 128;
constexpr size_t kMaxFormBytes = 1u << 20;

std::string place(size_t i) { return "[" + std::to_string(i) + "]"; }

MaybeFault read_tool(const Json& tool, AnswerRequest& request) {
  const std::string* type = text_member(tool, "type");
  if (type == nullptr || *type != "function") {
    return Fault{.message = "must be \"function\": other tools are not supported", .param = ".type",
                 .code = "unsupported_value"};
  }
  const Json* function = member(tool, "function");
  if (function == nullptr || !function->is_object()) {
    return Fault{.message = "must be an object", .param = ".function", .code = "invalid_type"};
  }
  const std::string* name = text_member(*function, "name");
  if (name == nullptr || name->empty() || name->size() > kMaxToolNameBytes) {
    return Fault{.message = "must be a text of 1 to 256 bytes", .param = ".function.name", .code = "invalid_type"};
  }
  const Json* parameters = member(*function, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    return Fault{.message = "must be a JSON schema, which is an object", .param = ".function.parameters",
                 .code = "invalid_type"};
  }
  if (MaybeFault fault = check_strict(*function)) {
    fault->param = ".function" + fault->param;
    return fault;
  }
  add_tool(request, *function);
  return {};
}

MaybeFault read_tool_choice(const Json& value, AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  if (value.is_string()) {
    const std::string& word = value.get_ref<const std::string&>();
    if (word == "auto") return request.tool_choice.kind = Kind::kAuto, MaybeFault();
    if (word == "none") return request.tool_choice.kind = Kind::kNone, MaybeFault();
    if (word == "required") return request.tool_choice.kind = Kind::kRequired, MaybeFault();
    return Fault{.message = "must be \"auto\", \"none\", \"required\" or an object that names a function"};
  }
  const std::string* type = text_member(value, "type");
  if (type == nullptr || *type != "function") {
    return Fault{.message = "must be \"auto\", \"none\", \"required\" or an object that names a function",
                 .code = "invalid_type"};
  }
  // Chat completions have the name in "function", responses beside the type.
  const Json* function = member(value, "function");
  const std::string* name = text_member(function == nullptr ? value : *function, "name");
  if (name == nullptr) return Fault{.message = "must be a text", .param = ".function.name", .code = "invalid_type"};
  request.tool_choice.kind = Kind::kNamed;
  request.tool_choice.name = *name;
  return {};
}

MaybeFault read_parallel(const Json& value, AnswerRequest& request) {
  request.tool_choice.parallel = value.get<bool>();
  return {};
}

// What a form is called, and whether it is strict, changes nothing: every form is held.
MaybeFault check_format_names(const Json* format) {
  static constexpr Field<AnswerRequest> kNames[] = {{{"name", Shape::kText}}, {{"strict", Shape::kBoolean}}};
  AnswerRequest nothing;
  return format == nullptr ? MaybeFault() : read_fields<AnswerRequest>(*format, kNames, nothing, ".json_schema.");
}

MaybeFault read_response_format(const Json& value, AnswerRequest& request) {
  const std::string* type = text_member(value, "type");
  const std::string kind = type == nullptr ? "" : *type;
  if (kind == "text") return {};
  if (kind == "json_object" || kind == "json_schema") {
    // {"json_schema": {"schema"}} as OpenAI has it, {"schema"} as llama.cpp and the Responses API have it.
    const Json* wrapped = member(value, "json_schema");
    if (MaybeFault fault = check_format_names(wrapped)) return fault;
    const Json* schema = member(wrapped == nullptr ? value : *wrapped, "schema");
    if (schema != nullptr) {
      const std::string where = wrapped == nullptr ? ".schema" : ".json_schema.schema";
      MaybeFault fault = set_form(request, AnswerForm::Kind::kJsonSchema, *schema, "response_format" + where);
      if (fault) fault->param = where + fault->param;
      return fault;
    }
    if (kind == "json_object") return set_form(request, AnswerForm::Kind::kJsonObject, Json(), "response_format");
    return Fault{.message = "must be an object", .param = ".json_schema.schema", .code = "missing_required_parameter"};
  }
  return Fault{.message = "must be \"text\", \"json_object\" or \"json_schema\"", .param = ".type"};
}

MaybeFault read_template_variables(const Json& value, AnswerRequest& request) {
  for (const auto& [name, variable] : value.get_ref<const Json::object_t&>()) {
    // The prompt's own parts are not a client's to replace under another name.
    if (name == "messages" || name == "tools" || name == "add_generation_prompt" || name == "chat_template") {
      return Fault{.message = "is not a variable that a request may set", .param = "." + name};
    }
    request.variables[name] = variable;
  }
  return {};
}

MaybeFault read_enable_thinking(const Json& value, AnswerRequest& request) {
  set_thinking(request, value.get<bool>());
  return {};
}

MaybeFault read_n(const Json& value, AnswerRequest& request) {
  request.n = static_cast<size_t>(integer_of(value));
  return {};
}

MaybeFault read_truncate(const Json& value, AnswerRequest& request) {
  const std::string* word = value.is_string() ? &value.get_ref<const std::string&>() : nullptr;
  if (value.is_boolean()) {
    request.when_full = value.get<bool>() ? WhenFull::kDropOldestTurns : WhenFull::kError;
  } else if (word != nullptr && (*word == "none" || *word == "disabled")) {
    request.when_full = WhenFull::kError;
  } else if (word != nullptr && (*word == "oldest" || *word == "auto")) {
    request.when_full = WhenFull::kDropOldestTurns;
  } else if (word != nullptr && *word == "middle") {
    request.when_full = WhenFull::kCutNewestMessage;
  } else {
    return Fault{.message = "must be true, false, \"none\", \"oldest\" or \"middle\""};
  }
  return {};
}

// A salt shares nothing with requests that have another one.
MaybeFault read_salt(const Json& value, AnswerRequest& request) {
  const std::string& salt = value.get_ref<const std::string&>();
  const bool is_plain = std::all_of(salt.begin(), salt.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_plain) return Fault{.message = "must consist of printable ASCII characters without spaces"};
  request.cache_namespace = salted_namespace(request.cache_namespace, salt);
  return {};
}

// A literal as an argument of a template.
struct FieldName {
  char text[32] = {};
  template <size_t N>
  consteval FieldName(const char (&name)[N]) { std::copy_n(name, N, text); }
};

template <AnswerForm::Kind Kind, FieldName Name>
MaybeFault read_form(const Json& value, AnswerRequest& request) {
  return set_form(request, Kind, value, Name.text);
}

template <FieldName Name>
MaybeFault read_json_form(const Json& value, AnswerRequest& request) {
  if (!value.is_string()) return set_form(request, AnswerForm::Kind::kJsonSchema, value, Name.text);
  Json schema;
  if (MaybeFault fault = parse_body(value.get_ref<const std::string&>(), schema)) {
    return Fault{.message = "must be a JSON schema, which is an object"};
  }
  return set_form(request, AnswerForm::Kind::kJsonSchema, schema, Name.text);
}

MaybeFault read_json_object(const Json& value, AnswerRequest& request) {
  if (!value.get<bool>()) return {};
  return set_form(request, AnswerForm::Kind::kJsonObject, Json(), "structured_outputs.json_object");
}

MaybeFault read_structured_outputs(const Json& value, AnswerRequest& request) {
  static constexpr Field<AnswerRequest> kForms[] = {
      {{"json"}, read_json_form<"structured_outputs.json">},
      {{"regex", Shape::kText}, read_form<AnswerForm::Kind::kRegex, "structured_outputs.regex">},
      {{"choice", Shape::kList}, read_form<AnswerForm::Kind::kChoices, "structured_outputs.choice">},
      {{"grammar", Shape::kText}, read_form<AnswerForm::Kind::kGbnf, "structured_outputs.grammar">},
      {{"json_object", Shape::kBoolean}, read_json_object}};
  return read_fields<AnswerRequest>(value, kForms, request, ".");
}

constexpr std::string_view kToolsSchema =
    R"({"type":"array","items":{"type":"object","required":["type","function"],"properties":{"type":)"
    R"({"const":"function"},"function":{"type":"object","required":["name"],"properties":{"name":)"
    R"({"type":"string","minLength":1,"maxLength":64},"description":{"type":"string"},)"
    R"("parameters":{"type":"object"},"strict":{"type":"boolean"}}}}}})";
constexpr std::string_view kChoiceSchema =
    R"({"oneOf":[{"enum":["auto","none","required"]},{"type":"object","required":["type","function"],"properties":)"
    R"({"type":{"const":"function"},"function":{"type":"object","required":["name"],"properties":{"name":)"
    R"({"type":"string"}}}}}]})";
constexpr std::string_view kFormatSchema =
    R"({"anyOf":[{"type":"object","required":["type"],"properties":{"type":{"enum":["text","json_object"]}}},)"
    R"({"type":"object","required":["type","json_schema"],"properties":{"type":{"const":"json_schema"},)"
    R"("json_schema":{"type":"object","required":["schema"],"properties":{"name":{"type":"string"},)"
    R"("schema":{"type":"object"},"strict":{"type":"boolean"}}}}}]})";
constexpr std::string_view kStructuredSchema =
    R"({"type":"object","properties":{"json":{"type":["object","string"]},"regex":{"type":"string"},"choice":)"
    R"({"type":"array","minItems":1,"items":{"type":"string","minLength":1}},"grammar":{"type":"string"},)"
    R"("json_object":{"type":"boolean"}}})";
constexpr std::string_view kKwargsSchema =
    R"({"type":"object","propertyNames":{"not":{"enum":["messages","tools","add_generation_prompt",)"
    R"("chat_template"]}}})";
constexpr std::string_view kEffortSchema = R"({"enum":["none","minimal","low","medium","high","xhigh"]})";
constexpr std::string_view kTruncateSchema = R"({"enum":[true,false,"none","oldest","middle"]})";

constexpr Field<AnswerRequest> kChatAnswerFields[] = {
    {{"tools", Shape::kList, "functions that the model may call", 0, kMaxTools, Standing::kRead, kToolsSchema},
     read_tools},
    {{"tool_choice", Shape::kAny, "which of them: auto, none, required, or the one that is named", 0, 0,
      Standing::kRead, kChoiceSchema},
     read_tool_choice},
    {{"parallel_tool_calls", Shape::kBoolean, "more than one call in an answer"}, read_parallel},
    {{"response_format", Shape::kObject, "what the text must be: text, json_object, json_schema", 0, 0,
      Standing::kRead, kFormatSchema},
     read_response_format},
    {{"reasoning_effort", Shape::kText, "for the template; none: no thinking", 1, 16, Standing::kRead, kEffortSchema},
     read_effort},
    {{"enable_thinking", Shape::kBoolean, "for the template: whether the model thinks first"}, read_enable_thinking},
    {{"chat_template_kwargs", Shape::kObject, "variables of the template", 0, 0, Standing::kRead, kKwargsSchema},
     read_template_variables},
    refused_field<AnswerRequest>("functions", "the old form of tools"),
    refused_field<AnswerRequest>("function_call", "the old form of tool_choice"),
    refused_field<AnswerRequest>("chat_template", "the template is the model's"),
};

constexpr Field<AnswerRequest> kCommonAnswerFields[] = {
    {{"n", Shape::kInteger, "answers to the same request", 1, ChatSession::kMaxAnswers}, read_n},
    {{"truncate", Shape::kAny, "what to do when the context is full: none (an error), oldest (whole turns go), middle "
                               "(of the newest message)", 0, 0, Standing::kRead, kTruncateSchema},
     read_truncate},
    {{"cache_salt", Shape::kText, "shares no keys and values with requests that have another one", 1, kMaxSaltBytes,
      Standing::kRead, R"({"type":"string","pattern":"^[!-~]{1,128}$"})"},
     read_salt},
    {{"grammar", Shape::kText, "what the text must be, as GBNF", 1, kMaxFormBytes},
     read_form<AnswerForm::Kind::kGbnf, "grammar">},
    {{"json_schema", Shape::kObject, "what the text must be, as a JSON schema"},
     read_form<AnswerForm::Kind::kJsonSchema, "json_schema">},
    {{"guided_json", Shape::kAny, "the same as json_schema, or its text", 0, 0, Standing::kRead,
      R"({"type":["object","string"]})"},
     read_json_form<"guided_json">},
    {{"guided_regex", Shape::kText, "what the text must be, as a regular expression", 1, kMaxFormBytes},
     read_form<AnswerForm::Kind::kRegex, "guided_regex">},
    {{"guided_choice", Shape::kList, "the texts that the answer may be", 1, kMaxChoices, Standing::kRead,
      R"({"type":"array","items":{"type":"string","minLength":1}})"},
     read_form<AnswerForm::Kind::kChoices, "guided_choice">},
    {{"guided_grammar", Shape::kText, "the same as grammar", 1, kMaxFormBytes},
     read_form<AnswerForm::Kind::kGbnf, "guided_grammar">},
    {{"structured_outputs", Shape::kObject, "one of json, regex, choice, grammar, json_object", 0, 0, Standing::kRead,
      kStructuredSchema},
     read_structured_outputs},
    {{"best_of", Shape::kInteger, "answers of which the best is chosen", 1, 1, Standing::kRefused}},
    refused_field<AnswerRequest>("prompt_logprobs", "log-probabilities of the prompt"),
    refused_field<AnswerRequest>("truncate_prompt_tokens", "see truncate"),
    refused_field<AnswerRequest>("include_stop_str_in_output", "stop strings are no part of the answer"),
    refused_field<AnswerRequest>("t_max_predict_ms", "see max_tokens"),
    user_field<AnswerRequest>(),
    ignored_field<AnswerRequest>("metadata", ""),
    ignored_field<AnswerRequest>("service_tier", ""),
    ignored_field<AnswerRequest>("safety_identifier", ""),
    ignored_field<AnswerRequest>("prompt_cache_key", "whatever was read before is found without"),
    ignored_field<AnswerRequest>("cache_prompt", "an answer is the same with and without"),
};

}  // namespace

std::span<const Field<AnswerRequest>> chat_answer_fields() { return kChatAnswerFields; }
std::span<const Field<AnswerRequest>> common_answer_fields() { return kCommonAnswerFields; }

MaybeFault check_answer(const AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  const bool has_tools = request.tools.is_array() && !request.tools.empty();
  if (choice.kind == Kind::kRequired && !has_tools) {
    return Fault{.message = "is \"required\", and there are no tools", .param = "tool_choice"};
  }
  if (choice.kind == Kind::kNamed) {
    const bool is_there = has_tools && std::any_of(request.tools.begin(), request.tools.end(), [&](const Json& tool) {
      const std::string* name = text_member(tool["function"], "name");
      return name != nullptr && *name == choice.name;
    });
    if (!is_there) return Fault{.message = "names a function that is none of the tools", .param = "tool_choice"};
  }
  return {};
}

MaybeFault read_tools(const Json& list, AnswerRequest& request) {
  for (size_t i = 0; i < list.size(); ++i) {
    if (MaybeFault fault = read_tool(list[i], request)) {
      fault->param = place(i) + fault->param;
      return fault;
    }
  }
  return {};
}

MaybeFault check_strict(const Json& tool) {
  const Json* strict = member(tool, "strict");
  if (strict == nullptr || strict->is_boolean()) return {};
  return Fault{.message = "must be true or false", .param = ".strict", .code = "invalid_type"};
}

void add_tool(AnswerRequest& request, Json function) {
  if (!request.tools.is_array()) request.tools = Json::array();
  Json tool = Json::object();
  tool["type"] = "function";
  tool["function"] = std::move(function);
  request.tools.push_back(std::move(tool));
}

void set_thinking(AnswerRequest& request, bool thinks) {
  request.variables["enable_thinking"] = thinks;
  request.variables["thinking"] = thinks;
}

MaybeFault read_effort(const Json& value, AnswerRequest& request) {
  static constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  const std::string& effort = value.get_ref<const std::string&>();
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    return Fault{.message = "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\" or \"xhigh\""};
  }
  set_thinking(request, effort != "none");
  if (effort != "none") request.variables["reasoning_effort"] = effort;
  return {};
}

MaybeFault set_form(AnswerRequest& request, AnswerForm::Kind kind, const Json& value, std::string field) {
  AnswerForm& form = request.form;
  if (form.kind != AnswerForm::Kind::kText) {
    return Fault{.message = "is a second form of the answer; a request has one at most"};
  }
  if (kind == AnswerForm::Kind::kJsonSchema) {
    if (!value.is_object()) {
      return Fault{.message = "must be a JSON schema, which is an object", .code = "invalid_type"};
    }
    form.text = json_to_string(value);
  } else if (kind == AnswerForm::Kind::kChoices) {
    for (size_t i = 0; i < value.size(); ++i) {
      const bool is_choice = value[i].is_string() && !value[i].get_ref<const std::string&>().empty();
      if (!is_choice) return Fault{.message = "must be a text", .param = place(i), .code = "invalid_type"};
      form.choices.push_back(value[i].get<std::string>());
    }
    if (form.choices.empty()) return Fault{.message = "must have a choice"};
  } else if (kind != AnswerForm::Kind::kJsonObject) {
    form.text = value.get<std::string>();
  }
  form.kind = kind;
  form.field = std::move(field);
  return {};
}

MaybeFault set_max_tokens(const Json& value, AnswerRequest& request) {
  request.options.max_tokens = static_cast<size_t>(integer_of(value));
  return {};
}

}  // namespace ibid::serve
