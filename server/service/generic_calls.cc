#include "server/service/generic_calls.h"

#include <string>
#include <string_view>

#include "base/json_limits.h"
#include "server/service/response_format.h"
#include "templates/message.h"

namespace ibid::serve {
namespace {

std::string description_of(const AnswerRequest& request) {
  std::string text = "Call one of these tools. Answer with the call only: the tool's name, and its arguments as JSON.";
  for (const CallableTool& tool : callable_tools(request.tools, request.tool_choice.name)) {
    text += "\n\nTool: " + tool.name;
    if (!tool.description.empty()) text += "\nDescription: " + tool.description;
    text += "\nArguments: " + json_to_string(tool.schema);
  }
  return text;
}

}  // namespace

bool demands_call(const ToolChoice& choice) {
  return choice.kind == ToolChoice::Kind::kRequired || choice.kind == ToolChoice::Kind::kNamed;
}

void describe_tools(const Engine& engine, AnswerRequest& request) {
  if (request.prompt || !demands_call(request.tool_choice) || engine.state().reply_format().shows_tools) return;
  if (!request.messages.is_array()) return;
  const std::string text = description_of(request);
  const bool has_system = !request.messages.empty() && is_from(request.messages.front(), Role::kSystem);
  if (!has_system) {
    request.messages.insert(request.messages.begin(), make_message(Role::kSystem, text));
    return;
  }
  const std::string* content = content_of(request.messages.front());
  if (content != nullptr && std::string_view(*content).ends_with(text)) return;
  set_content(request.messages.front(), content == nullptr || content->empty() ? text : *content + "\n\n" + text);
}

}  // namespace ibid::serve
