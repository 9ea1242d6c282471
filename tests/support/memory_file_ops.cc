#include "tests/support/memory_file_ops.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace ibid {

namespace {

using Bytes = std::vector<std::byte>;

std::string directory_of(const std::string& path) { return path.substr(0, path.find_last_of('/')); }

Status not_found(const std::string& path) { return {ErrorCode::kNotFound, path + ": does not exist"}; }

}  // namespace

struct MemoryFileOps::Inode {
  Bytes bytes;
  size_t durable_bytes = 0;    // files are only appended to
  std::vector<size_t> writes;  // end of each write after durable_bytes
  int64_t mtime_ns = 0;

  // Returns the file as after a power loss: of each write after the durable bytes nothing, a prefix or all is kept;
  // lost bytes before kept ones read as zeros.
  std::shared_ptr<Inode> after_power_loss(std::mt19937_64& rng) const {
    auto left = std::make_shared<Inode>();
    left->bytes.assign(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(durable_bytes));
    left->mtime_ns = mtime_ns;
    size_t begin = durable_bytes;
    for (const size_t end : writes) {
      const uint64_t fate = rng() % 3;
      const size_t kept = fate == 0 ? begin : fate == 1 ? end : begin + rng() % (end - begin + 1);
      if (kept > begin) {
        left->bytes.resize(begin);
        left->bytes.insert(left->bytes.end(), bytes.begin() + static_cast<ptrdiff_t>(begin),
                           bytes.begin() + static_cast<ptrdiff_t>(kept));
      }
      // The size of a file is stored separately from its bytes, so it may be kept although bytes are lost.
      if (rng() % 2 == 0) left->bytes.resize(std::max(left->bytes.size(), end));
      begin = end;
    }
    left->durable_bytes = left->bytes.size();
    return left;
  }
};

struct MemoryFileOps::OpenFile : File {
  OpenFile(std::shared_ptr<Inode> opened, std::mutex& owner) : inode(std::move(opened)), mutex(owner) {}

  Result<size_t> read_at(uint64_t offset, std::span<std::byte> out) override {
    const std::lock_guard lock(mutex);
    if (offset >= inode->bytes.size()) return size_t{0};
    const size_t n = std::min<size_t>(out.size(), inode->bytes.size() - static_cast<size_t>(offset));
    std::memcpy(out.data(), inode->bytes.data() + offset, n);
    return n;
  }
  Status write(std::span<const std::byte> bytes) override {
    const std::lock_guard lock(mutex);
    inode->bytes.insert(inode->bytes.end(), bytes.begin(), bytes.end());
    inode->writes.push_back(inode->bytes.size());
    return {};
  }
  Status sync() override {
    const std::lock_guard lock(mutex);
    inode->durable_bytes = inode->bytes.size();
    inode->writes.clear();
    return {};
  }
  Result<uint64_t> size() override {
    const std::lock_guard lock(mutex);
    return uint64_t{inode->bytes.size()};
  }
  Status close() override { return {}; }

  std::shared_ptr<Inode> inode;
  std::mutex& mutex;
};

struct MemoryFileOps::Lock : FileLock {
  Lock(MemoryFileOps& owner, std::string locked) : files(owner), path(std::move(locked)) {}
  ~Lock() override {
    const std::lock_guard lock(files.mutex_);
    files.locked_.erase(path);
  }
  MemoryFileOps& files;
  const std::string path;
};

// An open directory is only its path, which stays valid, because directories are never moved or removed here.
struct MemoryFileOps::OpenDirectory : Directory {
  OpenDirectory(MemoryFileOps& owner, std::string opened) : files(owner), path(std::move(opened)) {}

  std::string at(const std::string& name) const { return path + "/" + name; }
  Result<std::unique_ptr<File>> open_to_read(const std::string& name) override { return files.open_to_read(at(name)); }
  Result<std::unique_ptr<File>> create_new(const std::string& name) override { return files.create_new(at(name)); }
  Result<std::unique_ptr<Directory>> open_directory(const std::string& name) override {
    return files.open_directory(at(name));
  }
  Result<FileInfo> info(const std::string& name) override { return files.info(at(name)); }
  Status set_mtime(const std::string& name, int64_t mtime_ns) override { return files.set_mtime(at(name), mtime_ns); }
  Result<std::unique_ptr<FileLock>> lock(const std::string& name) override { return files.lock(at(name)); }
  Status rename(const std::string& name, Directory& to, const std::string& new_name) override {
    return files.rename(at(name), static_cast<OpenDirectory&>(to).at(new_name));
  }
  Status remove(const std::string& name) override { return files.remove(at(name)); }
  Status sync() override { return files.sync_directory(path); }
  Result<std::vector<std::string>> list() override { return files.list(path); }

