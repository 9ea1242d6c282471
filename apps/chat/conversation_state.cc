#include "apps/chat/conversation_state.h"

#include <string>
#include <utility>

namespace ibid {
namespace {

constexpr size_t kMaxBranches = 100;

}  // namespace

ConversationState::ConversationState(std::unique_ptr<Talk> talk, ConversationOptions options, Screen& where)
    : branches(std::move(talk)),
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
      note("there are more than " + std::to_string(kMaxBranches) + " branches: the oldest is forgotten");
    }
  }
  if (!kept) return branches.is_kept();
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

}  // namespace ibid
