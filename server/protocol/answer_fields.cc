#include "server/protocol/answer_fields.h"

#include <algorithm>
#include <string>
#include <utility>

#include "runtime/session/session_state.h"
#include "server/store/cache_namespace.h"
#include "templates/message.h"

namespace ibid::serve {

namespace {

constexpr size_t kMaxTools = 1024;
constexpr size_t kMaxToolNameBytes = 256;
constexpr size_t kMaxChoices = 4096;
constexpr size_t kMaxSaltBytes = 128;
constexpr size_t kMaxFormBytes = 1u << 20;

void read_tool(const Json& tool, AnswerRequest& request) {
  if (type_of(tool) != "function") {
    throw Fault{.message = "must be \"function\": other tools are not supported",
                .param = ".type",
                .code = "unsupported_value"};
  }
  const Json* function = member(tool, "function");
  if (function == nullptr || !function->is_object()) throw wrong_type("must be an object", ".function");
  const std::string* name = text_member(*function, "name");
  if (name == nullptr || name->empty() || name->size() > kMaxToolNameBytes) {
    throw wrong_type("must be a string of 1 to 256 bytes", ".function.name");
  }
  const Json* parameters = member(*function, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    throw wrong_type("must be a JSON schema (an object)", ".function.parameters");
  }
  read_at(".function", [&] { check_strict(*function); });
  add_tool(request, *function);
}

void read_tool_choice(const Json& value, AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  constexpr const char* kRule = "must be \"auto\", \"none\", \"required\" or an object that names a function";
  ToolChoice& choice = request.tool_choice;
  if (value.is_string()) {
    if (is_text(value, "auto")) {
      choice.kind = Kind::kAuto;
    } else if (is_text(value, "none")) {
      choice.kind = Kind::kNone;
    } else if (is_text(value, "required")) {
      choice.kind = Kind::kRequired;
    } else {
      throw Fault{.message = kRule};
    }
    return;
  }
  if (type_of(value) != "function") throw wrong_type(kRule);
  // The name is in "function" in chat completions, and next to "type" in responses.
  const Json* function = member(value, "function");
  const std::string* name = text_member(function == nullptr ? value : *function, "name");
  if (name == nullptr) throw wrong_type("must be a string", ".function.name");
  choice.kind = Kind::kNamed;
  choice.name = *name;
}

void read_response_format(const Json& value, AnswerRequest& request) {
  const std::string_view kind = type_of(value);
  if (kind == "text") return;
  if (kind != "json_object" && kind != "json_schema") {
    throw Fault{.message = "must be \"text\", \"json_object\" or \"json_schema\"", .param = ".type"};
  }
  // OpenAI sends {"json_schema": {"schema"}}, llama.cpp and the Responses API {"schema"}. "name" and "strict" have no
  // effect: every format is enforced.
  const Json* wrapped = member(value, "json_schema");
  if (wrapped != nullptr) {
    static constexpr Field<AnswerRequest> kNames[] = {{{"name", Shape::kText}}, {{"strict", Shape::kBoolean}}};
    read_fields<AnswerRequest>(*wrapped, kNames, request, ".json_schema.");
  }
  const std::string where = wrapped == nullptr ? ".schema" : ".json_schema.schema";
  if (const Json* schema = member(wrapped == nullptr ? value : *wrapped, "schema")) {
    read_at(where, [&] { set_form(request, ResponseFormat::Kind::kJsonSchema, *schema, "response_format" + where); });
  } else if (kind == "json_object") {
    set_form(request, ResponseFormat::Kind::kJsonObject, Json(), "response_format");
  } else {
    throw Fault{.message = "must be an object", .param = ".json_schema.schema", .code = "missing_required_parameter"};
  }
}

void read_template_variables(const Json& value, AnswerRequest& request) {
  for (const auto& [name, variable] : value.get_ref<const Json::object_t&>()) {
    // These variables are parts of the prompt, which a client must not replace.
    if (name == "messages" || name == "tools" || name == "add_generation_prompt" || name == "chat_template") {
      throw Fault{.message = "is reserved and cannot be set by a request", .param = "." + name};
    }
    request.variables[name] = variable;
  }
}

void read_truncate(const Json& value, AnswerRequest& request) {
  if (value == Json(false) || is_text(value, "none") || is_text(value, "disabled")) {
    request.when_full = WhenFull::kError;
  } else if (value == Json(true) || is_text(value, "oldest") || is_text(value, "auto")) {
    request.when_full = WhenFull::kDropOldestTurns;
  } else if (is_text(value, "middle")) {
    request.when_full = WhenFull::kCutNewestMessage;
  } else {
    throw Fault{.message = "must be true, false, \"none\", \"oldest\" or \"middle\""};
  }
}

// Requests with different salts share no stored data and no KV.
void read_salt(const Json& value, AnswerRequest& request) {
  const std::string& salt = value.get_ref<const std::string&>();
  const bool is_plain = std::all_of(salt.begin(), salt.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!is_plain) throw Fault{.message = "must consist of printable ASCII characters without spaces"};
  request.cache_namespace = salted_namespace(request.cache_namespace, salt);
}

// Makes a string literal usable as a template argument.
struct FieldName {
  char text[32] = {};
  template <size_t N>
  consteval FieldName(const char (&name)[N]) {
    std::copy_n(name, N, text);
  }
};

template <ResponseFormat::Kind Kind, FieldName Name>
void read_form(const Json& value, AnswerRequest& request) {
  set_form(request, Kind, value, Name.text);
}

template <FieldName Name>
void read_json_form(const Json& value, AnswerRequest& request) {
  Json schema = value;
  if (value.is_string()) {
    try {
      schema = parse_body(value.get_ref<const std::string&>());
    } catch (const Fault&) {
      throw Fault{.message = "must be a JSON schema (an object)"};
    }
  }
  set_form(request, ResponseFormat::Kind::kJsonSchema, schema, Name.text);
}

void read_json_object(const Json& value, AnswerRequest& request) {
  if (!value.get<bool>()) return;
  set_form(request, ResponseFormat::Kind::kJsonObject, Json(), "structured_outputs.json_object");
}

void read_structured_outputs(const Json& value, AnswerRequest& request) {
  static constexpr Field<AnswerRequest> kForms[] = {
      {{"json"}, read_json_form<"structured_outputs.json">},
      {{"regex", Shape::kText}, read_form<ResponseFormat::Kind::kRegex, "structured_outputs.regex">},
      {{"choice", Shape::kList}, read_form<ResponseFormat::Kind::kChoices, "structured_outputs.choice">},
      {{"grammar", Shape::kText}, read_form<ResponseFormat::Kind::kGbnf, "structured_outputs.grammar">},
      {{"json_object", Shape::kBoolean}, read_json_object}};
  read_fields<AnswerRequest>(value, kForms, request, ".");
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
    {{"tool_choice", Shape::kAny, "whether a tool is called: auto, none, required, or a named function", 0, 0,
      Standing::kRead, kChoiceSchema},
     read_tool_choice},
    {{"parallel_tool_calls", Shape::kBoolean, "allow several tool calls in one answer"},
     set<&AnswerRequest::tool_choice, &ToolChoice::parallel>},
    {{"response_format", Shape::kObject, "format of the answer: text, json_object or json_schema", 0, 0,
      Standing::kRead, kFormatSchema},
     read_response_format},
    {{"reasoning_effort", Shape::kText, "passed to the template; none: no thinking", 1, 16, Standing::kRead,
      kEffortSchema},
     read_effort},
    {{"enable_thinking", Shape::kBoolean, "passed to the template: whether the model thinks before it answers"},
     [](const Json& value, AnswerRequest& request) { set_thinking(request, value.get<bool>()); }},
    {{"chat_template_kwargs", Shape::kObject, "variables for the chat template", 0, 0, Standing::kRead, kKwargsSchema},
     read_template_variables},
    refused_field<AnswerRequest>("functions", "deprecated form of tools"),
    refused_field<AnswerRequest>("function_call", "deprecated form of tool_choice"),
    refused_field<AnswerRequest>("chat_template", "the model's own template is always used"),
};

constexpr Field<AnswerRequest> kCommonAnswerFields[] = {
    {{"n", Shape::kInteger, "number of answers", 1, ChatSession::kMaxAnswers}, set<&AnswerRequest::n>},
    {{"truncate", Shape::kAny,
      "if the context is full: none (an error), oldest (drops the oldest turns), middle (truncates the newest message)",
      0, 0, Standing::kRead, kTruncateSchema},
     read_truncate},
    {{"cache_salt", Shape::kText, "requests with different salts share no cached keys and values", 1, kMaxSaltBytes,
      Standing::kRead, R"({"type":"string","pattern":"^[!-~]{1,128}$"})"},
     read_salt},
    {{"grammar", Shape::kText, "constrains the output to this GBNF grammar", 1, kMaxFormBytes},
     read_form<ResponseFormat::Kind::kGbnf, "grammar">},
    {{"json_schema", Shape::kObject, "constrains the output to this JSON schema"},
     read_form<ResponseFormat::Kind::kJsonSchema, "json_schema">},
    {{"guided_json", Shape::kAny, "the same as json_schema; may also be a string", 0, 0, Standing::kRead,
      R"({"type":["object","string"]})"},
     read_json_form<"guided_json">},
    {{"guided_regex", Shape::kText, "constrains the output to this regular expression", 1, kMaxFormBytes},
     read_form<ResponseFormat::Kind::kRegex, "guided_regex">},
    {{"guided_choice", Shape::kList, "constrains the output to one of these strings", 1, kMaxChoices, Standing::kRead,
      R"({"type":"array","items":{"type":"string","minLength":1}})"},
     read_form<ResponseFormat::Kind::kChoices, "guided_choice">},
    {{"guided_grammar", Shape::kText, "the same as grammar", 1, kMaxFormBytes},
     read_form<ResponseFormat::Kind::kGbnf, "guided_grammar">},
    {{"structured_outputs", Shape::kObject, "one of json, regex, choice, grammar, json_object", 0, 0, Standing::kRead,
      kStructuredSchema},
     read_structured_outputs},
    {{"best_of", Shape::kInteger, "number of answers from which the best is chosen", 1, 1, Standing::kRefused}},
    refused_field<AnswerRequest>("truncate_prompt_tokens", "see truncate"),
    refused_field<AnswerRequest>("include_stop_str_in_output", "stop strings are never part of the answer"),
    refused_field<AnswerRequest>("t_max_predict_ms", "see max_tokens"),
    user_field<AnswerRequest>(),
    ignored_field<AnswerRequest>("metadata", ""),
    ignored_field<AnswerRequest>("service_tier", ""),
    ignored_field<AnswerRequest>("safety_identifier", ""),
    ignored_field<AnswerRequest>("prompt_cache_key", "cached prompts are found without a key"),
    ignored_field<AnswerRequest>("cache_prompt", "prompts are always cached; the answer is the same"),
};

// Checks combinations of fields, and that a chosen tool is among the tools of the request.
void check_answer(const AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  const bool has_tools = request.tools.is_array() && !request.tools.empty();
  if (choice.kind == Kind::kRequired && !has_tools) {
    throw Fault{.message = "is \"required\", but the request has no tools", .param = "tool_choice"};
  }
  if (choice.kind != Kind::kNamed) return;
  const bool is_there = has_tools && std::any_of(request.tools.begin(), request.tools.end(), [&](const Json& tool) {
                          const std::string* name = text_member(tool["function"], "name");
                          return name != nullptr && *name == choice.name;
                        });
  if (!is_there) throw Fault{.message = "names a function that is not in tools", .param = "tool_choice"};
}

}  // namespace

std::span<const Field<AnswerRequest>> chat_answer_fields() { return kChatAnswerFields; }
std::span<const Field<AnswerRequest>> common_answer_fields() { return kCommonAnswerFields; }

void read_answer_fields(const Json& body, AnswerRequest& request, bool has_messages) {
  note_chosen_length(body, request);
  read_fields(body, sampler_fields(), request);
  read_fields(body, common_answer_fields(), request);
  if (has_messages) {
    read_fields(body, chat_answer_fields(), request);
    check_answer(request);
  }
  check_sampler(request);
}

std::vector<FieldRule> prompt_rules(std::vector<FieldRule> own) {
  append_rules(own, sampler_fields());
  append_rules(own, common_answer_fields());
  return own;
}

std::vector<FieldRule> message_rules(std::vector<FieldRule> own) {
  own = prompt_rules(std::move(own));
  append_rules(own, chat_answer_fields());
  return own;
}

void read_tools(const Json& list, AnswerRequest& request) {
  read_each(list, [&](const Json& tool) { read_tool(tool, request); });
}

void check_strict(const Json& tool) {
  const Json* strict = member(tool, "strict");
  if (strict != nullptr && !strict->is_boolean()) throw wrong_type("must be true or false", ".strict");
}

void add_tool(AnswerRequest& request, Json function) {
  if (!request.tools.is_array()) request.tools = Json::array();
  Json tool = Json::object();
  tool["type"] = "function";
  tool["function"] = std::move(function);
  request.tools.push_back(std::move(tool));
}

void score_prompt(std::optional<size_t> n_top, bool stream, AnswerRequest& request) {
  if (!n_top) return;
  if (stream) {
    throw Fault{.message = "cannot be streamed", .param = "prompt_logprobs", .code = "unsupported_value"};
  }
  request.n_prompt_logprobs = std::max(*n_top, request.n_prompt_logprobs.value_or(0));
}

void set_thinking(AnswerRequest& request, bool thinks) {
  request.variables["enable_thinking"] = thinks;
  request.variables["thinking"] = thinks;
}

void read_effort(const Json& value, AnswerRequest& request) {
  static constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh"};
  const std::string& effort = value.get_ref<const std::string&>();
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    throw Fault{.message = "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\" or \"xhigh\""};
  }
  set_thinking(request, effort != "none");
  if (effort != "none") request.variables["reasoning_effort"] = effort;
}

void set_form(AnswerRequest& request, ResponseFormat::Kind kind, const Json& value, std::string field) {
  ResponseFormat& form = request.form;
  if (form.kind != ResponseFormat::Kind::kText) {
    throw Fault{.message = "conflicts with another response format field"};
  }
  if (kind == ResponseFormat::Kind::kJsonSchema) {
    if (!value.is_object()) throw wrong_type("must be a JSON schema (an object)");
    form.text = json_to_string(value);
  } else if (kind == ResponseFormat::Kind::kChoices) {
    read_each(value, [&](const Json& choice) {
      if (!choice.is_string() || is_text(choice, "")) throw wrong_type("must be a string");
      form.choices.push_back(choice.get<std::string>());
    });
    if (form.choices.empty()) throw Fault{.message = "must not be empty"};
  } else if (kind != ResponseFormat::Kind::kJsonObject) {
    form.text = value.get<std::string>();
  }
  form.kind = kind;
  form.field = std::move(field);
}

}  // namespace ibid::serve
