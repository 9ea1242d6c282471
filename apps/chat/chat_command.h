// The slash commands of a chat, in one table from which /help, completion and docs/chat.md are made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "apps/chat/conversation.h"
#include "apps/terminal/completion.h"

namespace ibid {

// Columns of lists and excerpts: those of a usual terminal (80), minus the width of a prefix.
inline constexpr size_t kLineColumns = 78;

size_t count_words(std::string_view text);
// Parses a number at the start of `text`, and removes it and the blanks after it. A number that is too large becomes
// SIZE_MAX. nullopt: `text` does not start with a number and is unchanged.
std::optional<size_t> leading_number(std::string_view& text);

struct ChatCommand {
  std::string_view name;       // "/edit"
  std::string_view alias;      // another name, or empty
  std::string_view arguments;  // argument syntax for help: "[N] TEXT"
  std::string_view help;       // help in one line
  // Further help, for /help COMMAND; may be empty.
  std::string_view more;
  size_t min_words = 0;
  size_t max_words = 0;  // kText: the rest of the line is one argument
  // Runs the command. REQUIRES: the number of words is allowed.
  Conversation::Next (*run)(Conversation& conversation, std::string_view argument);

  static constexpr size_t kText = SIZE_MAX;
};

// Returns the commands in the order of /help.
std::span<const ChatCommand> chat_commands();
// Finds a command by name or alias with its slash, ignoring case. nullptr: not found.
const ChatCommand* find_chat_command(std::string_view name);

// Returns "/edit [N] TEXT" followed by the help, in lines of at most 78 columns.
std::string help_of_all_commands();
std::string help_of(const ChatCommand& command);

CompletionWords completion_words();

}  // namespace ibid
