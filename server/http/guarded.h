// Stops exceptions at the top of a thread, so that they do not end the process. Libraries throw if memory is short, and
// a shortage for one client must not end all of them.
#pragma once

#include <utility>

namespace ibid::http {

// Calls `task`. Returns false if it threw. The exception is dropped and not logged, because its message may quote a
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
