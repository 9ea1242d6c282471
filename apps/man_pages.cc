// The pages for man(1), and all shell files on disk.
#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <memory>

#include "apps/command_line/command.h"
#include "apps/command_line/help_text.h"
#include "apps/shell_files.h"

namespace ibid {

namespace {

// Text as roff shows it: a hyphen that can be copied, and no line that begins with a request.
std::string roff(std::string_view text) {
  std::string result;
  bool line_start = true;
  for (const char c : text) {
    if (line_start && (c == '.' || c == '\'')) result += "\\&";
    line_start = c == '\n';
    if (c == '\\') {
      result += "\\e";
    } else if (c == '-') {
      result += "\\-";
    } else {
      result += c;
    }
  }
  return result;
}

std::string man_entry(const std::string& heading, const std::string& help) {
  return ".TP\n\\fB" + roff(heading) + "\\fR\n" + roff(help) + "\n";
}

std::string options_text(const CLI::App& app, const std::string& heading = ".SH ") {
  std::string text;
  for (const OptionGroup& group : option_groups(app)) {
    text += heading + (group.title.empty() ? "ARGUMENTS\n" : "\"" + roff(group.title) + "\"\n");
    for (const CLI::Option* option : group.options) text += man_entry(option_heading(*option), option_help(*option));
  }
  return text;
}

constexpr const char* kFiles =
    ".SH FILES\n"
    ".TP\n~/.config/ibid/config.toml\n"
    "options that are wanted every time, and presets (--preset NAME)\n"
    ".TP\n~/.local/share/ibid/models\npulled models; IBID_MODELS names another directory\n"
    ".TP\n~/.local/state/ibid\nconversations that are kept\n"
    ".TP\n~/.cache/ibid\nkeys and values of what they have read\n"
    ".SH EXIT STATUS\n"
    "0: done. 1: a failure, explained in one sentence. 2: wrong usage. 130: ended by Ctrl\\-C. "
    "141: whoever read the output was gone.\n";

}  // namespace

std::string man_page(const CLI::App& app) {
  const bool is_root = app.get_parent() == nullptr;
  const std::string name = is_root ? app.get_name() : app.get_parent()->get_name() + "-" + app.get_name();
  std::string text = ".TH " + roff(name) + " 1 \"\" \"ibid " IBID_VERSION "\" \"User Commands\"\n";
  text += ".SH NAME\n" + roff(name) + " \\- " + roff(app.get_description()) + "\n";
  text += ".SH SYNOPSIS\n.B " + roff(usage_line(app)) + "\n";
  if (!app.get_footer().empty()) text += ".SH DESCRIPTION\n.nf\n" + roff(app.get_footer()) + "\n.fi\n";
  const std::vector<const CLI::App*> commands = shown_commands(app);
  if (!commands.empty()) text += ".SH COMMANDS\n";
  for (const CLI::App* command : commands) text += man_entry(command->get_name(), command->get_description());
  text += options_text(app);
  // The program's commands have pages of their own, those of a command are on its page.
  for (const CLI::App* command : is_root ? std::vector<const CLI::App*>() : commands) {
    text += ".SH \"" + roff(full_name(*command)) + "\"\n" + roff(command->get_description()) + "\n.PP\n.B " +
            roff(usage_line(*command)) + "\n" + options_text(*command, ".SS ");
  }
  if (is_root) text += kFiles;
  const char* also = is_root ? "ibid help COMMAND, or the page of a command: ibid\\-ask(1)" : "ibid(1)";
  return text + ".SH SEE ALSO\n" + also + "\n";
}

Status write_shell_files(const CLI::App& root, const std::string& directory) {
  std::vector<std::pair<std::string, std::string>> files = {{"completions/ibid", bash_completion(root)},
                                                            {"completions/_ibid", zsh_completion(root)},
                                                            {"completions/ibid.fish", fish_completion(root)},
                                                            {"man1/ibid.1", man_page(root)}};
  for (const CLI::App* command : shown_commands(root)) {
    files.emplace_back("man1/ibid-" + command->get_name() + ".1", man_page(*command));
  }
  for (const auto& [name, text] : files) {
    const std::filesystem::path path = directory + "/" + name;
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    if (!(file << text << std::flush)) return {ErrorCode::kIo, path.string() + ": cannot be written"};
  }
  return {};
}

void add_shell_files(CLI::App& root, int& exit_code) {
  auto directory = std::make_shared<std::string>();
  CLI::App* command = root.add_subcommand("write-shell-files", "completions and man pages, into a directory");
  command->group("");
  command->add_option("DIRECTORY", *directory, "where they are written")->required();
  command->callback([&root, directory, &exit_code] {
    if (const Status status = write_shell_files(root, *directory); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
