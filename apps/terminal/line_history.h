// LineHistory: the sent messages, newest last, and the file that keeps them between runs.
//
// The file has one message per line, with newlines escaped as \n and backslashes as \\. Several processes may use it at
// once: each appends under a lock, and one that finds the file over its bounds rewrites it with the newest part. Its
// mode is 0600. If it cannot be read or written, history is lost and nothing else fails.
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

  // Reads an existing file. path: empty keeps the history in memory only.
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

// $IBID_HISTORY (empty: none), else $XDG_STATE_HOME/ibid/history, else ~/.local/state/ibid/history.
std::string line_history_path();

}  // namespace ibid
