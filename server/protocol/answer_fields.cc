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

// Reads the definition of a function: {"name", "description", "parameters", "strict"}.
void read_function(const Json& function, AnswerRequest& request) {
  const std::string* name = text_member(function, "name");
  if (name == nullptr || name->empty() || name->size() > kMaxToolNameBytes) {
    throw wrong_type("must be a string of 1 to 256 bytes", ".name");
  }
  const Json* parameters = member(function, "parameters");
  if (parameters != nullptr && !parameters->is_object()) {
    throw wrong_type("must be a JSON schema (an object)", ".parameters");
  }
  check_strict(function);
  add_tool(request, function);
}

// Reads {"type": "function", "function": {...}}, or the function's fields beside "type", as the Responses API has them.
void read_tool(const Json& tool, AnswerRequest& request) {
  if (tool.is_object() && !tool.contains("function") && text_member(tool, "name") != nullptr) {
    Json function = tool;
    function.erase("type");
    return read_function(function, request);
  }
  const Json* function = member(tool, "function");
  if (function == nullptr || !function->is_object()) throw wrong_type("must be an object", ".function");
  read_at(".function", [&] { read_function(*function, request); });
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
  const std::string_view type = type_of(value);
  if (type.empty() || type == "allowed_tools") throw wrong_type(kRule);
  if (type != "function") {
    choice.kind = Kind::kAuto;
    return ignore(request.ignored, {.field = "tool_choice", .reason = "names a tool that is not a function"});
  }
  // In chat completions the tool's name is inside "function"; in the Responses API it is next to "type".
  const Json* function = member(value, "function");
  const std::string* name = text_member(function == nullptr ? value : *function, "name");
  if (name == nullptr) throw wrong_type("must be a string", ".function.name");
  choice.kind = Kind::kNamed;
  choice.name = *name;
}

