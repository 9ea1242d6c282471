#include "apps/chat/conversation.h"

#include <algorithm>
#include <utility>

#include "apps/chat/chat_command.h"
#include "apps/chat/sampling_options.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/checked.h"
#include "base/text.h"

namespace ibid {
namespace {

// Joins "name value" parts with blanks, in lines of at most kLineColumns.
std::string in_lines(const std::vector<std::string>& parts) {
  std::string lines, line;
  for (const std::string& part : parts) {
    if (!line.empty() && line.size() + 3 + part.size() > kLineColumns) lines += std::exchange(line, "") + "\n";
    line += (line.empty() ? "" : "   ") + part;
  }
  return lines + line;
}

}  // namespace

SettingCommands::Next SettingCommands::help(std::string_view argument) {
  if (argument.empty()) {
    note(help_of_all_commands());
    return Next::kGoOn;
  }
  const std::string name = (argument.starts_with('/') ? "" : "/") + std::string(argument);
  const ChatCommand* command = find_chat_command(name);
  note(command != nullptr ? help_of(*command) : name + ": unknown command (/help lists them)");
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::history(std::string_view argument) {
  if (argument.empty()) {
    for (size_t i = 0; i < messages().size(); ++i) {
      const std::string start = std::to_string(i) + "  " + std::string(role_of(messages()[i])) + ": ";
      note(start + excerpt(text_of(messages()[i]), saturating_sub(kLineColumns, start.size())));
    }
    note(messages().empty() ? "no messages yet" : "/history N shows one in full");
    return Next::kGoOn;
  }
  const std::optional<size_t> number = leading_number(argument);
  if (!number || *number >= messages().size()) {
    note("no message has this number (/history shows them)");
  } else {
    note(std::string(role_of(messages()[*number])) + ":\n" + text_of(messages()[*number]));
  }
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::pin(std::string_view argument) {
  const std::optional<size_t> message = leading_number(argument);
  if (!message) {
    note("/pin N: the number of a message (/history shows them)");
    return Next::kGoOn;
  }
  Result<std::unique_ptr<ChatBackend>> pinned = now().fork();
  Status status = pinned.status();
  if (status.ok()) status = (*pinned)->pin(*message);
  if (!status.ok()) {
    state_.fail(status);
    return Next::kGoOn;
  }
  state_.branches.replace(*std::move(pinned), "/pin");
  note("message " + std::to_string(*message) + " stays when old turns are dropped");
  state_.save();
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::set(std::string_view argument) {
  const size_t end = std::min(argument.find_first_of(" \t=\n"), argument.size());
  const std::string_view name = argument.substr(0, end);
  std::string_view value = trimmed(argument.substr(end));
  if (value.starts_with('=')) value = trimmed(value.substr(1));
  if (name.empty()) {
    list_settings();
    note("/set NAME VALUE changes one; the names are the command line's");
    return Next::kGoOn;
  }
  const SamplingOption* option = find_sampling_option(name);
  if (option == nullptr) {
    note("'" + std::string(name) + "' is not a setting (/set lists them; /when-full, /system are commands)");
  } else if (value.empty()) {
    note(value_text(*option) + ": " + option->help);
  } else if (const Status status = set_option(*option, value); !status.ok()) {
    note(status.message());
  } else {
    note(option->name() + " " + option->get(state_.turn_options) + " from the next answer on");
  }
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::show_settings(std::string_view argument) {
  const SamplingOption* option = find_sampling_option(argument);
  if (argument.empty()) {
    list_settings();
  } else if (option == nullptr) {
    note("'" + std::string(argument) + "' is not a setting (/show lists them)");
  } else {
    note(value_text(*option) + ": " + option->help);
  }
  return Next::kGoOn;
}

Status SettingCommands::set_option(const SamplingOption& option, std::string_view value) {
  TurnOptions changed = state_.turn_options;
  TRY(apply_sampling(changed, option.name(), value));
  TRY(now().note_option_set(option));
  state_.turn_options = std::move(changed);
  return {};
}

// Returns "temperature 0.7"; an option that the server decides has no value.
std::string SettingCommands::value_text(const SamplingOption& option) {
  return option.name() + " " + (now().decides(option) ? option.get(state_.turn_options) : "the server's");
}

void SettingCommands::list_settings() {
  std::vector<std::string> parts;
  for (const SamplingOption& option : sampling_options()) parts.push_back(value_text(option));
  if (const std::optional<WhenFull> policy = now().when_full()) {
    parts.push_back("when-full " + std::string(when_full_name(*policy)));
  }
  note(in_lines(parts));
}

SettingCommands::Next SettingCommands::when_full(std::string_view argument) {
  const std::optional<WhenFull> present = now().when_full();
  if (!present) {
    note(now().set_when_full(WhenFull::kError).message());
    return Next::kGoOn;
  }
  if (argument.empty()) {
    note("when the context is full: " + std::string(when_full_name(*present)));
    note("error: the message is refused; drop: the oldest turns are dropped; cut: the\nmiddle of the message is cut");
    return Next::kGoOn;
  }
  const std::optional<WhenFull> policy = when_full_by_name(argument);
  if (!policy) {
    note("'" + std::string(argument) + "' is not one of error, drop, cut");
    return Next::kGoOn;
  }
  if (const Status status = now().set_when_full(*policy); !status.ok()) {
    state_.fail(status);
    return Next::kGoOn;
  }
  note("when the context is full: " + std::string(argument));
  state_.save();
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::show_model(std::string_view) {
  for (const std::string& line : now().describe_model()) note(line);
  return Next::kGoOn;
}

SettingCommands::Next SettingCommands::show_stats(std::string_view) {
  for (const std::string& line : now().describe_costs()) note(line);
  return Next::kGoOn;
}

void SettingCommands::show_last_exchange() {
  constexpr size_t kQuestion = 2 * kLineColumns, kAnswer = 5 * kLineColumns;
  const size_t question = last_from(messages(), Role::kUser);
  if (question == messages().size()) return;
  note("> " + excerpt(text_of(messages()[question]), kQuestion));
  if (question + 1 < messages().size()) {
    note(excerpt_of_end(text_of(messages().back()), kAnswer));
  } else {
    note("(it has no answer yet: /regen answers it, /undo removes it)");
  }
}

}  // namespace ibid
