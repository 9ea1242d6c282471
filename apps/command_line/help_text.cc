#include "apps/command_line/help_text.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <functional>
#include <memory>

namespace ibid {

namespace {

constexpr size_t kHelpColumn = 26;  // column of descriptions

std::string help_entry(const std::string& heading, const std::string& help) {
  std::string line = "  " + heading;
  if (line.size() + 2 > kHelpColumn) {
    line += "\n" + std::string(kHelpColumn, ' ');
  } else {
    line.resize(kHelpColumn, ' ');
  }
  return line + wrapped(help, kHelpColumn, kHelpWidth) + "\n";
}

std::string commands_text(const CLI::App& root) {
  std::string text;
  std::string group;
  for (const CLI::App* command : shown_commands(root)) {
    if (command->get_group() != group) text += "\n" + command->get_group() + ":\n";
    group = command->get_group();
    text += help_entry(command->get_name(), command->get_description());
  }
  return text;
}

class HelpFormatter : public CLI::FormatterBase {
 public:
  std::string make_help(const CLI::App* app, std::string /*name*/, CLI::AppFormatMode /*mode*/) const override {
    std::string text = "usage: " + wrapped(usage_line(*app), 7, kHelpWidth) + "\n\n";
    text += wrapped(app->get_description(), 0, kHelpWidth) + "\n";
    text += commands_text(*app);
    for (const OptionGroup& group : option_groups(*app)) {
      text += "\n" + (group.title.empty() ? "" : group.title + ":\n");
      for (const CLI::Option* option : group.options) text += help_entry(option_heading(*option), option_help(*option));
    }
    if (!app->get_footer().empty()) text += "\n" + app->get_footer() + "\n";
    return text;
  }
};

void use_formatter(CLI::App& app, const std::shared_ptr<HelpFormatter>& formatter) {
  app.formatter(formatter);
  app.get_help_ptr()->description("this help");
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) {
    if (app.get_parent() != nullptr) command->group("Commands");
    use_formatter(*command, formatter);
  }
}

}  // namespace

void use_help_text(CLI::App& root) { use_formatter(root, std::make_shared<HelpFormatter>()); }

std::vector<const CLI::App*> shown_commands(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : shown_commands(app)) names.push_back(command->get_name());
  return names;
}

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  return (parent == nullptr ? "" : full_name(*parent) + " ") + command.get_name();
}

const CLI::App* find_command(const CLI::App& root, const std::vector<std::string>& words) {
  const CLI::App* found = &root;
  for (const std::string& word : words) {
    const std::vector<const CLI::App*> commands = shown_commands(*found);
    const auto named = [&](const CLI::App* command) { return command->get_name() == word; };
    const auto command = std::find_if(commands.begin(), commands.end(), named);
    if (command == commands.end()) return nullptr;
    found = *command;
  }
  return found;
}

std::string option_heading(const CLI::Option& option) {
  if (!option.nonpositional()) {
    return option.get_name(true) + (option.get_expected_max() > 1 ? "..." : "");
  }
  std::string heading;
  for (const std::string& name : option.get_snames()) heading += (heading.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames()) heading += (heading.empty() ? "--" : ", --") + name;
  if (option.get_type_size() != 0 && option.get_expected_max() > 0) heading += " " + option.get_type_name();
  return heading;
}

std::string option_help(const CLI::Option& option) {
  std::string help = option.get_description();
  const std::string value = option.get_default_str();
  const bool is_flag = option.get_expected_max() == 0;
  if (!is_flag && !value.empty() && value != "[]" && value != "\"\"") help += " (default: " + value + ")";
  return help;
}

std::vector<OptionGroup> option_groups(const CLI::App& command) {
  std::vector<OptionGroup> groups = {{"", {}}};
  for (const CLI::Option* option : command.get_options({})) {
    if (option->get_group().empty()) continue;
    if (!option->nonpositional()) {
      groups.front().options.push_back(option);
      continue;
    }
    const auto same = [&](const OptionGroup& group) { return group.title == option->get_group(); };
    auto found = std::find_if(groups.begin(), groups.end(), same);
    if (found == groups.end()) found = groups.insert(groups.end(), {option->get_group(), {}});
    found->options.push_back(option);
  }
  if (groups.front().options.empty()) groups.erase(groups.begin());
  // CLI11 declares --help first in the common group, so move it to the end of the group.
  for (OptionGroup& group : groups) {
    const auto is_help = [&](const CLI::Option* option) { return option == command.get_help_ptr(); };
    std::stable_partition(group.options.begin(), group.options.end(), std::not_fn(is_help));
  }
  return groups;
}

std::string usage_line(const CLI::App& command) {
  std::string line = full_name(command);
  if (!command.get_subcommands({}).empty()) return line + " COMMAND [OPTIONS]";
  line += " [OPTIONS]";
  for (const CLI::Option* option : command.get_options({})) {
    if (!option->get_positional() || option->get_group().empty()) continue;
    const std::string word = option->get_name(true) + (option->get_expected_max() > 1 ? "..." : "");
    line += option->get_required() ? " " + word : " [" + word + "]";
  }
  return line;
}

std::string wrapped(std::string_view text, size_t indent, size_t width) {
  std::string result;
  size_t column = indent;
  while (!text.empty()) {
    const size_t end = std::min(text.find_first_of(" \n"), text.size());
    const std::string_view word = text.substr(0, end);
    const bool first = column == indent;
    if (!first && column + 1 + word.size() > width) {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    } else if (!first) {
      result += ' ';
      ++column;
    }
    result += word;
    column += word.size();
    if (end < text.size() && text[end] == '\n') {
      result += "\n" + std::string(indent, ' ');
      column = indent;
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return result;
}

}  // namespace ibid
