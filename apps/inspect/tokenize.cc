// ibid tokenize: text to ids and back, line by line.
#include <memory>

#include "apps/command.h"
#include "apps/inspect/json_lines.h"
#include "apps/model_arguments.h"
#include "apps/models/model_catalog.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

namespace {

bool flag(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_boolean() && found->get<bool>();
}

Status tokenize(const std::string& model) {
  TRY_ASSIGN(const std::string path, resolve_model(model));
  TRY_ASSIGN(const auto file, open_model_file(path, {.vocabulary_only = true}));
  TRY_ASSIGN(const auto tokenizer, load_tokenizer(*file));
  return for_each_json_line([&](const Json& line) -> Result<Json> {
    const auto text = line.find("text");
    if (text == line.end() || !text->is_string()) {
      return Status(ErrorCode::kInvalidArgument, "wanted a string \"text\"");
    }
    const TextOrigin origin = flag(line, "parse_special") ? TextOrigin::kTemplate : TextOrigin::kInput;
    const Tokens ids = tokenizer->encode(text->get_ref<const std::string&>(), origin, flag(line, "add_special"));
    return Json{{"ids", ids}, {"decoded", tokenizer->decode(ids)}};
  });
}

}  // namespace

void add_tokenize(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ModelArguments>();
  auto json_lines = std::make_shared<bool>(true);
  CLI::App* command = root.add_subcommand(
      "tokenize", "stdin: {\"text\": ..., \"add_special\": false, \"parse_special\": false} a line; stdout: {\"ids\", "
                  "\"decoded\"} a line");
  arguments->add_model(*command, true);
  command->add_flag("--jsonl", *json_lines, "read and write JSON lines (the only form)");
  command->callback([json_lines, arguments, &exit_code] {
    if (const Status status = tokenize(arguments->model); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
