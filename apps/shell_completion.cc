// The three shells' completions.
#include <algorithm>
#include <string_view>
#include <vector>

#include "apps/command_line/help_text.h"
#include "apps/models/model_catalog.h"
#include "apps/shell_files.h"

namespace ibid {

namespace {

// Those of its own commands included; each once.
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

// The words an option's value can be: those in lower case of "N|unlimited".
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

std::string joined(const std::vector<std::string>& words, const char* separator) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : separator) + word;
  return text;
}

std::vector<std::string> all_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : named_options(command)) {
    for (std::string& name : names_of(*option)) names.push_back(std::move(name));
  }
  return names;
}

// What may stand behind a command: `help` takes the commands, others have commands of their own.
std::vector<std::string> words_behind(const CLI::App& command) {
  return command_names(command.get_name() == "help" ? *command.get_parent() : command);
}

// In single quotes of a shell; zsh wants some characters of a specification escaped as well.
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
    const std::string behind = joined(words_behind(*command), " ");
    text += "      esac\n      words='" + behind + (behind.empty() ? "" : " ") + joined(all_names(*command), " ") + "'";
    text += (behind.empty() ? "" : "\n      ((COMP_CWORD == 2)) && command=") + std::string(" ;;\n");
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
    const std::string behind = joined(words_behind(*command), " ");
    if (!behind.empty()) text += " \\\n        '1:command:(" + behind + ")'";
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
    const std::string behind = joined(words_behind(*command), " ");
    if (behind.empty()) continue;
    text += "complete -c ibid -f -n " + shell_quoted("__fish_seen_subcommand_from " + command->get_name()) + " -a " +
            shell_quoted(behind) + "\n";
  }
  for (const CLI::App* command : shown_commands(root)) {
    for (const CLI::Option* option : named_options(*command)) {
      option_line("__fish_seen_subcommand_from " + command->get_name(), *option);
    }
  }
  return text;
}

}  // namespace ibid