void read_response_format(const Json& value, AnswerRequest& request) {
  const std::string_view kind = type_of(value);
  if (kind == "text" || value.empty()) return;
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
    R"({"type":"array","items":{"anyOf":[{"type":"object","required":["type","function"],"properties":{"type":)"
    R"({"const":"function"},"function":{"type":"object","required":["name"],"properties":{"name":)"
    R"({"type":"string","minLength":1,"maxLength":64},)"
    R"("parameters":{"type":"object"},"strict":{"type":"boolean"}}}}},{"type":"object","required":["type"],)"
    R"("properties":{"type":{"type":"string","minLength":1,"not":{"const":"function"}}}},{"type":"object",)"
    R"("required":["name"],"properties":{"type":{"enum":["function",null]},"name":{"type":"string","minLength":1,)"
    R"("maxLength":64},"parameters":{"type":"object"},"strict":{"type":"boolean"}},)"
    R"("not":{"required":["function"]}},{"type":"object","minProperties":1,"maxProperties":1,"additionalProperties":)"
    R"({"type":"object"},"not":{"required":["function"]}}]}})";
constexpr std::string_view kChoiceSchema =
    R"({"oneOf":[{"enum":["auto","none","required"]},{"type":"object","required":["type","function"],"properties":)"
    R"({"type":{"const":"function"},"function":{"type":"object","required":["name"],"properties":{"name":)"
    R"({"type":"string"}}}}},{"type":"object","required":["type"],"properties":{"type":{"type":"string","minLength":1,)"
    R"("not":{"enum":["function","allowed_tools"]}}}}]})";
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
constexpr std::string_view kEffortSchema = R"({"enum":["none","minimal","low","medium","high","xhigh","max"]})";
constexpr std::string_view kTruncateSchema = R"({"enum":[true,false,"none","oldest","middle"]})";

constexpr Field<AnswerRequest> kChatAnswerFields[] = {
    {{"tools", Shape::kList, "functions that the model may call; other tools are left out", 0, kMaxTools,
      Standing::kRead, kToolsSchema},
     read_tools},
    {{"tool_choice", Shape::kAny, "whether a tool is called: auto, none, required, or a named function", 0, 0,
      Standing::kRead, kChoiceSchema, false, R"([""])"},
     read_tool_choice},
    {{"parallel_tool_calls", Shape::kBoolean, "allow several tool calls in one answer"},
     set<&AnswerRequest::tool_choice, &ToolChoice::parallel>},
    {{"response_format", Shape::kObject,
      "format of the answer: text, json_object or json_schema; has no effect if a tool call is required", 0, 0,
      Standing::kRead, kFormatSchema, false, "[{}]"},
     read_response_format},
    {{"reasoning_effort", Shape::kText, "passed to the template; none: no thinking", 1, 16, Standing::kRead,
      kEffortSchema, false, R"([""])"},
     read_effort},
    {{"enable_thinking", Shape::kBoolean, "passed to the template: whether the model thinks before it answers"},
     [](const Json& value, AnswerRequest& request) { set_thinking(request, value.get<bool>()); }},
    {{"chat_template_kwargs", Shape::kObject, "variables for the chat template", 0, 0, Standing::kRead, kKwargsSchema},
     read_template_variables},
    refused_field<AnswerRequest>("documents", "add them to a message"),
    refused_field<AnswerRequest>("functions", "deprecated form of tools"),
    refused_field<AnswerRequest>("function_call", "deprecated form of tool_choice", R"([false,"","auto","none"])"),
    refused_field<AnswerRequest>("chat_template", "the model's own template is always used"),
    ignored_field<AnswerRequest>("include_reasoning", "reasoning is always returned", "[true]"),
    ignored_field<AnswerRequest>("separate_reasoning", "reasoning is always returned by itself", "[true]"),
    ignored_field<AnswerRequest>("reasoning_format", "reasoning is always returned by itself",
                                 R"(["","auto","deepseek"])"),
    ignored_field<AnswerRequest>("parse_tool_calls", "tool calls are always parsed", "[true]"),
};

constexpr Field<AnswerRequest> kCommonAnswerFields[] = {
    {{"n", Shape::kInteger, "number of answers", 1, ChatSession::kMaxAnswers},
     [](const Json& value, AnswerRequest& request) {
       if (request.n > 0) store(value, request.n);  // a max_tokens of 0 has set n to 0, which stays
     }},
    {{"truncate", Shape::kAny,
      "if the context is full: none (an error), oldest (drops the oldest turns), middle (truncates the newest message)",
      0, 0, Standing::kRead, kTruncateSchema},
     read_truncate},
    {{"cache_salt", Shape::kText, "requests with different salts share no cached keys and values", 1, kMaxSaltBytes,
      Standing::kRead, R"({"type":"string","pattern":"^[!-~]{1,128}$"})"},
     read_salt},
    {{"grammar", Shape::kText, "constrains the output to this GBNF grammar", 1, kMaxFormBytes, Standing::kRead, "",
      false, R"([""])"},
     read_form<ResponseFormat::Kind::kGbnf, "grammar">},
    {{"json_schema", Shape::kObject, "constrains the output to this JSON schema"},
     read_form<ResponseFormat::Kind::kJsonSchema, "json_schema">},
    {{"guided_json", Shape::kAny, "the same as json_schema; may also be a string", 0, 0, Standing::kRead,
      R"({"type":["object","string"]})", false, R"([""])"},
     read_json_form<"guided_json">},
    {{"guided_regex", Shape::kText, "constrains the output to this regular expression", 1, kMaxFormBytes,
      Standing::kRead, "", false, R"([""])"},
     read_form<ResponseFormat::Kind::kRegex, "guided_regex">},
    {{"guided_choice", Shape::kList, "constrains the output to one of these strings", 1, kMaxChoices, Standing::kRead,
      R"({"type":"array","items":{"type":"string","minLength":1}})", false, "[[]]"},
     read_form<ResponseFormat::Kind::kChoices, "guided_choice">},
    {{"guided_grammar", Shape::kText, "the same as grammar", 1, kMaxFormBytes, Standing::kRead, "", false, R"([""])"},
     read_form<ResponseFormat::Kind::kGbnf, "guided_grammar">},
    {{"structured_outputs", Shape::kObject, "one of json, regex, choice, grammar, json_object", 0, 0, Standing::kRead,
      kStructuredSchema},
     read_structured_outputs},
    refused_field<AnswerRequest>("best_of", "number of answers from which the best is chosen", "[0,1]"),
    refused_field<AnswerRequest>("truncate_prompt_tokens", "see truncate"),
    refused_field<AnswerRequest>("include_stop_str_in_output", "stop strings are never part of the answer"),
    // Editors send these two with every completion.
    ignored_field<AnswerRequest>("t_max_predict_ms", "answers have no limit of time: see max_tokens",
                                 R"([{"maximum":0}])"),
    ignored_field<AnswerRequest>("t_max_prompt_ms", "prompts have no limit of time", R"([{"maximum":0}])"),
    refused_field<AnswerRequest>("guided_whitespace_pattern", "see guided_grammar"),
    refused_field<AnswerRequest>("structural_tag", "see tools"),
    refused_field<AnswerRequest>("logits_processors", "the server runs no code of clients"),
    refused_field<AnswerRequest>("prompt_embeds", "see prompt"),
    refused_field<AnswerRequest>("lora", "adapters are not supported"),
    user_field<AnswerRequest>(),
    ignored_field<AnswerRequest>("metadata", "an annotation"),
    ignored_field<AnswerRequest>("service_tier", "the server has one tier", R"(["auto","default"])"),
    ignored_field<AnswerRequest>("safety_identifier", "an annotation"),
    ignored_field<AnswerRequest>("request_id", "the header x-request-id has the server's own"),
    ignored_field<AnswerRequest>("priority", "requests take turns by their API key"),
    ignored_field<AnswerRequest>("prompt_cache_key", "cached prompts are found without a key"),
    ignored_field<AnswerRequest>("prompt_cache_retention", "cached prompts are kept while there is room"),
    ignored_field<AnswerRequest>("cache_prompt", "prompts are always cached; the answer is the same", "[true]"),
    ignored_field<AnswerRequest>("timings_per_token", "timings come with the last chunk"),
    ignored_field<AnswerRequest>("verbose", "see /apply-template"),
    ignored_field<AnswerRequest>("guided_decoding_backend", "the server has only one backend"),
};

bool has_left_out_tool(const AnswerRequest& request, const std::string& name) {
  return std::ranges::any_of(request.ignored, [&](const IgnoredPart& part) {
    return part.field.starts_with("tools[") && (name.empty() || part.name == name);
  });
}

// If only tools that were left out could satisfy tool_choice, resets tool_choice, and reports this.
void drop_choice(AnswerRequest& request) {
  request.tool_choice.kind = ToolChoice::Kind::kAuto;
  ignore(request.ignored, {.field = "tool_choice", .reason = "the tool was left out"});
}

// Checks combinations of fields, and that a chosen tool is among the tools of the request.
void check_answer(AnswerRequest& request) {
  using Kind = ToolChoice::Kind;
  const ToolChoice& choice = request.tool_choice;
  const bool has_tools = request.tools.is_array() && !request.tools.empty();
  if (choice.kind == Kind::kRequired && !has_tools) {
    if (has_left_out_tool(request, "")) return drop_choice(request);
    throw Fault{.message = "is \"required\", but the request has no tools", .param = "tool_choice"};
  }
  if (choice.demands_call() && request.form.kind != ResponseFormat::Kind::kText) {
    ignore(request.ignored, {.field = request.form.field, .reason = "the answer has to be a tool call"});
  }
  if (choice.kind != Kind::kNamed) return;
  const bool is_there = has_tools && std::any_of(request.tools.begin(), request.tools.end(), [&](const Json& tool) {
                          const std::string* name = text_member(tool["function"], "name");
                          return name != nullptr && *name == choice.name;
                        });
  if (!is_there && has_left_out_tool(request, choice.name)) return drop_choice(request);
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

// True for a tool of a provider whose only key is its type: {"googleSearch": {}}.
static bool is_provider_tool(const Json& tool) {
  return tool.is_object() && tool.size() == 1 && tool.begin()->is_object() && !tool.contains("function");
}

void read_tools(const Json& list, AnswerRequest& request) {
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string_view type = type_of(list[i]);
    if (!type.empty() && type != "function") {
      const Json* named = member(list[i], type);  // the object with the name: {"type": "custom", "custom": {"name"}}
      leave_out_tool(named == nullptr ? list[i] : *named, i, type, request);
    } else if (is_provider_tool(list[i])) {
      leave_out_tool(list[i], i, list[i].begin().key(), request);
    } else {
      read_at(place_in_list(i), [&] { read_tool(list[i], request); });
    }
  }
}

void leave_out_tool(const Json& tool, size_t i, std::string_view type, AnswerRequest& request) {
  const std::string* name = text_member(tool, "name");
  ignore(request.ignored,
         {.field = "tools" + place_in_list(i),
          .reason = "a tool of the type \"" + std::string(type.substr(0, 64)) + "\": only functions are supported",
          .name = name == nullptr ? std::string() : *name});
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

void set_max_tokens(const Json& value, AnswerRequest& request) {
  const int64_t n = integer_of(value);
  request.n = n == 0 ? 0 : 1;
  request.options.max_tokens = n < 0 ? 0 : static_cast<size_t>(n);
}

void set_thinking(AnswerRequest& request, bool thinks) {
  request.variables["enable_thinking"] = thinks;
  request.variables["thinking"] = thinks;
}

void read_effort(const Json& value, AnswerRequest& request) {
  static constexpr std::string_view kEfforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
  const std::string& effort = value.get_ref<const std::string&>();
  if (std::find(std::begin(kEfforts), std::end(kEfforts), effort) == std::end(kEfforts)) {
    throw Fault{.message = "must be \"none\", \"minimal\", \"low\", \"medium\", \"high\", \"xhigh\" or \"max\""};
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
