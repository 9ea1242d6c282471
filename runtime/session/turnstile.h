// Turnstile: holds a session for the length of a call, or fails with kBusy, because a session runs one call at a
// time. Any thread may try: the one that finds the session free has it.
#pragma once

#include "base/result.h"
#include "runtime/session/session_state.h"

namespace ibid {

// Whether work in idle time ends when a call begins.
enum class IdleWork { kEnds, kGoesOn };

class Turnstile {
 public:
  // A template because the state of a session is its own.
  template <typename State>
  explicit Turnstile(State& state, IdleWork idle = IdleWork::kEnds)
      : process_(state.engine->check_process()), busy_(state.busy) {
    open_ = process_.ok() && !busy_.exchange(true);
    if (open_ && idle == IdleWork::kEnds) state.stop_idle_work();
  }
  ~Turnstile() {
    if (open_) busy_.store(false);
  }
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;

  // Errors: kBusy; kUnsupported in a child of fork().
  Status status() const {
    if (open_) return {};
    TRY(process_);
    return {ErrorCode::kBusy, "the session is in the middle of a turn; it runs one at a time"};
  }

 private:
  const Status process_;
  std::atomic<bool>& busy_;
  bool open_ = false;
};

}  // namespace ibid
