// ibid render: conversations through a model's chat template, line by line.
#include <memory>

#include "apps/command.h"
#include "apps/inspect/json_lines.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "base/file_ops.h"
#include "tokenizer/chat_template.h"

namespace ibid {

namespace {

Result<ChatTemplate> load_template(const std::string& model, const std::string& template_path) {
  if (!template_path.empty()) {
    constexpr uint64_t kMaxBytes = 16u << 20;  // beyond what compile() takes, which says so in its own words
    TRY_ASSIGN(const std::string text, read_file(system_file_ops(), template_path, kMaxBytes));
    return ChatTemplate::compile(text);
  }
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const auto file, open_model_file(path, {.vocabulary_only = true}));
  return ChatTemplate::load(*file);
}

Json as_reply(const Result<std::string>& text) {
  if (text.ok()) return {{"text", *text}};
  return {{"error", text.status().message()}};
}

// Takes `name` out of the line; null when it is not there.
Json take(Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return {};
  Json value = std::move(*found);
  line.erase(found);
  return value;
}

std::string take_now(Json& line) {
  const Json now = take(line, "now");
  return now.is_string() ? now.get<std::string>() : TemplateVariables{}.now;
}

// {"messages", "tools"?, ..., "now"}: every other key is a variable of the template.
Result<Json> render_conversation(const ChatTemplate& chat_template, Json line) {
  TemplateVariables variables;
  variables.now = take_now(line);
  const Json messages = take(line, "messages");
  const bool continue_final = take(line, "continue_final_message") == Json(true);
  variables.values = chat_template.default_variables();
  for (auto& [key, value] : line.items()) variables.values[key] = std::move(value);
  for (const char* name : {"tools", "documents"}) {
    if (!variables.values.contains(name)) variables.values[name] = nullptr;
  }
  if (continue_final) return as_reply(chat_template.render_continuing(messages, variables));
  const Result<MarkedText> text = chat_template.render(messages, variables);
  return as_reply(text.ok() ? Result<std::string>(plain_text(*text)) : Result<std::string>(text.status()));
}

// {"template", "variables", "now"}: any template with any variables.
Result<Json> render_snippet(Json line) {
  const Json source = take(line, "template");
  if (!source.is_string()) return Status(ErrorCode::kInvalidArgument, "wanted a string \"template\"");
  const Result<ChatTemplate> compiled = ChatTemplate::compile(source.get_ref<const std::string&>());
  if (!compiled.ok()) return as_reply(compiled.status());
  const std::string now = take_now(line);
  Json variables = take(line, "variables");
  if (variables.is_null()) variables = Json::object();
  return as_reply(compiled->render_plain(variables, now));
}

Status render(const std::string& model, const std::string& template_path) {
  if (model.empty() && template_path.empty()) return for_each_json_line(render_snippet);
  TRY_ASSIGN(const ChatTemplate chat_template, load_template(model, template_path));
  return for_each_json_line([&](const Json& line) { return render_conversation(chat_template, line); });
}

}  // namespace

void add_render(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ModelArguments>();
  auto json_lines = std::make_shared<bool>(true);
  auto template_path = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand(
      "render", "stdin: {\"messages\": [...], ...variables} or {\"template\", \"variables\"} a line; stdout: "
                "{\"text\"} or {\"error\"} a line");
  CLI::Option* model = command->add_option("MODEL", arguments->model, "the model whose template is used");
  command->add_option("--template", *template_path, "a template's file instead of a model")->excludes(model);
  command->add_flag("--jsonl", *json_lines, "read and write JSON lines (the only form)");
  command->callback([json_lines, arguments, template_path, &exit_code] {
    if (const Status status = render(arguments->model, *template_path); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
