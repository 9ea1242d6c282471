// `ibid parse`: splits texts that a model wrote into reasoning, content and tool calls, as the server does.
#include <memory>
#include <string>
#include <utility>

#include "apps/command_line/command.h"
#include "apps/inspect/json_lines.h"
#include "apps/models/model_arguments.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "templates/chat_template.h"
#include "templates/message.h"
#include "templates/reply/find_reply_format.h"
#include "templates/reply/protocol_messages.h"
#include "templates/reply/reply_parser.h"

namespace ibid {

namespace {

// Messages for an input line that has none. The parser needs a prompt, because the end of the prompt determines whether
// the answer begins inside reasoning.
Json any_messages() { return Json::array({make_message(Role::kUser, "Hi")}); }

// Returns an array member; null if it is absent, null or empty.
Result<Json> take_array(Json& line, const char* name) {
  Json value = take(line, name);
  if (value.is_null() || (value.is_array() && value.empty())) return Json();
  if (value.is_array()) return value;
  return Status(ErrorCode::kInvalidArgument, "expected an array for \"" + std::string(name) + "\"");
}

Json as_json(const ParsedReply& reply, const ReplyFormat& format) {
  Json calls = Json::array();
  for (const ParsedCall& call : reply.calls) {
    Json arguments = *parse_json(call.arguments, "arguments of a call");
    calls.push_back({{"name", call.name}, {"arguments", std::move(arguments)}});
  }
  return {{"content", reply.content},
          {"reasoning", reply.reasoning},
          {"tool_calls", std::move(calls)},
          {"form", format.origin}};
}

// Parses {"text", "tools"?, "messages"?, "tool_choice"?}; all other keys are variables of the template.
Result<Json> parse_text(const ChatTemplate& chat_template, const ReplyFormat& format, Json line) {
  const Json text = take(line, "text");
  if (!text.is_string()) return Status(ErrorCode::kInvalidArgument, "expected a string \"text\"");
  TRY_ASSIGN(const Json tools, take_array(line, "tools"));
  TRY_ASSIGN(const Json messages, take_array(line, "messages"));
  const Json choice = take(line, "tool_choice");
  const bool no_calls = choice == Json("none");
  TemplateVariables variables{.values = std::move(line)};
  if (!tools.is_null()) variables.values["tools"] = tools;
  variables.values["add_generation_prompt"] = true;
  const Json asked = messages_for_template(messages.is_null() ? any_messages() : messages, format);
  // If the template refuses any_messages(), there is no prompt, and the text is split without one.
  const Result<MarkedText> prompt = chat_template.render(asked, variables);
  if (!prompt.ok() && !messages.is_null()) return prompt.status();
  const std::string prompt_end = prompt.ok() ? prompt->bytes() : std::string();
  ReplyParser parser(format, {.tools = no_calls ? nullptr : &tools,
                              .prompt_end = prompt_end,
                              .demands_call = choice == Json("required") || choice.is_object()});
  parser.feed(text.get_ref<const std::string&>(), {});
  parser.finish({});
  return as_json(parser.reply(), format);
}

// Answers all lines. Returns 1 if any answer was an error.
Result<int> parse(const std::string& model, const std::string& template_path) {
  TRY_ASSIGN(const ChatTemplate chat_template, load_template(model, template_path));
  const ReplyFormat format = find_reply_format(chat_template);
  int exit_code = 0;
  TRY(for_each_json_line([&](const Json& line) -> Result<Json> {
    Result<Json> reply = parse_text(chat_template, format, line);
    if (reply.ok()) return reply;
    exit_code = 1;
    return Json{{"error", reply.status().message()}};
  }));
  return exit_code;
}

}  // namespace

void add_parse(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<TemplateArguments>();
  CLI::App* command =
      root.add_subcommand("parse", "split what a model wrote into content, reasoning and calls, one JSON line each");
  command->footer(
      "a line in: {\"text\", \"tools\": [...], \"messages\": [...], \"tool_choice\"}\n"
      "a line out: {\"content\", \"reasoning\", \"tool_calls\": [{\"name\", \"arguments\"}],\n"
      "  \"form\"} or {\"error\"}; \"form\" tells how the form was found\n"
      "No calls are looked for without \"tools\", or with \"tool_choice\": \"none\".\n"
      "Other keys are variables of the template. The exit status is 1 when a line\n"
      "was an error.");
  arguments->add(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = arguments->model.empty() && arguments->path.empty()
                                   ? Status(ErrorCode::kInvalidArgument, "parse needs a MODEL or --template FILE")
                                   : parse(arguments->model, arguments->path);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
