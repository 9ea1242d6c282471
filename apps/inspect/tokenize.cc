// ibid tokenize: text to ids and back, line by line.
#include <memory>

#include "apps/command_line/command.h"
#include "apps/command_line/option_kinds.h"
#include "apps/inspect/json_lines.h"
#include "apps/models/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

// A key that is true or false, and false where it is not there.
Result<bool> flag(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end()) return false;
  if (!found->is_boolean()) {
    return Status(ErrorCode::kInvalidArgument, "wanted true or false for \"" + std::string(name) + "\", got " +
                                                   json_to_string(*found));
  }
  return found->get<bool>();
}

Status check_keys(const Json& line) {
  for (const auto& [key, value] : line.items()) {
    if (key == "text" || key == "add_special" || key == "parse_special") continue;
    return {ErrorCode::kInvalidArgument, "there is no key \"" + key + "\" (text, add_special, parse_special)"};
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
      return Status(ErrorCode::kInvalidArgument, "wanted a string \"text\"");
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
  CLI::App* command = root.add_subcommand("tokenize", "text to ids and back, a JSON line for a JSON line");
  command->footer("standard input:  {\"text\": ..., \"add_special\": false, \"parse_special\": false}\n"
                  "standard output: {\"ids\": [...], \"decoded\": ...}");
  arguments->add_model(*command, true);
  command->add_flag("--jsonl", *json_lines, "read and write JSON lines (the only form)")
      ->group(kCommonGroup);
  command->callback([json_lines, arguments, &exit_code] {
    if (const Status status = tokenize(arguments->model); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
