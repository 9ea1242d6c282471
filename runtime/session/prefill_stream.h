// PrefillStream: ChatSession::prefill() that is looked at from time to time, where a thread that waits does not fit. It
// begins with the object; the bell rings when it is over. Until finish() the session is busy, and it must outlive the
// stream. For one thread at a time.
#pragma once

#include <memory>
#include <stop_token>

#include "base/result.h"
#include "ibid/bell.h"
#include "ibid/turn.h"
#include "ibid/usage.h"
#include "runtime/session/session_state.h"

namespace ibid {

class PrefillStream {
 public:
  PrefillStream(ChatSession& session, Priority priority, std::stop_token stop, std::shared_ptr<Bell> bell);
  ~PrefillStream();  // cancels, and waits for the end
  PrefillStream(PrefillStream&&) noexcept;
  PrefillStream& operator=(PrefillStream&&) = delete;

  // What is known at the beginning: of n_prompt ids, n_cached are there. nullptr: it could not begin, or there is
  // nothing to read.
  const Usage* begun() const;
  bool is_over() const;
  // What prefill() returns; waits for the end. REQUIRES: called once.
  Result<Usage> finish();

 private:
  struct Parts;
  Status begin(ChatSession& session, Priority priority, std::stop_token stop, std::shared_ptr<Bell> bell);

  std::unique_ptr<Parts> parts_;  // null: it is over
  Status status_;                 // not ok: it could not begin
};

}  // namespace ibid