  MemoryFileOps& files;
  const std::string path;
};

MemoryFileOps::~MemoryFileOps() = default;

void MemoryFileOps::apply(const Change& change, Names& names) {
  if (!change.to.empty()) names[change.to] = change.inode;  // done first, because this insertion may throw
  if (!change.from.empty()) {
    // If an earlier change was lost, the name may be missing, or be that of another file.
    const auto found = names.find(change.from);
    if (found != names.end() && found->second == change.inode) names.erase(found);
  }
}

void MemoryFileOps::change(Change change) {
  changes_.reserve(changes_.size() + 1);
  apply(change, names_);
  changes_.push_back(std::move(change));
}

std::unique_ptr<MemoryFileOps> MemoryFileOps::after_power_loss(std::mt19937_64& rng) const {
  const std::lock_guard lock(mutex_);
  auto left = std::make_unique<MemoryFileOps>();
  left->directories_ = directories_;
  Names names = durable_names_;
  for (const Change& change : changes_) {
    if (rng() % 2 == 0) apply(change, names);
  }
  for (const auto& [path, inode] : names) left->names_[path] = inode->after_power_loss(rng);
  left->durable_names_ = left->names_;
  return left;
}

Result<std::unique_ptr<File>> MemoryFileOps::open_to_read(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return not_found(path);
  return std::unique_ptr<File>(std::make_unique<OpenFile>(found->second, mutex_));
}

Result<std::unique_ptr<File>> MemoryFileOps::add(const std::string& path) {
  if (!directories_.contains(directory_of(path))) return errno_status(ENOENT, path, "create");
  auto inode = std::make_shared<Inode>();
  change({"", path, inode});
  return std::unique_ptr<File>(std::make_unique<OpenFile>(std::move(inode), mutex_));
}

Result<std::unique_ptr<File>> MemoryFileOps::create(const std::string& path) {
  const std::lock_guard lock(mutex_);
  return add(path);
}

Result<std::unique_ptr<File>> MemoryFileOps::create_new(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (names_.contains(path)) return Status(ErrorCode::kDuplicate, path + ": already exists");
  return add(path);
}

Result<FileInfo> MemoryFileOps::info(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (directories_.contains(path)) return FileInfo{FileKind::kDirectory, 0, 0};
  const auto found = names_.find(path);
  if (found == names_.end()) return not_found(path);
  return FileInfo{FileKind::kRegular, found->second->bytes.size(), found->second->mtime_ns};
}

Status MemoryFileOps::set_mtime(const std::string& path, int64_t mtime_ns) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found == names_.end()) return errno_status(ENOENT, path, "set the time");
  found->second->mtime_ns = mtime_ns;
  return {};
}

Result<std::unique_ptr<FileLock>> MemoryFileOps::lock(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (!locked_.insert(path).second) return Status(ErrorCode::kBusy, path + ": another process has the lock");
  return std::unique_ptr<FileLock>(std::make_unique<Lock>(*this, path));
}

Status MemoryFileOps::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(from);
  if (found == names_.end()) return errno_status(ENOENT, from, "rename");
  change({from, to, found->second});
  return {};
}

Status MemoryFileOps::remove(const std::string& path) {
  const std::lock_guard lock(mutex_);
  const auto found = names_.find(path);
  if (found != names_.end()) change({path, "", found->second});
  return {};
}

Status MemoryFileOps::make_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  directories_.insert(path);
  return {};
}

Result<std::unique_ptr<Directory>> MemoryFileOps::open_directory(const std::string& path) {
  TRY(make_directory(path));
  return std::unique_ptr<Directory>(std::make_unique<OpenDirectory>(*this, path));
}

Status MemoryFileOps::sync_directory(const std::string& path) {
  const std::lock_guard lock(mutex_);
  std::vector<Change> others;
  for (Change& change : changes_) {
    if (directory_of(change.to.empty() ? change.from : change.to) == path) {
      apply(change, durable_names_);
    } else {
      others.push_back(std::move(change));
    }
  }
  changes_ = std::move(others);
  return {};
}

Result<std::vector<std::string>> MemoryFileOps::list(const std::string& path) {
  const std::lock_guard lock(mutex_);
  if (!directories_.contains(path)) return errno_status(ENOENT, path, "list");
  std::vector<std::string> names;
  for (const auto& [file, inode] : names_) {
    if (directory_of(file) == path) names.push_back(file.substr(path.size() + 1));
  }
  for (const std::string& directory : directories_) {
    if (directory != path && directory_of(directory) == path) names.push_back(directory.substr(path.size() + 1));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace ibid
