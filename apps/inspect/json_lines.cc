#include "apps/inspect/json_lines.h"

#include <cstdio>
#include <functional>
#include <iostream>
#include <memory>
#include <string>

#include "apps/command_line/command.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "model/load_model.h"
#include "templates/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

Status for_each_json_line(const std::function<Result<Json>(const Json&)>& answer) {
  std::string text;
  for (size_t number = 1; std::getline(std::cin, text); ++number) {
    if (text.empty()) continue;
    const std::string what = "standard input, line " + std::to_string(number);
    TRY_ASSIGN(const Json line, parse_json(text, what));
    if (!line.is_object()) return {ErrorCode::kInvalidArgument, what + ": expected a JSON object"};
    Result<Json> reply = answer(line);
    if (!reply.ok()) return {reply.status().code(), what + ": " + reply.status().message()};
    std::puts(json_to_string(*reply).c_str());
    std::fflush(stdout);
  }
  return {};
}

namespace {

// Returns a boolean member; false if it is absent.
Result<bool> flag(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return false;
  if (!found->is_boolean()) {
    return Status(ErrorCode::kInvalidArgument,
                  "expected true or false for \"" + std::string(name) + "\", got " + json_to_string(*found));
  }
  return found->get<bool>();
}

Status check_keys(const Json& line) {
  for (const auto& [key, value] : line.items()) {
    if (key == "text" || key == "add_special" || key == "parse_special") continue;
    return {ErrorCode::kInvalidArgument, "unknown key \"" + key + "\" (text, add_special, parse_special)"};
  }
  return {};
}

Status tokenize(const std::string& model) {
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const auto file, open_model_file(path, {.vocabulary_only = true}));
  TRY_ASSIGN(const auto tokenizer, load_tokenizer(*file));
  return for_each_json_line([&](const Json& line) -> Result<Json> {
    TRY(check_keys(line));
    const auto text = line.find("text");
    if (text == line.end() || !text->is_string()) {
      return Status(ErrorCode::kInvalidArgument, "expected a string \"text\"");
    }
    TRY_ASSIGN(const bool parse_special, flag(line, "parse_special"));
    TRY_ASSIGN(const bool add_special, flag(line, "add_special"));
    const TextOrigin origin = parse_special ? TextOrigin::kTemplate : TextOrigin::kInput;
    const Tokens ids = tokenizer->encode(text->get_ref<const std::string&>(), origin, add_special);
    return Json{{"ids", ids}, {"decoded", tokenizer->decode(ids)}};
  });
}

}  // namespace

void add_tokenize(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ModelArguments>();
  auto json_lines = std::make_shared<bool>(true);
  CLI::App* command = root.add_subcommand("tokenize", "tokenize and detokenize texts, one JSON line each");
  command->footer(
      "standard input:  {\"text\": ..., \"add_special\": false, \"parse_special\": false}\n"
      "standard output: {\"ids\": [...], \"decoded\": ...}");
  arguments->add_model(*command, true);
  command->add_flag("--jsonl", *json_lines, "read and write JSON lines (the only form)")->group(kCommonGroup);
  command->callback([json_lines, arguments, &exit_code] {
    if (const Status status = tokenize(arguments->model); !status.ok()) exit_code = report(status);
  });
}

Result<ChatTemplate> load_template(const std::string& model, const std::string& template_path) {
  if (!template_path.empty()) {
    constexpr uint64_t kMaxBytes = 16u << 20;  // larger than compile() accepts, so that compile() reports the size
    TRY_ASSIGN(const std::string text, read_file(system_file_ops(), template_path, kMaxBytes));
    return ChatTemplate::compile(text);
  }
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const auto file, open_model_file(path, {.vocabulary_only = true}));
  return load_chat_template(*file);
}

Json take(Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return {};
  Json value = std::move(*found);
  line.erase(found);
  return value;
}

namespace {

Json as_reply(const Result<std::string>& text) {
  if (text.ok()) return {{"text", *text}};
  return {{"error", text.status().message()}};
}

std::string take_now(Json& line) {
  const Json now = take(line, "now");
  return now.is_string() ? now.get<std::string>() : TemplateVariables{}.now;
}

// Renders {"messages", "tools"?, ..., "now"}; all other keys are variables of the template.
Result<Json> render_conversation(const ChatTemplate& chat_template, Json line) {
  TemplateVariables variables;
  variables.now = take_now(line);
  if (!line.contains("messages")) {
    return Status(ErrorCode::kInvalidArgument,
                  line.contains("template") ? "a line with a \"template\" of its own needs no MODEL and no --template"
                                            : "expected \"messages\": [...]");
  }
  const Json messages = take(line, "messages");
  const bool continue_final = take(line, "continue_final_message") == Json(true);
  variables.values = std::move(line);
  if (continue_final) return as_reply(chat_template.render_continuing(messages, variables));
  const Result<MarkedText> text = chat_template.render(messages, variables);
  return as_reply(text.ok() ? Result<std::string>(text->bytes()) : Result<std::string>(text.status()));
}

// Renders {"template", "variables", "now"}.
Result<Json> render_snippet(Json line) {
  const Json source = take(line, "template");
  if (!source.is_string()) {
    return Status(ErrorCode::kInvalidArgument,
                  line.contains("messages") ? "expected a string \"template\"; \"messages\" need MODEL or --template"
                                            : "expected a string \"template\"");
  }
  const Result<ChatTemplate> compiled = ChatTemplate::compile(source.get_ref<const std::string&>());
  if (!compiled.ok()) return as_reply(compiled.status());
  const std::string now = take_now(line);
  Json variables = take(line, "variables");
  if (variables.is_null()) variables = Json::object();
  return as_reply(compiled->render_plain(variables, now));
}

// Answers all lines. Returns 1 if any answer was an error.
Result<int> render(const std::string& model, const std::string& template_path) {
  int exit_code = 0;
  const auto noting_errors = [&](Result<Json> reply) {
    if (reply.ok() && reply->contains("error")) exit_code = 1;
    return reply;
  };
  if (model.empty() && template_path.empty()) {
    TRY(for_each_json_line([&](const Json& line) { return noting_errors(render_snippet(line)); }));
    return exit_code;
  }
  TRY_ASSIGN(const ChatTemplate chat_template, load_template(model, template_path));
  TRY(for_each_json_line([&](const Json& line) { return noting_errors(render_conversation(chat_template, line)); }));
  return exit_code;
}

}  // namespace

void TemplateArguments::add(CLI::App& command) {
  CLI::Option* given = command.add_option("-m,--model,MODEL", model, "the model whose template is used");
  given->type_name("MODEL")->group(kCommonGroup);
  command.add_option("--template", path, "use this template file instead of a model's template")
      ->type_name("FILE")
      ->excludes(given)
      ->group(kCommonGroup);
  command.add_flag("--jsonl", json_lines, "read and write JSON lines (the only form)")->group(kCommonGroup);
}

void add_render(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<TemplateArguments>();
  CLI::App* command = root.add_subcommand("render", "render conversations with a chat template, one JSON line each");
  command->footer(
      "a line in, with MODEL or --template: {\"messages\": [...], VARIABLES...}\n"
      "a line in, with neither: {\"template\": ..., \"variables\": {...}}\n"
      "a line out: {\"text\": ...} or {\"error\": ...}\n"
      "The exit status is 1 when a line was an error.");
  arguments->add(*command);
  command->callback([arguments, &exit_code] {
    const Result<int> status = render(arguments->model, arguments->path);
    exit_code = status.ok() ? *status : report(status.status());
  });
}

}  // namespace ibid
