// Completions for three shells.
#include "apps/shell_files.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string_view>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/command_line/help_text.h"
#include "apps/models/model_catalog.h"
#include "apps/terminal/terminal_text.h"
#include "base/text.h"

namespace ibid {

namespace {

// Returns the named options of a command and of its subcommands, without duplicates.
std::vector<const CLI::Option*> named_options(const CLI::App& command) {
  std::vector<const CLI::Option*> options = command.get_options(
      [](const CLI::Option* option) { return option->nonpositional() && !option->get_group().empty(); });
  if (command.get_parent() == nullptr) return options;
  for (const CLI::App* below : shown_commands(command)) {
    for (const CLI::Option* option : named_options(*below)) {
      const auto same = [&](const CLI::Option* other) { return other->get_lnames() == option->get_lnames(); };
      if (std::none_of(options.begin(), options.end(), same)) options.push_back(option);
    }
  }
  return options;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
  return names;
}

bool takes_value(const CLI::Option& option) { return option.get_expected_max() > 0 && option.get_type_size() != 0; }
bool takes_file(const CLI::Option& option) { return option.get_type_name() == "FILE"; }

// Returns the literal values of an option: the lower-case words of "N|unlimited".
std::vector<std::string> words_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  std::vector<std::string> words;
  if (type == "MODEL") {
    for (const KnownModel& model : known_models()) words.push_back(model.name);
  }
  for (size_t begin = 0; type.find('|') != std::string::npos && begin <= type.size();) {
    const size_t end = std::min(type.find('|', begin), type.size());
    const std::string word = type.substr(begin, end - begin);
    if (std::none_of(word.begin(), word.end(), [](char c) { return c >= 'A' && c <= 'Z'; })) words.push_back(word);
    begin = end + 1;
  }
  return words;
}

std::vector<std::string> all_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : named_options(command)) {
    for (std::string& name : names_of(*option)) names.push_back(std::move(name));
  }
  return names;
}

// Returns the subcommands that may follow a command. The command `help` may be followed by the names of its siblings.
std::vector<std::string> words_after(const CLI::App& command) {
  return command_names(command.get_name() == "help" ? *command.get_parent() : command);
}

// Quotes a text with single quotes for a shell, and escapes the characters of `escape` (for specifications of zsh).
std::string shell_quoted(std::string_view text, std::string_view escape = "") {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
      continue;
    }
    if (escape.find(c) != std::string_view::npos) result += '\\';
    result += c;
  }
  return result + "'";
}

}  // namespace

std::string bash_completion(const CLI::App& root) {
  std::string text =
      "# bash completion of ibid, written by the program when it is built\n"
      "_ibid() {\n"
      "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words\n"
      "  COMPREPLY=()\n"
      "  ((COMP_CWORD == 1)) && command=\n"
      "  case $command in\n";
  text += "    '') words='" + joined(command_names(root), " ") + " " + joined(all_names(root), " ") + "' ;;\n";
  for (const CLI::App* command : shown_commands(root)) {
    text += "    " + command->get_name() + ")\n      case $prev in\n";
    for (const CLI::Option* option : named_options(*command)) {
      if (!takes_value(*option)) continue;
      const std::string words = joined(words_of(*option), " ");
      std::string value = "return";
      if (!words.empty()) value = "COMPREPLY=($(compgen -W '" + words + "' -- \"$cur\")); return";
      const bool files = takes_file(*option) || option->get_type_name() == "MODEL";
      if (files) value = "COMPREPLY=($(compgen -f -W '" + words + "' -- \"$cur\")); return";
      text += "        " + joined(names_of(*option), "|") + ") " + value + " ;;\n";
    }
    const std::string following_words = joined(words_after(*command), " ");
    text += "      esac\n      words='" + following_words + (following_words.empty() ? "" : " ") +
            joined(all_names(*command), " ") + "'";
    text += (following_words.empty() ? "" : "\n      ((COMP_CWORD == 2)) && command=") + std::string(" ;;\n");
  }
  text +=
      "  esac\n"
      "  if [[ -z $command || $cur == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
      "  else\n"
      "    COMPREPLY=($(compgen -f -- \"$cur\"))\n"
      "  fi\n"
      "}\n"
      "complete -o filenames -F _ibid ibid\n";
  return text;
}

