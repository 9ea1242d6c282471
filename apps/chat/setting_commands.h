// The commands that show something, or that say how the next answers come about.
#pragma once

#include <string>
#include <string_view>

#include "apps/chat/conversation_state.h"

namespace ibid {

class SettingCommands {
 public:
  using Next = ConversationState::Next;

  // `state` must outlive it.
  explicit SettingCommands(ConversationState& state) : state_(state) {}

  Next help(std::string_view argument);
  Next history(std::string_view argument);
  Next pin(std::string_view argument);
  Next set(std::string_view argument);
  Next show_settings(std::string_view argument);
  Next when_full(std::string_view argument);
  Next show_model(std::string_view);
  Next show_stats(std::string_view);

  // What a person who comes back wants to see first: the last question and its answer, cut to the screen.
  void show_last_exchange();

 private:
  void list_settings();
  Status set_option(const SamplingOption& option, std::string_view value);
  std::string value_text(const SamplingOption& option);

  Talk& now() { return state_.now(); }
  const Json& messages() const { return state_.messages(); }
  void note(const std::string& text) { state_.note(text); }

  ConversationState& state_;
};

}  // namespace ibid
