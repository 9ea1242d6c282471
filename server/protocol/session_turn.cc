#include "server/protocol/session_turn.h"

#include <utility>

#include "runtime/session/turn_reply.h"

namespace ibid::serve {

SessionTurn::SessionTurn(std::shared_ptr<SessionStore> sessions, std::string cache_namespace, std::string id,
                         Json messages, std::shared_ptr<AnswerListener> inner)
    : session_(std::move(sessions), std::move(cache_namespace), std::move(id)), messages_(std::move(messages)),
      inner_(std::move(inner)) {}

std::stop_token SessionTurn::stop_with(const std::stop_token& gone, const std::stop_token& removed) {
  on_gone_.emplace(gone, RequestStop{stop_});
  on_removed_.emplace(removed, RequestStop{stop_});
  return stop_.get_token();
}

void SessionTurn::answer(size_t i, const Answer& answer) {
  if (i == 0) {
    messages_.push_back(message_of_answer(answer));
    is_answered_ = true;
  }
  inner_->answer(i, answer);
}

void SessionTurn::end(const Status& status) {
  Status all = status;
  if (status.ok() && is_answered_) {
    // The answer is part of the session before anybody hears that it is over: the next request may come at once.
    const MaybeFault fault = session_.commit(std::move(messages_));
    if (fault) all = Status(ErrorCode::kOutOfMemory, fault->message);
  } else {
    session_.release();
  }
  inner_->end(all);
}

}  // namespace ibid::serve
