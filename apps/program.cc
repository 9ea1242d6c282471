#include "apps/program.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <new>
#include <string>
#include <vector>

#include "apps/chat/turn_json.h"
#include "apps/command.h"
#include "apps/config_file.h"
#include "apps/help_text.h"
#include "apps/nearest_names.h"
#include "apps/option_kinds.h"
#include "apps/shell_files.h"
#include "apps/terminal_text.h"

namespace ibid {

namespace {

constexpr const char* kNoGroupYet = "Subcommands";  // CLI11's own word

std::vector<std::string> command_names(const CLI::App& root) {
  std::vector<std::string> names;
  for (const CLI::App* command : root.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options({})) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

std::string did_you_mean(const std::string& typed, const std::vector<std::string>& names) {
  const std::vector<std::string> near = nearest_names(typed, names);
  return near.empty() ? "" : "; did you mean " + near.front() + "?";
}

// What was wrong with the command line, in one sentence.
std::string what_was_wrong(const CLI::App& root, const CLI::Error& error) {
  const std::vector<CLI::App*> commands = root.get_subcommands();
  const std::vector<std::string> words = commands.empty() ? root.remaining() : commands[0]->remaining();
  if (words.empty()) return commands.empty() ? "a command is missing" : error.what();
  const std::string word = plain_text_argument(words[0]);
  if (!commands.empty() && !word.starts_with('-')) return "there is nothing that '" + word + "' could be";
  const std::string kind = word.starts_with('-') ? "option" : "command";
  const std::vector<std::string> names = !commands.empty()      ? option_names(*commands[0])
                                         : word.starts_with('-') ? option_names(root)
                                                                 : command_names(root);
  return "there is no " + kind + " '" + word + "'" + did_you_mean(word.substr(0, word.find('=')), names);
}

// The same, and where to read more.
std::string explain(const CLI::App* root, const CLI::Error& error) {
  const std::vector<CLI::App*> commands = root->get_subcommands();
  const std::string wrong = "ibid: " + without_controls(what_was_wrong(*root, error));
  if (!commands.empty()) return wrong + " (see `ibid " + commands[0]->get_name() + " --help`)\n";
  if (root->remaining().empty()) return wrong + "\n\n" + root->help();
  return wrong + " (see `ibid --help`)\n";
}

bool wants_json(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

int parse_and_run(CLI::App& root, int& exit_code, std::vector<std::string> arguments) {
  const bool json = wants_json(arguments);
  std::reverse(arguments.begin(), arguments.end());  // as CLI11 takes them
  try {
    root.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (root.exit(error) == 0) return 0;
    if (json) {
      const Status status(ErrorCode::kInvalidArgument, what_was_wrong(root, error));
      std::puts(json_to_string(error_json(status)).c_str());
    }
    return kWrongUsage;
  }
  return exit_code;
}

}  // namespace

namespace {

void add_help(CLI::App& root, int& exit_code) {
  auto name = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("help", "this help, or that of a command");
  command->add_option("COMMAND", *name, "the command")->type_name("COMMAND");
  command->callback([&root, name, &exit_code] {
    const std::vector<std::string> names = command_names(root);
    if (name->empty()) {
      std::fputs(root.get_formatter()->make_help(&root, "", CLI::AppFormatMode::Normal).c_str(), stdout);
    } else if (std::find(names.begin(), names.end(), *name) == names.end()) {
      report({ErrorCode::kInvalidArgument, "there is no command '" + *name + "'" + did_you_mean(*name, names)});
      exit_code = kWrongUsage;
    } else {
      std::fputs(root.get_subcommand(*name)->help().c_str(), stdout);
    }
  });
}

void add_version(CLI::App& root) {
  root.add_subcommand("version", "the program's version")->callback([] { std::puts("ibid " IBID_VERSION); });
}

// Puts the commands that were declared since the last call into a group of the help.
void group_commands(CLI::App& root, const char* group) {
  for (CLI::App* command : root.get_subcommands([](CLI::App*) { return true; })) {
    if (command->get_group() == kNoGroupYet) command->group(group);
  }
}

}  // namespace

std::unique_ptr<CLI::App> make_program(int& exit_code) {
  auto root = std::make_unique<CLI::App>("runs open-weight chat models on a CPU and reads nothing twice", "ibid");
  root->require_subcommand(1);
  root->set_version_flag("-V,--version", "ibid " IBID_VERSION)->description("the program's version");
  root->failure_message(explain);
  add_chat(*root, exit_code);
  add_ask(*root, exit_code);
  add_sessions(*root, exit_code);
  group_commands(*root, "Talk to a model");
  add_pull(*root, exit_code);
  add_inspect(*root, exit_code);
  group_commands(*root, "Models");
  add_bench(*root, exit_code);
  add_perplexity(*root, exit_code);
  add_tokenize(*root, exit_code);
  add_render(*root, exit_code);
  add_logits(*root, exit_code);
  group_commands(*root, "Measure and check");
  add_help(*root, exit_code);
  add_version(*root);
  group_commands(*root, "Help");
  add_shell_files(*root, exit_code);
  root->footer("`ibid help COMMAND` explains a command's options.");
  use_config_file(*root);
  use_help_text(*root);
  return root;
}

int run_program(int argc, char** argv) {
  // The command line is the one place where nothing is left to throw to.
  try {
    int exit_code = 0;
    const std::unique_ptr<CLI::App> root = make_program(exit_code);
    return parse_and_run(*root, exit_code, protect_texts(argc, argv));
  } catch (const std::bad_alloc&) {
    std::fputs("ibid: there is not enough memory\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ibid: a mistake of the program itself: %s\n", error.what());
  }
  return 1;
}

}  // namespace ibid
