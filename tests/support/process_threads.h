// Counts the threads of this process.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace ibid {

// True if the thread is exiting or may exit at any time. The kernel removes threads some time after they were joined
// (PF_EXITING in the flags of proc(5)), and the SCHED_IDLE thread of a destroyed IdleTime ends only when a processor is
// idle. task: the thread's directory in /proc/self/task.
inline bool thread_is_ending(const std::filesystem::path& task) {
  constexpr unsigned long kExiting = 0x4, kIdleClass = 5;
  std::ifstream file(task / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return true;  // the thread has ended since
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i) fields >> skipped;  // state, parent, group, session, terminal, its group
  unsigned long flags = 0, policy = 0;
  fields >> flags;
  for (int i = 0; i < 31; ++i) fields >> skipped;  // fields before the real-time priority
  fields >> policy;
  return (flags & kExiting) != 0 || policy == kIdleClass;
}

// Returns the number of threads that are not ending. Creates one thread first, because a sanitizer starts its own
// thread together with the first one.
inline size_t n_threads_here() {
  static const bool has_made_one = (std::thread([] {}).join(), true);
  (void)has_made_one;
  size_t n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) n += thread_is_ending(task) ? 0 : 1;
  return n;
}

}  // namespace ibid
