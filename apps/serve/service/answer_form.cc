#include "apps/serve/service/answer_form.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "runtime/answer/constraint_cache.h"
#include "sampling/grammar/grammar.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

using Constraint = std::shared_ptr<const TokenConstraint>;

std::string trimmed_word(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlanks);
  if (begin == text.npos) return {};
  return std::string(text.substr(begin, text.find_last_not_of(kBlanks) + 1 - begin));
}

// The part of a tool that has its name and parameters.
const Json& function_of_tool(const Json& tool) {
  const auto function = tool.is_object() ? tool.find("function") : tool.end();
  return tool.is_object() && function != tool.end() ? *function : tool;
}

// The schema of the JSON object that a call is: one of the tools' names, with that tool's arguments.
Json schema_of_calls(const AnswerRequest& request, const CallEnvelope& envelope) {
  Json calls = Json::array();
  for (const Json& tool : request.tools) {
    const Json& function = function_of_tool(tool);
    const std::string* name = text_member(function, "name");
    if (name == nullptr) continue;
    if (request.tool_choice.kind == ToolChoice::Kind::kNamed && *name != request.tool_choice.name) continue;
    Json properties = Json::object();
    properties[envelope.name_key]["const"] = *name;
    const bool has_parameters = function.contains("parameters") && function["parameters"].is_object();
    properties[envelope.arguments_key] = has_parameters ? function["parameters"] : Json{{"type", "object"}};
    Json call = Json::object();
    call["type"] = "object";
    call["properties"] = std::move(properties);
    call["required"] = Json::array({envelope.name_key, envelope.arguments_key});
    call["additionalProperties"] = false;
    calls.push_back(std::move(call));
  }
  return calls;
}

Result<Constraint> constraint_of_call(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ReplyFormat* format = &engine->reply_format();
  const bool is_plain = format->calls && format->calls->envelope && format->calls->section_begin.empty() &&
                        format->calls->arguments == ArgumentsForm::kJson;
  const std::string begin = is_plain ? trimmed_word(format->calls->envelope->before) : std::string();
  const std::string end = is_plain ? trimmed_word(format->calls->envelope->after) : std::string();
  if (begin.empty() || end.empty()) {
    return {ErrorCode::kUnsupported, "tool_choice: a call cannot be demanded of " + engine->name() +
                                         ": it writes calls in a way that no grammar is made of yet"};
  }
  const Json calls = schema_of_calls(request, *format->calls->envelope);
  if (calls.empty()) {
    return {ErrorCode::kInvalidArgument, "tool_choice: there is no tool \"" + request.tool_choice.name + "\""};
  }
  TRY_ASSIGN(Grammar grammar, compile_parsed_json_schema(calls.size() == 1 ? calls[0] : Json{{"anyOf", calls}}));
  const bool once = request.tool_choice.kind == ToolChoice::Kind::kNamed || !request.tool_choice.parallel;
  TRY_ASSIGN(const Grammar triggered,
             compile_triggers({{begin, std::move(grammar), end}}, {.required = true, .once = once}));
  return engine->constraints().make(triggered);
}

Result<Constraint> constraint_of_form(Engine& engine, const AnswerForm& form) {
  switch (form.kind) {
    case AnswerForm::Kind::kText: return Constraint();
    case AnswerForm::Kind::kJsonObject: return engine.constraints().make(ConstraintKind::kJsonObject, {});
    case AnswerForm::Kind::kJsonSchema: return engine.constraints().make(ConstraintKind::kJsonSchema, form.text);
    case AnswerForm::Kind::kGbnf: return engine.constraints().make(ConstraintKind::kGbnf, form.text);
    case AnswerForm::Kind::kRegex: return engine.constraints().make(ConstraintKind::kRegex, form.text);
    case AnswerForm::Kind::kChoices:
      return engine.constraints().make(ConstraintKind::kChoices, json_to_string(Json(form.choices)));
  }
  return Constraint();
}

}  // namespace

Result<Constraint> constraint_for(const std::shared_ptr<Engine>& engine, const AnswerRequest& request) {
  const ToolChoice::Kind choice = request.tool_choice.kind;
  const bool demands_call = choice == ToolChoice::Kind::kRequired || choice == ToolChoice::Kind::kNamed;
  if (!demands_call) return constraint_of_form(*engine, request.form);
  if (request.form.kind != AnswerForm::Kind::kText) {
    return {ErrorCode::kUnsupported, "an answer cannot have a form and call a tool at once"};
  }
  return constraint_of_call(engine, request);
}

}  // namespace ibid::serve
