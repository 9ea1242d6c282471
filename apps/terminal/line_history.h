// LineHistory: the messages that were sent, newest last, and the file that keeps them between runs.
//
// The file has one message per line, with newlines escaped as
// and backslashes as \\. Several processes may use it at once: each appends under a lock, and a process that finds the
// file larger than kMaxBytes rewrites it with the newest messages. The file has mode 0600. If it cannot be read or
// written, only the history is lost.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

class LineHistory {
 public:
  static constexpr size_t kMaxEntries = 1000;
  static constexpr size_t kMaxBytes = 1'000'000;  // limit for the file, and for the entries in memory

  // Reads the file if it exists. path: if empty, the history is only in memory.
  explicit LineHistory(std::string path = {});

  // Adds a sent message. Ignores an empty message and a repetition of the previous one.
  void add(std::string_view entry);
  const std::vector<std::string>& entries() const { return entries_; }

 private:
  void read();
  void append(std::string_view entry) const;

  std::string path_;
  std::vector<std::string> entries_;
};

// Returns $IBID_HISTORY (if set but empty, no file is used), else $XDG_STATE_HOME/ibid/history, else
// ~/.local/state/ibid/history.
std::string line_history_path();

}  // namespace ibid
