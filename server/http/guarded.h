// The last line of defence of a thread: what is thrown ends here, and not the process. Libraries throw where memory is
// short, and one client's lack of it is not everybody's.
#pragma once

#include <utility>

namespace ibid::http {

// Calls `task`. False: it threw. What it threw is not looked at, because it may quote a client.
template <typename Task>
bool guarded(Task&& task) noexcept {
  try {
    std::forward<Task>(task)();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace ibid::http
