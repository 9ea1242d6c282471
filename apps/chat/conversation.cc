#include "apps/chat/conversation.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "apps/chat/chat_command.h"
#include "apps/command_line/command.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/text.h"

namespace ibid {

namespace {

constexpr size_t kMaxBranches = 100;

}  // namespace

ConversationState::ConversationState(std::unique_ptr<ChatBackend> backend, ConversationOptions options, Screen& where)
    : branches(std::move(backend)),
      turn_options(std::move(options.turn)),
      files(std::move(options.files)),
      kept(std::move(options.kept)),
      commands(options.commands),
      verbose(options.verbose),
      ask_person(std::move(options.ask_person)),
      screen(where) {
  if (kept) kept->add_branches(branches);
}

void ConversationState::save() {
  if (branches.changed()) {
    if (const size_t n_gone = branches.forget_all_but(kMaxBranches); n_gone > 0) {
      note("more than " + std::to_string(kMaxBranches) + " branches: the oldest is deleted");
    }
  }
  if (!kept) return branches.clear_changed();
  if (const Status status = kept->save(branches); !status.ok()) {
    any_failed = true;
    note("the conversation could not be kept: " + status.message());
  }
}

void ConversationState::fail(const Status& status) {
  any_failed = true;
  const std::string which = commands ? "" : "message " + std::to_string(n_lines) + ": ";
  note("ibid: " + which + failure_text(status, commands ? AnswerPlace::kChat : AnswerPlace::kPipe));
}

namespace {

Status no_such_command(std::string_view name) {
  std::string message = std::string(name) + ": unknown command (/help lists them)";
  std::vector<std::string> names;
  for (const ChatCommand& command : chat_commands()) names.emplace_back(command.name);
  const std::string near = joined(nearest_names(name, names), ", ");
  if (!near.empty()) message = std::string(name) + ": unknown command; similar: " + near;
  return {ErrorCode::kInvalidArgument, message};
}

// True if a message starts with a path such as "/etc/passwd", and not with a command.
bool looks_like_a_path(std::string_view word) {
  std::error_code error;
  return word.find('/', 1) != std::string_view::npos || std::filesystem::exists(std::string(word), error);
}

}  // namespace

Conversation::Conversation(std::unique_ptr<ChatBackend> backend, ConversationOptions options, Screen& screen)
    : state_(std::move(backend), std::move(options), screen) {}

Conversation::Next Conversation::handle(const std::string& line) {
  if (trimmed(line).empty()) return Next::kGoOn;
  ++state_.n_lines;
  if (!state_.commands) {
    bool sent = false;
    return answers_.send(line, "", sent);
  }
  if (line.starts_with("//")) return answers_.message(std::string_view(line).substr(1));
  return line[0] == '/' ? command(line) : answers_.message(line);
}

Conversation::Next Conversation::open_with(const std::string& text) {
  constexpr size_t kShown = 160;
  ++state_.n_lines;
  if (state_.commands) state_.note("> " + excerpt(text, kShown));
  bool sent = false;
  return answers_.send(text, state_.commands ? "the last message and its answer" : "", sent);
}

Conversation::Next Conversation::command(std::string_view line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  const std::string_view name = line.substr(0, end);
  const std::string_view argument = trimmed(line.substr(end));
  const ChatCommand* command = find_chat_command(name);
  if (command == nullptr) {
    if (looks_like_a_path(name)) {
      state_.note(std::string(name) + ": not a command; to send a message that begins with /, write //, as in /" +
                  excerpt(std::string(line), 30));
    } else {
      state_.note(no_such_command(name).message());
    }
    return Next::kGoOn;
  }
  const size_t n_words = count_words(argument);
  if (n_words < command->min_words || n_words > command->max_words) {
    const char* problem = n_words < command->min_words ? "an argument is missing: " : "too many arguments: ";
    state_.note(problem + std::string(command->name) + (command->arguments.empty() ? "" : " ") +
                std::string(command->arguments) + " (" + std::string(command->help) + ")");
    return Next::kGoOn;
  }
  return command->run(*this, argument);
}

}  // namespace ibid
