// The help of the program and its commands, at most 78 columns wide.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

inline constexpr size_t kHelpWidth = 78;

// Sets the formatter of `root` and all commands below it. The formatter wraps lines, lists short names first and shows
// ranges and defaults uniformly.
void use_help_text(CLI::App& root);

// Returns all names of an option, short ones first, and the placeholder of its value: "-t, --threads N". For a
// positional argument, returns its name.
std::string option_heading(const CLI::Option& option);
// Returns the description of an option, with its default if it has one.
std::string option_help(const CLI::Option& option);

// A group of options in the help of a command. The positional arguments come first, then the groups in their order.
struct OptionGroup {
  std::string title;  // empty for the positional arguments
  std::vector<const CLI::Option*> options;
};
std::vector<OptionGroup> option_groups(const CLI::App& command);

// Returns the subcommands of `app` that its help shows.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
std::vector<std::string> command_names(const CLI::App& app);
// Returns the name with the names of all parents: "ibid sessions show".
std::string full_name(const CLI::App& command);
// Finds a command by its words below the root: {"sessions", "show"}. Returns nullptr if it does not exist.
const CLI::App* find_command(const CLI::App& root, const std::vector<std::string>& words);

// Returns "ibid ask [OPTIONS] [TEXT...]".
std::string usage_line(const CLI::App& command);

// Wraps `text` at blanks to `width` columns. All lines but the first begin with `indent` blanks.
std::string wrapped(std::string_view text, size_t indent, size_t width);

}  // namespace ibid
