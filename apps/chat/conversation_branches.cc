// The commands that go to another place of the conversation, or begin a new one.
#include <algorithm>
#include <utility>

#include "apps/chat/command_words.h"
#include "apps/chat/conversation.h"
#include "apps/sessions/message_text.h"

namespace ibid {
namespace {

constexpr size_t kLineColumns = 78;

std::string counted(size_t n, const char* what) {
  return std::to_string(n) + " " + what + (n == 1 ? "" : "s");
}

// "  2  6 messages, other from message 2 on: ...the last words"
std::string line_of(const Branches::View& view) {
  std::string line = std::to_string(view.number) + "  ";
  if (view.messages == nullptr) return excerpt(line + view.problem, kLineColumns);
  line += counted(view.messages->size(), "message") + ", another from " + std::to_string(view.n_common) + " on: ";
  const std::string words = view.messages->empty() ? "" : text_of(view.messages->back());
  return line + excerpt_of_end(words, kLineColumns - std::min(kLineColumns, line.size()));
}

}  // namespace

Conversation::Next Conversation::undo(std::string_view) {
  if (!attached_.empty()) {
    note(attached_.back().path + " no longer goes along with your next message");
    attached_.pop_back();
    return Next::kGoOn;
  }
  const Result<std::string> undone = branches_.undo();
  if (!undone.ok()) {
    note(undone.status().message());
    return Next::kGoOn;
  }
  note("taken back: " + *undone + "; " + counted(messages().size(), "message") + " now (/redo brings it again)");
  save();
  return Next::kGoOn;
}

Conversation::Next Conversation::redo(std::string_view) {
  const Result<std::string> redone = branches_.redo();
  if (!redone.ok()) {
    note(redone.status().message());
    return Next::kGoOn;
  }
  note("there again: " + *redone + "; " + counted(messages().size(), "message") + " now");
  save();
  return Next::kGoOn;
}

void Conversation::go(Branches::Place place, const std::string& what, const std::string& words) {
  if (const Status status = branches_.go(place, what); !status.ok()) return fail(status);
  note(words + ", with " + counted(messages().size(), "message"));
  save();
}

Conversation::Next Conversation::choose(std::string_view argument) {
  const std::optional<size_t> answer = leading_number(argument);
  if (!answer || *answer == 0) {
    note("/choose K: the number of an answer");
  } else if (*answer > answers_.size()) {
    note(answers_.empty() ? "there are no answers to choose from: /answers N TEXT asks for some"
                          : "there is no answer " + std::to_string(*answer) + " to choose, there are " +
                                std::to_string(answers_.size()));
  } else {
    go(answers_[*answer - 1], "/choose", "the conversation goes on with answer " + std::to_string(*answer));
  }
  return Next::kGoOn;
}

Conversation::Next Conversation::fork(std::string_view) {
  forks_.push_back(branches_.here());
  note("/back returns to this place; what is said until then stays as a branch (/branches)");
  return Next::kGoOn;
}

Conversation::Next Conversation::back(std::string_view) {
  if (forks_.empty()) {
    note("there is no place to return to: /fork marks one");
    return Next::kGoOn;
  }
  const Branches::Place place = forks_.back();
  forks_.pop_back();
  go(place, "/back", "back where /fork was said");
  return Next::kGoOn;
}

Conversation::Next Conversation::list_branches(std::string_view) {
  const std::vector<Branches::View> others = branches_.others();
  if (others.empty()) note("there is no other branch: what /edit, /regen, /undo and others leave behind is one");
  for (const Branches::View& view : others) note(line_of(view));
  if (!others.empty()) note("this one has " + counted(messages().size(), "message") + "; /goto N takes another");
  return Next::kGoOn;
}

Conversation::Next Conversation::go_to(std::string_view argument) {
  const std::optional<size_t> number = leading_number(argument);
  const std::vector<Branches::View> others = branches_.others();
  const bool is_there = number && argument.empty() &&
                        std::any_of(others.begin(), others.end(),
                                    [&](const Branches::View& view) { return view.number == *number; });
  if (!is_there) {
    note("/goto N: the number of a branch (/branches lists them)");
    return Next::kGoOn;
  }
  go({*number, SIZE_MAX}, "/goto", "this is branch " + std::to_string(*number));
  return Next::kGoOn;
}

// --- beginning anew

bool Conversation::make_way() {
  if (!kept_ || n_turns(messages()) == 0 || !ask_person_) return true;
  const std::string proposed = free_name_like(kept_->files(), kept_->name());
  const std::string question = "'" + kept_->name() + "' holds " + counted(messages().size(), "message") +
                               ". Keep them under which name?\nEnter: '" + proposed +
                               "'   -: as a branch of the new one   Ctrl-C: change nothing";
  for (;;) {
    const std::optional<std::string> line = ask_person_(question);
    if (!line) {
      note("nothing has changed");
      return false;
    }
    const std::string answer(trimmed(*line));
    if (answer == "-") return true;
    const std::string name = answer.empty() ? proposed : answer;
    const Status status = kept_->move_to(name, branches_);
    if (status.ok()) {
      note("what was said until now is kept as '" + name + "'");
      return true;
    }
    note(status.message());
    if (status.code() != ErrorCode::kInvalidArgument && status.code() != ErrorCode::kDuplicate &&
        status.code() != ErrorCode::kBusy) {
      any_failed_ = true;
      return false;
    }
  }
}

Conversation::Next Conversation::begin_anew(const std::function<Status(ChatSession&)>& change, const std::string& what,
                                            const std::string& words) {
  Result<ChatSession> fresh = now().fork();
  Status status = fresh.status();
  if (status.ok()) status = change(*fresh);
  if (!status.ok()) {
    fail(status);
    return Next::kGoOn;
  }
  if (!make_way()) return Next::kGoOn;
  branches_.replace(*std::move(fresh), what);
  note(words);
  save();
  return Next::kGoOn;
}

Conversation::Next Conversation::clear(std::string_view) {
  return begin_anew([](ChatSession& session) { return session.reset(); }, "/clear",
                    "a new conversation (/undo returns to the old one)");
}

Conversation::Next Conversation::system(std::string_view argument) {
  if (argument.empty()) {
    const bool has_one = !messages().empty() && is_from(messages()[0], Role::kSystem);
    note(has_one ? text_of(messages()[0]) : "there is no system message");
    note("/system TEXT begins anew with another, /system none without one");
    return Next::kGoOn;
  }
  const std::string text(argument == "none" ? std::string_view() : argument);
  return begin_anew([&](ChatSession& session) { return session.set_system(text); }, "/system",
                    text.empty() ? "a new conversation without a system message (/undo returns to the old one)"
                                 : "a new conversation with this system message (/undo returns to the old one)");
}

Conversation::Next Conversation::keep_as(std::string_view argument) {
  const std::string name(argument);
  if (!files_.ok()) {
    note(files_.status().message());
    return Next::kGoOn;
  }
  Result<KeptConversation> taken = KeptConversation::take(*files_, name);
  if (kept_ && kept_->name() == name) {
    note("it is kept as '" + name + "' already, after every turn");
    return Next::kGoOn;
  }
  Status status = taken.status();
  if (status.ok() && !taken->is_new()) {
    status = Status(ErrorCode::kDuplicate, "there is a conversation '" + name + "' already; take another name");
  }
  if (!status.ok()) {
    note(status.message());
    return Next::kGoOn;
  }
  if (kept_) {
    if (const Status copied = now().save(files_->path(name)); !copied.ok()) {
      fail(copied);
    } else {
      note("a copy is kept as '" + name + "'; this conversation goes on as '" + kept_->name() + "'");
    }
    return Next::kGoOn;
  }
  kept_.emplace(*std::move(taken));
  branches_.mark_changed();
  if (const Status saved = kept_->save(branches_); !saved.ok()) {
    kept_.reset();
    fail(saved);
  } else {
    note("kept from now on, after every turn: `ibid chat --resume " +
         (name.find(' ') == std::string::npos ? name : "'" + name + "'") + "` goes on with it");
  }
  return Next::kGoOn;
}

}  // namespace ibid
