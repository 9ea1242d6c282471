// The commands of a chat: lines that begin with a slash. There is one table of them; /help, the completion of what
// is typed and docs/chat.md follow it.
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

// Lists and excerpts fit a usual terminal, after a sign.
inline constexpr size_t kLineColumns = 78;

// The words of a command's argument.
size_t count_words(std::string_view text);
// Takes a number and the blanks after it off the front of `text`. One that is too large is the largest.
// nullopt: no number stands there, and `text` is as it was.
std::optional<size_t> leading_number(std::string_view& text);

struct ChatCommand {
  std::string_view name;       // "/edit"
  std::string_view alias;      // another name, or empty
  std::string_view arguments;  // "[N] TEXT", as people read it
  std::string_view help;       // one line
  // Further help, for /help COMMAND; may be empty.
  std::string_view more;
  size_t min_words = 0;
  size_t max_words = 0;        // kText: the rest of the line is text
  // The words are as many as allowed.
  Conversation::Next (*run)(Conversation& conversation, std::string_view argument);

  static constexpr size_t kText = SIZE_MAX;
};

// In the order of /help.
std::span<const ChatCommand> chat_commands();
// By name or alias, in small or capital letters, with its slash. nullptr: no such command.
const ChatCommand* find_chat_command(std::string_view name);

// "/edit [N] TEXT", and after it the help; each line at most 78 columns wide.
std::string help_of_all_commands();
std::string help_of(const ChatCommand& command);

// The commands as words for Tab.
CompletionWords completion_words();

}  // namespace ibid
