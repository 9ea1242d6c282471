#include "apps/serve/service/answer_form.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "apps/serve/service/prompt_text.h"
#include "base/json_limits.h"
#include "runtime/answer/constraint_cache.h"
#include "sampling/grammar/grammar.h"
#include "templates/message.h"
#include "templates/reply/marker_words.h"
#include "templates/reply/reply_parser.h"

namespace ibid::serve {
namespace {

using Constraint = std::shared_ptr<const TokenConstraint>;

constexpr const char* kProbe = "Kestrelquestion";

std::string solid(std::string_view marker) { return std::string(trim_marker_spaces(marker)); }

// The channel of an answer that has an answer's form, and how reasoning in front of it ends (templates of gpt-oss).
LeadIn lead_in_channels(const ChannelSyntax& channels, bool to_a_call) {
  LeadIn lead;
  if (!channels.reasoning_channels.empty() && !channels.ends.empty()) {
    lead.begin = channels.channel + channels.reasoning_channels.front() + channels.body_begin;
    lead.end = channels.ends.front() + channels.begin + std::string(role_name(Role::kAssistant));
  }
  if (!to_a_call) lead.opening = channels.channel + "final" + channels.body_begin;
  return lead;
}

// What the model may write in front of a call or a form. Whether the prompt has opened the reasoning already, or closed
// it, depends on the template's variables, so a short prompt is looked at.
LeadIn lead_in_of(const std::shared_ptr<Engine>& engine, const AnswerRequest& request, bool to_a_call) {
  if (request.prompt) return {};
  const ReplyFormat& format = engine->reply_format();
  if (format.channels) return lead_in_channels(*format.channels, to_a_call);
  if (!format.reasoning) return {};
  LeadIn lead{.begin = solid(format.reasoning->begin), .end = solid(format.reasoning->end)};
  if (lead.begin.empty() || lead.end.empty()) return {};
  AnswerRequest probe{.messages = Json::array({make_message(Role::kUser, kProbe)}), .tools = request.tools,
                      .variables = request.variables};
  const Result<MarkedText> prompt = prompt_text(engine, probe);
  if (!prompt.ok()) return lead;  // the turn says what is wrong
  const std::string_view text = prompt->bytes();
  const size_t asked = text.rfind(kProbe);
  const std::string_view behind = asked == text.npos ? std::string_view() : text.substr(asked);
  if (behind.find(lead.end) != behind.npos) return {};
  lead.is_open = opens_reasoning(format, behind);
  return lead;
}

// The part of a tool that has its name and parameters.
const Json& function_of_tool(const Json& tool) {
  const auto function = tool.is_object() ? tool.find("function") : tool.end();
  return tool.is_object() && function != tool.end() ? *function : tool;
}

// A tool that lists its arguments takes no others, unless it says so: a model that has to call would go on inventing.
Json schema_of_arguments(const Json& function) {
  const bool has_parameters = function.contains("parameters") && function["parameters"].is_object();
  Json schema = has_parameters ? function["parameters"] : Json{{"type", "object"}};
  constexpr const char* kAboutOthers[] = {"additionalProperties", "patternProperties", "propertyNames", "$ref",
                                          "allOf", "anyOf", "oneOf"};
  const bool lists_all = schema.contains("properties") &&
                         std::none_of(std::begin(kAboutOthers), std::end(kAboutOthers),
                                      [&](const char* keyword) { return schema.contains(keyword); });
  if (lists_all) schema["additionalProperties"] = false;
  return schema;
}

// Ids as models write them that were taught to; any nine letters and digits are one.
constexpr const char* kCallId = "[a-zA-Z0-9]{9}";
constexpr const char* kCallIndex = "0|[1-9][0-9]?";

// A call that is one JSON object.
Result<DemandedCalls::Call> call_in_envelope(const CallEnvelope& envelope, const std::string& name, Json arguments) {
  Json schema = Json::object(), properties = Json::object();
  properties[envelope.name_key]["const"] = name;
  properties[envelope.arguments_key] = std::move(arguments);
  schema["required"] = Json::array({envelope.name_key, envelope.arguments_key});
  if (!envelope.id_key.empty()) {
    properties[envelope.id_key] = {{"type", "string"}, {"pattern", "^" + std::string(kCallId) + "$"}};
    schema["required"].push_back(envelope.id_key);
  }
  schema["type"] = "object";
  schema["properties"] = std::move(properties);
  schema["additionalProperties"] = false;
  TRY_ASSIGN(Grammar grammar, compile_parsed_json_schema(schema));
  return DemandedCalls::Call{{.words = envelope.before, .grammar = std::move(grammar)}, {.words = envelope.after}};
}

// Any other call whose arguments are JSON.
Result<DemandedCalls::Call> call_in_parts(const CallSyntax& syntax, const std::string& name, const Json& arguments) {
  DemandedCalls::Call call;
  for (const CallPart& part : syntax.parts) {
    if (part.kind == CallPart::Kind::kLiteral) call.push_back({.words = part.text});
    if (part.kind == CallPart::Kind::kName) call.push_back({.words = name});
    const char* pattern = part.kind == CallPart::Kind::kId      ? kCallId
                          : part.kind == CallPart::Kind::kIndex ? kCallIndex
                                                                : nullptr;
    if (pattern != nullptr) {
      TRY_ASSIGN(Grammar grammar, compile_regex(pattern));
      call.push_back({.grammar = std::move(grammar)});
    }
    if (part.kind == CallPart::Kind::kArguments) {
      TRY_ASSIGN(Grammar grammar, compile_parsed_json_schema(arguments));
      call.push_back({.grammar = std::move(grammar)});
    }
  }
  return call;
}

Result<Constraint> constraint_of_call(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ReplyFormat& format = engine->reply_format();
  if (!format.calls || format.calls->arguments != ArgumentsForm::kJson) {
    return {ErrorCode::kUnsupported, "tool_choice: a call cannot be demanded of " + engine->name() +
                                         ": it writes calls in a way that no grammar is made of yet"};
  }
  const CallSyntax& syntax = *format.calls;
  const ToolChoice& choice = request.tool_choice;
  DemandedCalls demanded;
  for (const Json& tool : request.tools) {
    const Json& function = function_of_tool(tool);
    const std::string* name = text_member(function, "name");
    if (name == nullptr || (choice.kind == ToolChoice::Kind::kNamed && *name != choice.name)) continue;
    Json arguments = schema_of_arguments(function);
    TRY_ASSIGN(DemandedCalls::Call call, syntax.envelope
                                             ? call_in_envelope(*syntax.envelope, *name, std::move(arguments))
                                             : call_in_parts(syntax, *name, arguments));
    demanded.calls.push_back(std::move(call));
  }
  if (demanded.calls.empty()) {
    return {ErrorCode::kInvalidArgument, "tool_choice: there is no tool \"" + choice.name + "\""};
  }
  demanded.lead = lead_in_of(engine, request, true);
  demanded.lead.opening += syntax.section_begin;
  demanded.several = syntax.several && choice.parallel && choice.kind == ToolChoice::Kind::kRequired;
  demanded.separator = syntax.separator;
  demanded.end = syntax.section_end;
  TRY_ASSIGN(const Grammar grammar, compile_calls(demanded));
  return engine->constraints().make(grammar);
}

ConstraintKind kind_of(AnswerForm::Kind kind) {
  switch (kind) {
    case AnswerForm::Kind::kText:
    case AnswerForm::Kind::kJsonObject: return ConstraintKind::kJsonObject;
    case AnswerForm::Kind::kJsonSchema: return ConstraintKind::kJsonSchema;
    case AnswerForm::Kind::kGbnf: return ConstraintKind::kGbnf;
    case AnswerForm::Kind::kRegex: return ConstraintKind::kRegex;
    case AnswerForm::Kind::kChoices: return ConstraintKind::kChoices;
  }
  return ConstraintKind::kJsonObject;
}

Result<Constraint> constraint_of_form(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const AnswerForm& form = request.form;
  if (form.kind == AnswerForm::Kind::kText) return Constraint();
  const bool is_list = form.kind == AnswerForm::Kind::kChoices;
  return engine->constraints().make(kind_of(form.kind), is_list ? json_to_string(Json(form.choices)) : form.text,
                                    lead_in_of(engine, request, false));
}

}  // namespace

Result<Constraint> constraint_for(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ToolChoice::Kind choice = request.tool_choice.kind;
  const bool demands_call = choice == ToolChoice::Kind::kRequired || choice == ToolChoice::Kind::kNamed;
  if (!demands_call) return constraint_of_form(engine, request);
  if (request.form.kind != AnswerForm::Kind::kText) {
    return {ErrorCode::kUnsupported, "an answer cannot have a form and call a tool at once"};
  }
  return constraint_of_call(engine, request);
}

}  // namespace ibid::serve
