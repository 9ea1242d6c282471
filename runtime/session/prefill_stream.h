// PrefillStream: ChatSession::prefill() for callers that poll instead of waiting. It starts with the object; the waker
// is rung when it is over. Until finish() the session is busy; it must outlive the stream. For one thread at a time.
#pragma once

#include <memory>
#include <stop_token>

#include "base/result.h"
#include "ibid/turn.h"
#include "ibid/usage.h"
#include "ibid/waker.h"
#include "runtime/session/session_state.h"

namespace ibid {

class PrefillStream {
 public:
  PrefillStream(ChatSession& session, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker);
  ~PrefillStream();  // cancels, and waits for the end
  PrefillStream(PrefillStream&&) noexcept;
  PrefillStream& operator=(PrefillStream&&) = delete;

  // The start of the prefill: n_prompt tokens, of which n_cached are cached. nullptr: the prefill could not begin, or
  // there is nothing to prefill.
  const Usage* begun() const;
  bool is_over() const;
  // Waits for the end and returns the result of prefill(). REQUIRES: called once.
  Result<Usage> finish();

 private:
  struct Parts;
  Status begin(ChatSession& session, Priority priority, std::stop_token stop, std::shared_ptr<Waker> waker);

  std::unique_ptr<Parts> parts_;  // null: the prefill is over
  Status status_;                 // not ok: the prefill could not begin
};

}  // namespace ibid
