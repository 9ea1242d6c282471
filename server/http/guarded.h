// Stops exceptions at the top of a thread, so that they do not end the process. Libraries throw if memory is short, and
// a shortage that one client caused must not end the requests of all clients.
#pragma once

#include <utility>

namespace ibid::http {

// Calls `task`. Returns false if it threw. The exception is not logged, because its message may quote text from a
// client.
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
