// MemoryFileOps: a file system in memory that knows what of it is durable: bytes once their file was synced, names once
// their directory was. after_power_loss() makes what could be left of it: any subset of the other writes, lost, kept or
// torn, and any subset of the other creations, renames and removals.
//
// Like a file system that promises no order at all: what is left may hold a later change without an earlier one.
// Directories are durable when made, and locks go with the process. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/file_ops.h"

namespace ibid {

class MemoryFileOps : public FileOps {
 public:
  MemoryFileOps() = default;
  ~MemoryFileOps() override;

  // One of the states that a power loss at this moment could leave, all of it durable.
  std::unique_ptr<MemoryFileOps> after_power_loss(std::mt19937_64& rng) const;

  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override;
  Result<std::unique_ptr<File>> create(const std::string& path) override;
  Result<std::unique_ptr<File>> create_new(const std::string& path) override;
  Result<FileInfo> info(const std::string& path) override;
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status make_directory(const std::string& path) override;
  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override;
  Status sync_directory(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& path) override;

 private:
  struct Inode;
  struct OpenFile;
  struct Lock;
  struct OpenDirectory;
  using Names = std::map<std::string, std::shared_ptr<Inode>>;
  struct Change {  // of names, not durable yet: `from` empty for a creation, `to` empty for a removal
    std::string from, to;
    std::shared_ptr<Inode> inode;
  };
  static void apply(const Change& change, Names& names);
  void change(Change change);
  Result<std::unique_ptr<File>> add(const std::string& path);
  Status set_mtime(const std::string& path, int64_t mtime_ns);

  mutable std::mutex mutex_;
  Names names_, durable_names_;
  std::vector<Change> changes_;
  std::set<std::string> directories_, locked_;
};

}  // namespace ibid
