#include "apps/program.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <string>
#include <system_error>
#include <vector>

#include "apps/chat/turn_report.h"
#include "apps/command_line/command.h"
#include "apps/command_line/config_file.h"
#include "apps/command_line/help_text.h"
#include "apps/shell_files.h"
#include "apps/terminal/terminal_text.h"
#include "base/thread_error.h"

namespace ibid {

namespace {

constexpr const char* kNoGroupYet = "Subcommands";  // CLI11's default group

// Returns the innermost subcommand that was parsed.
const CLI::App& reached(const CLI::App& root) {
  const std::vector<CLI::App*> commands = root.get_subcommands();
  return commands.empty() ? root : reached(*commands.front());
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

// Returns the description of a usage error as one clause.
std::string what_was_wrong(const CLI::App& root, const CLI::Error& error) {
  const CLI::App& command = reached(root);
  std::vector<std::string> words = command.remaining();
  // Look for such words in the parents too: if a nested command does not accept words, CLI11 passes them to its parent.
  for (const CLI::App* app = command.get_parent(); words.empty() && app != nullptr; app = app->get_parent()) {
    words = app->remaining();
  }
  if (words.empty()) return &command == &root ? "a command is missing" : error.what();
  const std::string word = plain_text_argument(words[0]);
  const std::vector<std::string> commands = command_names(command);
  if (!word.starts_with('-') && commands.empty()) return "unexpected argument '" + word + "'";
  const std::string kind = word.starts_with('-') ? "option" : "command";
  const std::vector<std::string> names = word.starts_with('-') ? option_names(command) : commands;
  return "unknown " + kind + " '" + word + "'" + did_you_mean(word.substr(0, word.find('=')), names);
}

// Returns the full text of a usage error, with a pointer to the help.
std::string explain(const CLI::App* root, const CLI::Error& error) {
  const CLI::App& command = reached(*root);
  const std::string wrong = "ibid: " + without_controls(what_was_wrong(*root, error));
  if (&command == root && root->remaining().empty()) return wrong + "\n\n" + root->help();
  return wrong + " (see `" + full_name(command) + " --help`)\n";
}

bool wants_json(const std::vector<std::string>& arguments) {
  return std::find(arguments.begin(), arguments.end(), "--json") != arguments.end();
}

// Returns exit_code, or if the output could not be written, an error.
int with_output_written(int exit_code) {
  if (exit_code != 0 || (std::fflush(stdout) == 0 && std::ferror(stdout) == 0)) return exit_code;
  return errno == EPIPE ? kReaderGone : report(cannot_write());
}

bool is_valued_option(const CLI::App& command, const std::string& name) {
  for (const CLI::Option* option : command.get_options({})) {
    if (option->check_lname(name)) return option->get_items_expected_max() > 0;
  }
  for (const CLI::App* inner : command.get_subcommands([](const CLI::App*) { return true; })) {
    if (is_valued_option(*inner, name)) return true;
  }
  return false;
}

// Adds an empty word after "--option=", because CLI11 would take the next word of the command line as the value.
std::vector<std::string> with_empty_values(const CLI::App& root, const std::vector<std::string>& arguments) {
  std::vector<std::string> separated;
  for (const std::string& argument : arguments) {
    separated.push_back(argument);
    const bool is_empty = argument.starts_with("--") && argument.find('=') == argument.size() - 1;
    if (!is_empty || !is_valued_option(root, argument.substr(2, argument.size() - 3))) continue;
    separated.back().pop_back();
    separated.emplace_back();
  }
  return separated;
}

int parse_and_run(CLI::App& root, int& exit_code, std::vector<std::string> arguments) {
  const bool json = wants_json(arguments);
  std::reverse(arguments.begin(), arguments.end());  // CLI11 expects the reverse order
  try {
    root.parse(std::move(arguments));
  } catch (const CLI::ParseError& error) {
    if (root.exit(error) == 0) return with_output_written(0);
    if (json) {
      const Status status(ErrorCode::kInvalidArgument, what_was_wrong(root, error));
      std::puts(json_to_string(error_json(status)).c_str());
    }
    return kWrongUsage;
  }
  return with_output_written(exit_code);
}

}  // namespace

namespace {

void add_help(CLI::App& root, int& exit_code) {
  auto words = std::make_shared<std::vector<std::string>>();
  CLI::App* command = root.add_subcommand("help", "this help, or that of a command");
  command->add_option("COMMAND", *words, "the command, and a command of its own")
      ->type_name("COMMAND")
      ->expected(0, -1);
  command->callback([&root, words, &exit_code] {
    const CLI::App* above = &root;
    for (size_t n = 1; n <= words->size(); ++n) {
      const CLI::App* found = find_command(root, {words->begin(), words->begin() + static_cast<std::ptrdiff_t>(n)});
      if (found == nullptr) {
        const std::string& word = (*words)[n - 1];
        report({ErrorCode::kInvalidArgument, "unknown command '" + full_name(*above) + " " + word + "'" +
                                                 did_you_mean(word, command_names(*above))});
        exit_code = kWrongUsage;
        return;
      }
      above = found;
    }
    std::fputs(above->get_formatter()->make_help(above, "", CLI::AppFormatMode::Normal).c_str(), stdout);
  });
}

void add_version(CLI::App& root) {
  root.add_subcommand("version", "the program's version")->callback([] { std::puts("ibid " IBID_VERSION); });
}

// Assigns the commands added since the last call to a group of the help.
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
  add_serve(*root, exit_code);
  group_commands(*root, "Talk to a model");
  add_models(*root, exit_code);
  add_pull(*root, exit_code);
  add_convert(*root, exit_code);
  add_inspect(*root, exit_code);
  group_commands(*root, "Models");
  add_bench(*root, exit_code);
  add_perplexity(*root, exit_code);
  add_tokenize(*root, exit_code);
  add_render(*root, exit_code);
  add_accept(*root, exit_code);
  add_parse(*root, exit_code);
  add_logits(*root, exit_code);
  add_audit(*root, exit_code);
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

int exit_status_of(const std::function<int()>& run) {
  // Catch all exceptions, because no caller does.
  try {
    return run();
  } catch (const std::bad_alloc&) {
    std::fputs("ibid: not enough memory\n", stderr);
  } catch (const std::system_error& error) {
    std::fprintf(stderr, "ibid: %s\n", no_thread("a thread", error.code()).message().c_str());
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ibid: internal error: %s\n", error.what());
  }
  return 1;
}

int run_program(int argc, char** argv) {
  return exit_status_of([&] {
    int exit_code = 0;
    const std::unique_ptr<CLI::App> root = make_program(exit_code);
    return parse_and_run(*root, exit_code, with_empty_values(*root, protect_texts(argc, argv)));
  });
}

}  // namespace ibid
