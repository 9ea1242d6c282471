#include "apps/chat/chat_command.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "apps/chat/sampling_options.h"
#include "apps/command_line/command.h"
#include "apps/terminal/terminal_text.h"
#include "base/text.h"

namespace ibid {
namespace {

using A = AnswerCommands;
using B = BranchCommands;
using Settings = SettingCommands;
using Next = Conversation::Next;

// Adapters for the table of commands: each calls a member function of one of the conversation's command classes.
template <Next (A::*kCommand)(std::string_view)>
Next answers(Conversation& conversation, std::string_view argument) {
  return (conversation.answers().*kCommand)(argument);
}
template <Next (B::*kCommand)(std::string_view)>
Next branches(Conversation& conversation, std::string_view argument) {
  return (conversation.branches().*kCommand)(argument);
}
template <Next (Settings::*kCommand)(std::string_view)>
Next settings(Conversation& conversation, std::string_view argument) {
  return (conversation.settings().*kCommand)(argument);
}
Next leave(Conversation&, std::string_view) { return Next::kLeave; }

constexpr size_t kText = ChatCommand::kText;
constexpr size_t kHelpColumn = 20;

constexpr std::array kCommands = {
    ChatCommand{"/help", "/?", "[COMMAND]", "lists all commands, or explains one", "", 0, 1, settings<&Settings::help>},
    ChatCommand{"/continue", "", "", "continues the last answer",
                "Adds to the last answer where it was cut: at --max-tokens, at a repetition, by\n"
                "Ctrl-C or by the end of the model's turn. The shorter one stays as a branch.",
                0, 0, answers<&A::continue_answer>},
    ChatCommand{"/regen", "", "", "generates another answer to the last message",
                "The answer before stays as a branch. With a seed it is another answer, too:\n"
                "turn T of a chat draws with SEED + 1000 (T - 1), its Kth other answer with\n"
                "K more.",
                0, 0, answers<&A::regenerate>},
    ChatCommand{"/edit", "", "[N] TEXT", "replaces message N (your last one) with TEXT",
                "The conversation continues from there; the later messages stay as a branch.", 1, kText,
                answers<&A::edit>},
    ChatCommand{"/undo", "", "", "undoes the last change, of any command",
                "A message and its answer, /edit, /regen, /clear, /system, /choose, /goto,\n"
                "/back, /pin, or a file of /read that waits. As often as you like.",
                0, 0, branches<&B::undo>},
    ChatCommand{"/redo", "", "", "applies again what /undo undid", "", 0, 0, branches<&B::redo>},
    ChatCommand{"/answers", "", "N TEXT", "generates N answers to TEXT, at most 16",
                "They are computed in parallel and shown one after the other, each with its\n"
                "seed. The conversation continues with the first; the others are branches.",
                2, kText, answers<&A::several_answers>},
    ChatCommand{"/choose", "", "K", "continues with the Kth of these answers", "", 1, 1, branches<&B::choose>},
    ChatCommand{"/fork", "", "", "marks this place for /back", "", 0, 0, branches<&B::fork>},
    ChatCommand{"/back", "", "", "returns to the last mark", "The messages since then stay as a branch.", 0, 0,
                branches<&B::back>},
    ChatCommand{"/branches", "", "", "lists the other branches of this conversation",
                "/edit, /regen, /undo, /back and others create them. Each is shown with its\n"
                "number, its first message that differs from this branch, and its last words.\n"
                "At most 100 branches stay; a kept conversation includes them.",
                0, 0, branches<&B::list_branches>},
    ChatCommand{"/goto", "", "N", "continues with branch N", "", 1, 1, branches<&B::go_to>},
    ChatCommand{"/history", "", "[N]", "shows the numbered messages, or the whole of message N", "", 0, 1,
                settings<&Settings::history>},
    ChatCommand{"/read", "", "FILE [TEXT]", "attaches a text file to TEXT or to your next message",
                "In a message @FILE does the same. Put names with blanks in double quotes:\n"
                "/read \"my notes.txt\", @\"my notes.txt\". UTF-8, at most a million bytes.",
                0, kText, answers<&A::read>},
    ChatCommand{"/set", "", "[NAME VALUE]", "changes a sampling option: /set temperature 0.5",
                "The names, values and ranges are the command line's. /set NAME shows one,\n"
                "/set alone or /show all.",
                0, kText, settings<&Settings::set>},
    ChatCommand{"/show", "", "[NAME]", "shows the current sampling options", "", 0, 1,
                settings<&Settings::show_settings>},
    ChatCommand{"/when-full", "", "[POLICY]", "sets what a full context causes: error, drop (turns), cut",
                "error: the message is refused. drop: the oldest turns are dropped; the\n"
                "system message, pinned messages and the newest turn stay, and the conversation\n"
                "before stays as a branch. cut: the middle of the newest message is cut.",
                0, 1, settings<&Settings::when_full>},
    ChatCommand{"/pin", "", "N", "keeps message N when old turns are dropped", "", 1, 1, settings<&Settings::pin>},
    ChatCommand{"/system", "", "[TEXT|none]", "shows the system message, or starts anew with TEXT", "", 0, kText,
                branches<&B::system>},
    ChatCommand{"/clear", "", "", "starts a new conversation with the same system message",
                "Asks under which name a kept conversation stays.", 0, 0, branches<&B::clear>},
    ChatCommand{"/save", "", "NAME", "keeps this conversation; --resume NAME continues it",
                "If it is already kept, keep a copy. `ibid sessions` lists, shows, exports,\n"
                "renames and deletes what is kept.",
                1, kText, branches<&B::keep_as>},
    ChatCommand{"/model", "", "", "shows the model and its settings", "", 0, 0, settings<&Settings::show_model>},
    ChatCommand{"/stats", "", "", "shows tokens, times and memory so far", "", 0, 0, settings<&Settings::show_stats>},
    ChatCommand{"/exit", "/quit", "", "leaves the chat (or Ctrl-D)", "", 0, 0, leave},
};

std::string usage_of(const ChatCommand& command) {
  return std::string(command.name) + (command.arguments.empty() ? "" : " ") + std::string(command.arguments);
}

// Returns the words that a user may type for the placeholder of a value: "unlimited" for "N|unlimited".
std::vector<std::string> words_of_value(std::string_view value) {
  std::vector<std::string> words;
  while (!value.empty()) {
    const std::string_view word = value.substr(0, value.find('|'));
    if (word.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") == std::string_view::npos) words.emplace_back(word);
    value.remove_prefix(std::min(word.size() + 1, value.size()));
  }
  return words;
}

}  // namespace

size_t count_words(std::string_view text) {
  size_t n = 0;
  for (text = trimmed(text); !text.empty(); ++n) {
    const size_t end = text.find_first_of(kBlanks);
    text = end == std::string_view::npos ? std::string_view() : trimmed(text.substr(end));
  }
  return n;
}

std::optional<size_t> leading_number(std::string_view& text) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const auto length = static_cast<size_t>(end - text.data());
  if (error == std::errc::result_out_of_range) value = SIZE_MAX;
  if (error == std::errc::invalid_argument) return std::nullopt;
  if (length < text.size() && text.find_first_of(kBlanks, length) != length) return std::nullopt;
  text = trimmed(text.substr(length));
  return value;
}

std::span<const ChatCommand> chat_commands() { return kCommands; }

const ChatCommand* find_chat_command(std::string_view name) {
  const std::string small = lower_case(name);
  const auto found = std::find_if(kCommands.begin(), kCommands.end(), [&](const ChatCommand& command) {
    return small == command.name || (!command.alias.empty() && small == command.alias);
  });
  return found == kCommands.end() ? nullptr : &*found;
}

std::string help_of_all_commands() {
  std::string text;
  for (const ChatCommand& command : kCommands) {
    std::string line = usage_of(command);
    line.resize(std::max(kHelpColumn, line.size() + 1), ' ');
    text += line + std::string(command.help) + "\n";
  }
  return text +
         "//TEXT              a message that begins with /\n"
         "@FILE               in a message: attaches the text file\n"
         "Ctrl-C              stops an answer and keeps its text so far";
}

std::string help_of(const ChatCommand& command) {
  std::string text = usage_of(command) + ": " + std::string(command.help);
  if (!command.alias.empty()) text += " (or " + std::string(command.alias) + ")";
  if (!command.more.empty()) text += "\n" + std::string(command.more);
  return text;
}

CompletionWords completion_words() {
  CompletionWords words;
  for (const SamplingOption& option : sampling_options()) {
    words.arguments["/set"].push_back(option.name() + " ");
    words.arguments["/show"].push_back(option.name());
    if (std::vector<std::string> values = words_of_value(option.value); !values.empty()) {
      words.arguments["/set " + option.name()] = std::move(values);
    }
  }
  words.arguments["/when-full"] = {kWhenFullNames.begin(), kWhenFullNames.end()};
  for (const ChatCommand& command : kCommands) words.arguments["/help"].emplace_back(command.name.substr(1));
  for (const ChatCommand& command : kCommands) {
    words.commands.emplace_back(command.name);
    if (command.arguments.starts_with("FILE")) words.commands_with_file.emplace_back(command.name);
  }
  return words;
}

}  // namespace ibid
