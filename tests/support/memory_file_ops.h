// MemoryFileOps: a file system in memory that tracks durability: bytes are durable once their file was synced, names
// once their directory was. after_power_loss() returns a possible state after a power loss. Each write that is not
// durable is lost, kept or torn, and any subset of the other creations, renames and removals is kept.
//
// As in a file system that does not order its writes, a later change may be kept without an earlier one. Directories
// are durable when created, and locks are lost with the process. Thread-safe.
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

  // Returns a random state that a power loss now could leave. Everything in it is durable.
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
  struct Change {  // a change of a name that is not durable yet; `from` is empty for a creation, `to` for a removal
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
