#include "apps/terminal/line_history.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/file_ops.h"
#include "base/user_folders.h"
#include "base/write_all.h"

namespace ibid {
namespace {

std::string in_one_line(std::string_view entry) {
  std::string line;
  for (const char c : entry) {
    if (c == '\\') {
      line += "\\\\";
    } else if (c == '\n') {
      line += "\\n";
    } else {
      line += c;
    }
  }
  return line + "\n";
}

std::string from_one_line(std::string_view line) {
  std::string entry;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool escape = line[i] == '\\' && i + 1 < line.size();
    if (escape) ++i;
    entry += escape && line[i] == 'n' ? '\n' : line[i];
  }
  return entry;
}

std::vector<std::string> entries_of(std::string_view content) {
  std::vector<std::string> entries;
  while (!content.empty()) {
    const size_t end = content.find('\n');
    if (end == std::string_view::npos) break;  // skips an incomplete last line
    if (end > 0) entries.push_back(from_one_line(content.substr(0, end)));
    content.remove_prefix(end + 1);
  }
  return entries;
}

// Drops the oldest entries until at most max_entries entries and max_bytes bytes are left.
void keep_newest(std::vector<std::string>& entries, size_t max_entries, size_t max_bytes) {
  size_t bytes = 0, kept = 0;
  while (kept < entries.size() && kept < max_entries) {
    bytes += in_one_line(entries[entries.size() - 1 - kept]).size();
    if (bytes > max_bytes) break;
    ++kept;
  }
  entries.erase(entries.begin(), entries.end() - static_cast<ptrdiff_t>(kept));
}

// Opens and locks the file; returns -1 on failure. Opens the file again if another process replaced it before it was
// locked.
int open_locked(const std::string& path) {
  for (int attempt = 0; attempt < 10; ++attempt) {
    const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0600);
    if (fd < 0) return -1;
    struct stat opened {
    }, there{};
    const bool locked = fstat(fd, &opened) == 0 && S_ISREG(opened.st_mode) && flock(fd, LOCK_EX) == 0;
    if (locked && stat(path.c_str(), &there) == 0 && there.st_ino == opened.st_ino) return fd;
    close(fd);
    if (!locked) return -1;
  }
  return -1;
}

}  // namespace

LineHistory::LineHistory(std::string path) : path_(std::move(path)) {
  if (!path_.empty()) read();
}

void LineHistory::read() {
  // Allow more than kMaxBytes, because the file may exceed the limit until a process trims it.
  const Result<std::string> content = read_file(system_file_ops(), path_, 2 * kMaxBytes + kMaxBytes);
  if (!content.ok()) return;
  entries_ = entries_of(*content);
  keep_newest(entries_, kMaxEntries, kMaxBytes);
}

void LineHistory::add(std::string_view entry) {
  if (entry.empty() || (!entries_.empty() && entries_.back() == entry)) return;
  if (in_one_line(entry).size() > kMaxBytes) return;
  entries_.emplace_back(entry);
  keep_newest(entries_, kMaxEntries, kMaxBytes);
  if (!path_.empty()) append(entry);
}

void LineHistory::append(std::string_view entry) const {
  const std::string directory = std::filesystem::path(path_).parent_path().string();
  if (!directory.empty() && !system_file_ops().make_directory(directory).ok()) return;
  const int fd = open_locked(path_);
  if (fd < 0) return;
  struct stat file {};
  // Start a new line if the last line is incomplete.
  std::string line = in_one_line(entry);
  char last = '\n';
  if (fstat(fd, &file) == 0 && file.st_size > 0 && pread(fd, &last, 1, file.st_size - 1) == 1 && last != '\n') {
    line.insert(0, "\n");
  }
  const bool written = write_all(fd, line);
  if (written && static_cast<size_t>(file.st_size) + line.size() > 2 * kMaxBytes) {
    const Result<std::string> content = read_file(system_file_ops(), path_, 4 * kMaxBytes);
    if (content.ok()) {
      std::vector<std::string> entries = entries_of(*content);
      keep_newest(entries, kMaxEntries, kMaxBytes);
      std::string newest;
      for (const std::string& kept : entries) newest += in_one_line(kept);
      // Replace the file. Processes that wait for its lock detect the replacement.
      (void)write_file_atomically(system_file_ops(), path_, std::as_bytes(std::span(newest)));
    }
  }
  close(fd);
}

std::string line_history_path() {
  if (const char* path = std::getenv("IBID_HISTORY")) return path;
  const Result<std::string> state = user_folder(UserFolder::kState);
  return state.ok() ? *state + "/history" : "";
}

}  // namespace ibid
