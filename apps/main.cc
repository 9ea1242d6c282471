// ibid: one program, one subcommand for each thing a person does with a model.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "apps/command.h"

namespace ibid {

namespace {

constexpr int kWrongUsage = 2;

// What was wrong with the command line, and where to read more.
std::string explain(const CLI::App* root, const CLI::Error& error) {
  const std::vector<CLI::App*> commands = root->get_subcommands();
  if (!commands.empty()) {
    return "ibid: " + std::string(error.what()) + " (see `ibid " + commands[0]->get_name() + " --help`)\n";
  }
  const std::vector<std::string> words = root->remaining();
  if (words.empty()) return "ibid: a command is missing\n\n" + root->help();
  const std::string kind = words[0].starts_with('-') ? "option" : "command";
  return "ibid: there is no " + kind + " '" + words[0] + "' (see `ibid --help`)\n";
}

int run(int argc, char** argv) {
  CLI::App root("ibid runs open-weight chat models on a CPU and reads nothing twice.", "ibid");
  root.require_subcommand(1);
  root.set_version_flag("--version", IBID_VERSION);
  root.failure_message(explain);

  int exit_code = 0;
  add_chat(root, exit_code);
  add_ask(root, exit_code);
  add_bench(root, exit_code);
  add_pull(root, exit_code);
  add_inspect(root, exit_code);
  add_tokenize(root, exit_code);
  add_render(root, exit_code);
  add_logits(root, exit_code);
  add_perplexity(root, exit_code);
  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return root.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return exit_code;
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) { return ibid::run(argc, argv); }