std::string zsh_completion(const CLI::App& root) {
  std::string text =
      "#compdef ibid\n"
      "# zsh completion of ibid, written by the program when it is built\n"
      "_ibid() {\n"
      "  local -a commands\n"
      "  commands=(\n";
  for (const CLI::App* command : shown_commands(root)) {
    text += "    " + shell_quoted(command->get_name() + ":" + command->get_description()) + "\n";
  }
  text += "  )\n  if ((CURRENT == 2)); then\n    _describe command commands\n    _arguments";
  for (const CLI::Option* option : named_options(root)) {
    for (const std::string& name : names_of(*option)) {
      text += " \\\n      " + shell_quoted(name + "[" + option->get_description() + "]");
    }
  }
  text += "\n    return\n  fi\n  local command=${words[2]}\n  shift words\n  ((CURRENT--))\n  case $command in\n";
  for (const CLI::App* command : shown_commands(root)) {
    text += "    " + command->get_name() + ")\n      _arguments";
    for (const CLI::Option* option : named_options(*command)) {
      const std::vector<std::string> words = words_of(*option);
      std::string value;
      if (takes_value(*option)) {
        const bool files = takes_file(*option) || option->get_type_name() == "MODEL";
        value = ":value:" + (files ? "_files" : words.empty() ? "" : "(" + joined(words, " ") + ")");
      }
      for (const std::string& name : names_of(*option)) {
        const std::string help = shell_quoted(option->get_description(), "[]:\\");
        text += " \\\n        '*'" + name + "'['" + help + "']" + value + "'";
      }
    }
    const std::string following_words = joined(words_after(*command), " ");
    if (!following_words.empty()) text += " \\\n        '1:command:(" + following_words + ")'";
    text += " \\\n        '*:file:_files' ;;\n";
  }
  return text + "  esac\n}\n_ibid \"$@\"\n";
}

std::string fish_completion(const CLI::App& root) {
  std::string text = "# fish completion of ibid, written by the program when it is built\n";
  const auto option_line = [&](const std::string& condition, const CLI::Option& option) {
    text += "complete -c ibid -n " + shell_quoted(condition);
    for (const std::string& name : option.get_snames()) text += " -s " + name;
    for (const std::string& name : option.get_lnames()) text += " -l " + name;
    if (takes_value(option)) {
      const bool files = takes_file(option) || option.get_type_name() == "MODEL";
      text += files ? " -r -F" : " -x";
      if (const std::string words = joined(words_of(option), " "); !words.empty()) text += " -a " + shell_quoted(words);
    }
    text += " -d " + shell_quoted(option.get_description(), "\\") + "\n";
  };
  for (const CLI::Option* option : named_options(root)) option_line("__fish_use_subcommand", *option);
  for (const CLI::App* command : shown_commands(root)) {
    text += "complete -c ibid -f -n '__fish_use_subcommand' -a " + command->get_name() + " -d " +
            shell_quoted(command->get_description(), "\\") + "\n";
  }
  for (const CLI::App* command : shown_commands(root)) {
    const std::string following_words = joined(words_after(*command), " ");
    if (following_words.empty()) continue;
    text += "complete -c ibid -f -n " + shell_quoted("__fish_seen_subcommand_from " + command->get_name()) + " -a " +
            shell_quoted(following_words) + "\n";
  }
  for (const CLI::App* command : shown_commands(root)) {
    for (const CLI::Option* option : named_options(*command)) {
      option_line("__fish_seen_subcommand_from " + command->get_name(), *option);
    }
  }
  return text;
}

// Man pages, and writing all shell files.
namespace {

// Escapes a text for roff, so that hyphens can be copied and no line starts like a request.
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
    "options that always apply, and presets (--preset NAME)\n"
    ".TP\n~/.local/share/ibid/models\npulled models; IBID_MODELS names another directory\n"
    ".TP\n~/.local/state/ibid\nconversations that are kept\n"
    ".TP\n~/.cache/ibid\nkeys and values of their tokens\n"
    ".SH EXIT STATUS\n"
    "0: done. 1: a failure, explained in one sentence. 2: wrong usage. 130: ended by Ctrl\\-C. "
    "141: the reader of the output was gone.\n";

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
  // Commands of the program have man pages of their own; subcommands are on their parent's page.
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
  command->add_option("DIRECTORY", *directory, "the folder to write to")->required();
  command->callback([&root, directory, &exit_code] {
    if (const Status status = write_shell_files(root, *directory); !status.ok()) exit_code = report(status);
  });
}

}  // namespace ibid
