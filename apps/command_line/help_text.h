// The help of the program and of each command, at most 78 columns wide.
#pragma once

#include <CLI/App.hpp>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

inline constexpr size_t kHelpWidth = 78;

// Gives `root`, its commands and theirs a formatter that wraps, puts short names first and says ranges and defaults in
// the same way everywhere.
void use_help_text(CLI::App& root);

// "-t, --threads N": all names of an option, the short ones first, and what stands for its value. A word of the
// command line is its name alone.
std::string option_heading(const CLI::Option& option);
// Its description, with its default where it has one.
std::string option_help(const CLI::Option& option);

// The options of a command that its help shows: words of the command line first, then by groups in their order.
struct OptionGroup {
  std::string title;  // empty: words of the command line
  std::vector<const CLI::Option*> options;
};
std::vector<OptionGroup> option_groups(const CLI::App& command);

// The commands of `app` that its help shows.
std::vector<const CLI::App*> shown_commands(const CLI::App& app);
std::vector<std::string> command_names(const CLI::App& app);
// "ibid sessions show".
std::string full_name(const CLI::App& command);
// The command that the words name, from the root on: {"sessions", "show"}. nullptr: no such command.
const CLI::App* find_command(const CLI::App& root, const std::vector<std::string>& words);

// "ibid ask [OPTIONS] [TEXT...]".
std::string usage_line(const CLI::App& command);

// `text` in lines of at most `width` columns, broken at blanks, each with `indent` blanks in front, but for the first.
std::string wrapped(std::string_view text, size_t indent, size_t width);

}  // namespace ibid
