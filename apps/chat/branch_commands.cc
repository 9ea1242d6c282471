#include "apps/chat/conversation.h"

#include <algorithm>
#include <utility>

#include "apps/chat/chat_command.h"
#include "apps/command_line/command.h"
#include "apps/sessions/message_text.h"
#include "apps/terminal/terminal_text.h"
#include "base/checked.h"
#include "base/text.h"

namespace ibid {
namespace {

// Formats a branch: number, length, first message that differs, and last words: "2  6 messages, different from 2 on:
// ...the last words".
std::string line_of(const Branches::View& view) {
  std::string line = std::to_string(view.number) + "  ";
  if (view.messages == nullptr) return excerpt(line + view.problem, kLineColumns);
  line += counted(view.messages->size(), "message") + ", different from " + std::to_string(view.n_common) + " on: ";
  const std::string words = view.messages->empty() ? "" : text_of(view.messages->back());
  return line + excerpt_of_end(words, saturating_sub(kLineColumns, line.size()));
}

}  // namespace

BranchCommands::Next BranchCommands::undo(std::string_view) {
  if (!state_.attached.empty()) {
    note(state_.attached.back().path + " is no longer attached to your next message");
    state_.attached.pop_back();
    return Next::kGoOn;
  }
  const Result<std::string> undone = state_.branches.undo();
  if (!undone.ok()) {
    note(undone.status().message());
    return Next::kGoOn;
  }
  note("undone: " + *undone + "; " + counted(messages().size(), "message") + " now (/redo restores it)");
  state_.save();
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::redo(std::string_view) {
  const Result<std::string> redone = state_.branches.redo();
  if (!redone.ok()) {
    note(redone.status().message());
    return Next::kGoOn;
  }
  note("redone: " + *redone + "; " + counted(messages().size(), "message") + " now");
  state_.save();
  return Next::kGoOn;
}

void BranchCommands::go(Branches::Place place, const std::string& what, const std::string& words) {
  if (const Status status = state_.branches.go(place, what); !status.ok()) return state_.fail(status);
  note(words + ", with " + counted(messages().size(), "message"));
  state_.save();
}

BranchCommands::Next BranchCommands::choose(std::string_view argument) {
  const std::optional<size_t> answer = leading_number(argument);
  if (!answer || *answer == 0) {
    note("/choose K: the number of an answer");
  } else if (*answer > state_.answers.size()) {
    note(state_.answers.empty() ? "no answers to choose from: /answers N TEXT generates some"
                                : "no answer " + std::to_string(*answer) + " to choose; the number of answers is " +
                                      std::to_string(state_.answers.size()));
  } else {
    go(state_.answers[*answer - 1], "/choose", "the conversation continues with answer " + std::to_string(*answer));
  }
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::fork(std::string_view) {
  forks_.push_back(state_.branches.here());
  note("/back returns here; the messages until then stay as a branch (/branches)");
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::back(std::string_view) {
  if (forks_.empty()) {
    note("no place to return to: /fork marks one");
    return Next::kGoOn;
  }
  const Branches::Place place = forks_.back();
  forks_.pop_back();
  go(place, "/back", "back at the last /fork");
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::list_branches(std::string_view) {
  const std::vector<Branches::View> others = state_.branches.others();
  if (others.empty()) note("no other branches: /edit, /regen, /undo and other commands create them");
  for (const Branches::View& view : others) note(line_of(view));
  if (!others.empty()) note("this one has " + counted(messages().size(), "message") + "; /goto N selects another");
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::go_to(std::string_view argument) {
  const std::optional<size_t> number = leading_number(argument);
  const std::vector<Branches::View> others = state_.branches.others();
  const bool is_there =
      number && argument.empty() &&
      std::any_of(others.begin(), others.end(), [&](const Branches::View& view) { return view.number == *number; });
  if (!is_there) {
    note("/goto N: the number of a branch (/branches lists them)");
    return Next::kGoOn;
  }
  go({*number, SIZE_MAX}, "/goto", "this is branch " + std::to_string(*number));
  return Next::kGoOn;
}

bool BranchCommands::offer_to_save() {
  if (!state_.kept || n_turns(messages()) == 0 || !state_.ask_person) return true;
  const std::string proposed = free_name_like(state_.kept->files(), state_.kept->name());
  const std::string question = "'" + state_.kept->name() + "' holds " + counted(messages().size(), "message") +
                               ". Keep them under which name?\nEnter: '" + proposed +
                               "'   -: as a branch of the new one   Ctrl-C: change nothing";
  for (;;) {
    const std::optional<std::string> line = state_.ask_person(question);
    if (!line) {
      note("nothing has changed");
      return false;
    }
    const std::string answer(trimmed(*line));
    if (answer == "-") return true;
    const std::string name = answer.empty() ? proposed : answer;
    const Status status = state_.kept->move_to(name, state_.branches);
    if (status.ok()) {
      note("the conversation until now is kept as '" + name + "'");
      return true;
    }
    note(status.message());
    if (status.code() != ErrorCode::kInvalidArgument && status.code() != ErrorCode::kDuplicate &&
        status.code() != ErrorCode::kBusy) {
      state_.any_failed = true;
      return false;
    }
  }
}

BranchCommands::Next BranchCommands::begin_anew(const std::function<Status(ChatBackend&)>& change,
                                                const std::string& what, const std::string& words) {
  Result<std::unique_ptr<ChatBackend>> fresh = now().fork();
  Status status = fresh.status();
  if (status.ok()) status = change(**fresh);
  if (!status.ok()) {
    state_.fail(status);
    return Next::kGoOn;
  }
  if (!offer_to_save()) return Next::kGoOn;
  state_.branches.replace(*std::move(fresh), what);
  note(words);
  state_.save();
  return Next::kGoOn;
}

BranchCommands::Next BranchCommands::clear(std::string_view) {
  return begin_anew([](ChatBackend& backend) { return backend.reset(); }, "/clear",
                    "a new conversation (/undo returns to the old one)");
}

BranchCommands::Next BranchCommands::system(std::string_view argument) {
  if (argument.empty()) {
    const bool has_one = !messages().empty() && is_from(messages()[0], Role::kSystem);
    note(has_one ? text_of(messages()[0]) : "no system message");
    note("/system TEXT begins anew with another, /system none without one");
    return Next::kGoOn;
  }
  const std::string text(argument == "none" ? std::string_view() : argument);
  return begin_anew([&](ChatBackend& backend) { return backend.set_system(text); }, "/system",
                    text.empty() ? "a new conversation without a system message (/undo returns to the old one)"
                                 : "a new conversation with this system message (/undo returns to the old one)");
}

BranchCommands::Next BranchCommands::keep_as(std::string_view argument) {
  const std::string name(argument);
  if (const Status status = now().can_be_kept(); !status.ok()) {
    note(status.message());
    return Next::kGoOn;
  }
  if (!state_.files.ok()) {
    note(state_.files.status().message());
    return Next::kGoOn;
  }
  Result<SavedConversation> taken = SavedConversation::take(*state_.files, name);
  if (state_.kept && state_.kept->name() == name) {
    note("already kept as '" + name + "', after every turn");
    return Next::kGoOn;
  }
  Status status = taken.status();
  if (status.ok() && !taken->is_new()) {
    status = Status(ErrorCode::kDuplicate, "a conversation '" + name + "' already exists; choose another name");
  }
  if (!status.ok()) {
    note(status.message());
    return Next::kGoOn;
  }
  if (state_.kept) {
    if (const Status copied = now().save(state_.files->path(name)); !copied.ok()) {
      state_.fail(copied);
    } else {
      note("a copy is kept as '" + name + "'; this conversation continues as '" + state_.kept->name() + "'");
    }
    return Next::kGoOn;
  }
  state_.kept.emplace(*std::move(taken));
  state_.branches.mark_changed();
  if (const Status saved = state_.kept->save(state_.branches); !saved.ok()) {
    state_.kept.reset();
    state_.fail(saved);
  } else {
    const std::string word = name.find(' ') == std::string::npos ? name : "'" + name + "'";
    note("saved after every turn; resume with " + own_command("chat --resume " + word));
  }
  return Next::kGoOn;
}

}  // namespace ibid
