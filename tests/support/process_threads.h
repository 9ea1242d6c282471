// How many threads this process has.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <thread>

namespace ibid {

// Now, those included that have been joined and are about to be gone.
inline size_t n_threads_here() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

// Once nothing has changed for a moment. A first thread is made before: a sanitizer's own comes with it, and stays.
inline size_t n_threads_at_rest() {
  std::thread([] {}).join();
  size_t n = n_threads_here();
  for (int unchanged = 0; unchanged < 5;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const size_t now = n_threads_here();
    unchanged = now == n ? unchanged + 1 : 0;
    n = now;
  }
  return n;
}

}  // namespace ibid
