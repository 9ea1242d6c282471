// What all commands of a conversation in the terminal work on: its branches, the name it is kept under, the
// settings of its next answers, and the screen. For one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/chat/attached_files.h"
#include "apps/chat/branches.h"
#include "apps/chat/kept_conversation.h"
#include "apps/chat/screen.h"
#include "base/result.h"

namespace ibid {

// Asks the person something and returns the line that is the answer; nullopt: Ctrl-C, or the end of the
// input.
using AskPerson = std::function<std::optional<std::string>(const std::string& question)>;

struct ConversationOptions {
  TurnOptions turn;
  Result<SessionFiles> files;            // where /save keeps it, or why it cannot
  std::optional<KeptConversation> kept;  // none: it is kept nowhere
  bool commands = false;                 // a person types: lines may be commands, and @FILE is a file
  bool verbose = false;                  // how fast each answer was is said
  AskPerson ask_person;
};

struct ConversationState {
  // What follows a line.
  enum class Next { kGoOn, kLeave, kInterrupted };

  // `where` must outlive it.
  ConversationState(std::unique_ptr<Talk> talk, ConversationOptions options, Screen& where);
  ConversationState(const ConversationState&) = delete;
  ConversationState& operator=(const ConversationState&) = delete;

  Talk& now() { return branches.now(); }
  const Talk& now() const { return branches.now(); }
  const Json& messages() const { return branches.messages(); }

  void note(const std::string& text) { screen.note(text); }
  // Shows what went wrong.
  void fail(const Status& status);
  // Forgets the oldest of too many branches, and writes what has changed if the conversation is kept.
  void save();

  Branches branches;
  TurnOptions turn_options;
  Result<SessionFiles> files;
  std::optional<KeptConversation> kept;
  const bool commands;
  const bool verbose;
  const AskPerson ask_person;
  Screen& screen;
  std::vector<Branches::Place> answers;  // of the last /answers
  std::vector<AttachedFile> attached;    // by /read, for the next message
  size_t n_lines = 0;                    // from a pipe: which message this is
  bool any_failed = false;
};

}  // namespace ibid
