// The commands that go to another place of the conversation, begin a new one, or keep it under a name.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "apps/chat/conversation_state.h"

namespace ibid {

class BranchCommands {
 public:
  using Next = ConversationState::Next;

  // `state` must outlive it.
  explicit BranchCommands(ConversationState& state) : state_(state) {}

  Next choose(std::string_view argument);
  Next undo(std::string_view);
  Next redo(std::string_view);
  Next fork(std::string_view);
  Next back(std::string_view);
  Next list_branches(std::string_view);
  Next go_to(std::string_view argument);
  Next clear(std::string_view);
  Next system(std::string_view argument);
  Next keep_as(std::string_view argument);

 private:
  void go(Branches::Place place, const std::string& what, const std::string& words);
  // Asks where a kept conversation goes that is about to begin anew. False: it stays as it is.
  bool make_way();
  Next begin_anew(const std::function<Status(Talk&)>& change, const std::string& what,
                  const std::string& words);

  Talk& now() { return state_.now(); }
  const Json& messages() const { return state_.messages(); }
  void note(const std::string& text) { state_.note(text); }

  ConversationState& state_;
  std::vector<Branches::Place> forks_;  // where /fork was said
};

}  // namespace ibid
