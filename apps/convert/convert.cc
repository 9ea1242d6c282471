// ibid convert: writes a model as one GGUF file, optionally with another weight type.
#include <cstdio>
#include <memory>
#include <optional>

#include "apps/chat/turn_report.h"
#include "apps/command_line/command.h"
#include "apps/convert/convert_model.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/interrupt.h"
#include "apps/terminal/progress.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

struct ConvertArguments {
  std::string in, out, type;
  bool json = false;
};

Result<Conversion> convert(const ConvertArguments& arguments, const InterruptScope& interrupt) {
  TRY_ASSIGN(const std::string in, resolve_model(arguments.in));
  std::optional<ByteProgress> line;
  const auto show = [&](const ConversionProgress& progress) {
    if (!line) line.emplace(0, progress.total);
    line->show(progress.done);
  };
  const FileType* type = arguments.type.empty() ? nullptr : find_file_type(arguments.type);
  return convert_model(in, arguments.out, type, {show, interrupt.token()});
}

void print(const ConvertArguments& arguments, const Conversion& conversion) {
  if (arguments.json) {
    Json types = Json::object();
    for (const auto& [type, n] : conversion.tensors_of) types[type] = n;
    std::puts(json_to_string(Json{{"path", arguments.out}, {"bytes", conversion.bytes}, {"tensors", types}}).c_str());
    return;
  }
  std::string types;
  for (const auto& [type, n] : conversion.tensors_of) {
    types += (types.empty() ? "" : ", ") + std::to_string(n) + " " + type;
  }
  std::printf("%s: %s, tensors: %s\n", arguments.out.c_str(), format_bytes(conversion.bytes).c_str(), types.c_str());
}

// Converts a type name to upper case, so that names in lower case are accepted too.
std::string in_capitals(std::string& type) {
  for (char& c : type) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return {};
}

}  // namespace

void add_convert(CLI::App& root, int& exit_code) {
  auto arguments = std::make_shared<ConvertArguments>();
  CLI::App* command = root.add_subcommand("convert", "write a model as one GGUF file, also in another type");
  add_text_option(*command, "IN", arguments->in,
                  "a .gguf file, any part of a split model, a directory with safetensors, or a model's name")
      ->type_name("MODEL")
      ->required();
  add_text_option(*command, "OUT", arguments->out, "the file to write; an existing file is replaced at the end")
      ->type_name("FILE")
      ->required();
  command->add_option("--type", arguments->type, "type of the weights (default: unchanged)")
      ->transform(CLI::Validator(in_capitals, ""))
      ->check(one_of(file_type_names()))
      ->group(kCommonGroup);
  command->add_flag("--json", arguments->json, "print JSON")->group(kCommonGroup);
  command->callback([arguments, &exit_code] {
    const InterruptScope interrupt;
    const Result<Conversion> conversion = convert(*arguments, interrupt);
    if (!conversion.ok() && interrupt.interrupted()) {
      exit_code = kInterruptedStatus;
      return;
    }
    if (!conversion.ok()) {
      if (arguments->json) std::puts(json_to_string(error_json(conversion.status())).c_str());
      exit_code = report(conversion.status());
      return;
    }
    print(*arguments, *conversion);
  });
}

}  // namespace ibid
