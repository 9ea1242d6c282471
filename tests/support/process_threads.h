// How many threads this process has.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>

namespace ibid {

// Whether the system has begun to take that thread away: whoever joined it may go on a good while before it is gone
// (PF_EXITING among the flags of proc(5)). `task`: its directory below /proc/self/task.
inline bool thread_is_ending(const std::filesystem::path& task) {
  constexpr unsigned long kExiting = 0x4;
  std::ifstream file(task / "stat");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return true;  // gone since
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i) fields >> skipped;  // state, parent, group, session, terminal, its group
  unsigned long flags = 0;
  fields >> flags;
  return (flags & kExiting) != 0;
}

// Those that are not about to end. A first thread is made before: a sanitizer's own comes with it, and stays.
inline size_t n_threads_here() {
  static const bool has_made_one = (std::thread([] {}).join(), true);
  (void)has_made_one;
  size_t n = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) n += thread_is_ending(task) ? 0 : 1;
  return n;
}

}  // namespace ibid
