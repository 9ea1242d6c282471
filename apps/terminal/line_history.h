// The messages that were sent before, newest last, and the file that keeps them for the next start of the program.
//
// The file has a message a line, newlines written as \n and backslashes as \\. Any number of processes may
// have it open: each adds its own under a lock, and one that finds it grown beyond its bounds writes the
// newest part anew. It is the user's alone (0600). A file that cannot be read or written costs its lines, and
// nothing else.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class LineHistory {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxBytes = 1'000'000;  // of the file, and of the entries in memory

  // path: empty keeps nothing beyond the process. An existing file is read now.
  explicit LineHistory(std::string path = {});

  // A message that was sent. One that is empty, or that came just before, is not kept twice.
  void add(std::string_view entry);
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  void read();
  void append(std::string_view entry) const;

  std::string path_;
  std::vector<std::string> entries_;
};

// $IBID_HISTORY (empty: none), else $XDG_STATE_HOME/ibid/history, else ~/.local/state/ibid/history.
std::string line_history_path();

}  // namespace ibid
