#include "apps/chat/form_arguments.h"

#include <CLI/CLI.hpp>

#include <utility>

#include "apps/command_line/option_kinds.h"
#include "base/file_ops.h"

namespace ibid {

namespace {

constexpr const char* kFormGroup = "The form of answers";
constexpr uint64_t kMaxFormBytes = 8u << 20;

bool is_inline_json(const std::string& text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string::npos && text[begin] == '{';
}

// "a,b\,c" as "a" and "b,c".
std::vector<std::string> split_choices(const std::string& text) {
  std::vector<std::string> choices(1);
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escapes = text[i] == '\\' && i + 1 < text.size() && (text[i + 1] == ',' || text[i + 1] == '\\');
    if (escapes) {
      choices.back() += text[++i];
    } else if (text[i] == ',') {
      choices.emplace_back();
    } else {
      choices.back() += text[i];
    }
  }
  return choices;
}

Result<std::optional<Grammar>> named(const std::string& name, Result<Grammar> grammar) {
  if (!grammar.ok()) return Status(grammar.status().code(), name + ": " + grammar.status().message());
  return std::optional<Grammar>(*std::move(grammar));
}

}  // namespace

void FormArguments::add(CLI::App& command) {
  CLI::Option* schema = add_text_option(command, "--json-schema", json_schema,
                                        "answers are JSON that this schema accepts: a file, or the schema itself");
  schema->type_name("FILE|JSON");
  CLI::Option* gbnf = add_text_option(command, "--grammar", grammar_file, "answers are texts of this grammar (GBNF)");
  gbnf->type_name("FILE");
  CLI::Option* pattern = add_text_option(command, "--regex", regex, "answers match this regular expression as a whole");
  pattern->type_name("RE");
  const auto take = [this](const std::vector<std::string>& given) {
    choices.clear();
    for (const std::string& text : given) {
      for (std::string& choice : split_choices(plain_text_argument(text))) {
        if (choice.empty()) throw CLI::ValidationError("--choices", "'" + text + "' has an empty choice");
        choices.push_back(std::move(choice));
      }
    }
  };
  CLI::Option* list = command.add_option_function<std::vector<std::string>>(
      "--choices", take, "an answer is one of these, with commas between (\\, is a comma; may be repeated)");
  list->type_name("A,B,C")->allow_extra_args(false);
  const std::vector<CLI::Option*> options = {schema, gbnf, pattern, list};
  for (CLI::Option* option : options) {
    // A form that says nothing is a variable of a script that is not set, rather than a wish.
    option->check([](const std::string& text) { return text.empty() ? std::string("is empty") : std::string(); });
    option->group(kFormGroup);
    for (CLI::Option* other : options) {
      if (other != option) option->excludes(other);
    }
  }
}

Result<FormArguments::Source> FormArguments::source() const {
  if (is_inline_json(json_schema)) return Source{"--json-schema", json_schema};
  const std::string& path = json_schema.empty() ? grammar_file : json_schema;
  TRY_ASSIGN(std::string text, read_file(system_file_ops(), path, kMaxFormBytes));
  return Source{path, std::move(text)};
}

Result<std::optional<Grammar>> FormArguments::grammar() const {
  if (!regex.empty()) return named("--regex", compile_regex(regex));
  if (!choices.empty()) return named("--choices", compile_choices(choices));
  if (json_schema.empty() && grammar_file.empty()) return std::optional<Grammar>();
  TRY_ASSIGN(const Source given, source());
  return named(given.name, json_schema.empty() ? compile_gbnf(given.text) : compile_json_schema(given.text));
}

Result<Json> FormArguments::fields() const {
  TRY(grammar().status());
  Json fields = Json::object();
  if (!regex.empty()) fields["structured_outputs"]["regex"] = regex;
  if (!choices.empty()) fields["structured_outputs"]["choice"] = choices;
  if (json_schema.empty() && grammar_file.empty()) return fields;
  TRY_ASSIGN(const Source given, source());
  if (json_schema.empty()) {
    fields["grammar"] = given.text;
    return fields;
  }
  TRY_ASSIGN(Json schema, parse_json(given.text, given.name));
  Json format = Json::object();
  format["name"] = "answer";
  format["strict"] = true;
  format["schema"] = std::move(schema);
  fields["response_format"]["type"] = "json_schema";
  fields["response_format"]["json_schema"] = std::move(format);
  return fields;
}

}  // namespace ibid
