#include "base/file_ops.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/system_files.h"

namespace ibid {

namespace {

// A path relative to the working directory of the process.
NameAt here(const std::string& path) { return {AT_FDCWD, path, path}; }

Status make_parents(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::path parent = path.parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  return error ? errno_status(error.value(), path.string(), "make the directory") : Status();
}

class SystemFileOps : public FileOps {
 public:
  Result<std::unique_ptr<File>> open_to_read(const std::string& path) override {
    return open_regular(here(path), Links::kFollow);
  }

  Result<std::unique_ptr<File>> create(const std::string& path) override { return create_file(here(path), O_TRUNC); }

  Result<std::unique_ptr<File>> create_new(const std::string& path) override { return create_file(here(path), O_EXCL); }

  Result<FileInfo> info(const std::string& path) override { return file_info(here(path)); }

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override { return lock_file(here(path)); }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) return errno_status(errno, from, "rename to " + to);
    return {};
  }

  Status remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0 && errno != ENOENT) return errno_status(errno, path, "remove");
    return {};
  }

  Status make_directory(const std::string& path) override {
    TRY(make_parents(path));
    if (::mkdir(path.c_str(), S_IRWXU) == 0) return {};
    if (errno != EEXIST) return errno_status(errno, path, "make the directory");
    std::error_code error;
    if (!std::filesystem::is_directory(path, error)) return errno_status(ENOTDIR, path, "make the directory");
    return {};
  }

  Result<std::unique_ptr<Directory>> open_directory(const std::string& path) override {
    // Remove a trailing slash or dot, which would make the kernel follow a symlink.
    std::filesystem::path itself(path);
    while (itself.has_relative_path() && (!itself.has_filename() || itself.filename() == ".")) {
      if (itself == ".") break;
      itself = itself.parent_path();
    }
    TRY(make_parents(itself));
    return open_private_directory(here(itself.string()));
  }

  Status sync_directory(const std::string& path) override {
    const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno_status(errno, path, "open the directory");
    const int error = ::fsync(fd) != 0 ? errno : 0;
    ::close(fd);
    if (error != 0) return errno_status(error, path, "sync the directory");
    return {};
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    std::error_code error;
    std::vector<std::string> names;
    std::filesystem::directory_iterator entry(path, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
      names.push_back(entry->path().filename().string());
    }
    if (error) return errno_status(error.value(), path, "list");
    std::sort(names.begin(), names.end());
    return names;
  }
};

// Maximum number of random names to try while the name already exists. With 64 random bits one would suffice.
constexpr int kMaxNames = 16;

// Returns a random number. If the system has no source of randomness, returns one that no running process repeats.
uint64_t unused_number() {
  uint64_t number = 0;
  if (::getentropy(&number, sizeof(number)) == 0) return number;
  // The process id and a counter: create_temporary() tries the next number if a file with this name exists.
  static std::atomic<uint64_t> n_calls{0};
  return (static_cast<uint64_t>(::getpid()) << 32) + n_calls++;
}

// Refuses devices and streams such as /dev/stdout: replacing them by a file would remove them for all programs.
Status check_replaceable(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(path, error);
  const bool is_stream = std::filesystem::read_symlink(path, error).string().starts_with("/proc/");
  if (!std::filesystem::exists(there) || (std::filesystem::is_regular_file(there) && !is_stream)) return {};
  return {ErrorCode::kNotRegularFile, path + ": exists and is not a regular file; only regular files are replaced"};
}

Status write_and_sync(File& file, std::span<const std::byte> bytes) {
  TRY(file.write(bytes));
  TRY(file.sync());
  return file.close();
}

}  // namespace

Status errno_status(int error_number, std::string_view path, std::string_view action) {
  return {ErrorCode::kIo,
          std::string(path) + ": cannot " + std::string(action) + ": " + std::generic_category().message(error_number)};
}

FileOps& system_file_ops() {
  static SystemFileOps files;
  return files;
}

Result<TemporaryFile> create_temporary(FileOps& files, const std::string& path) {
  TRY(check_replaceable(path));
  for (int i = 1;; ++i) {
    std::array<char, 24> suffix{};
    std::snprintf(suffix.data(), suffix.size(), ".%016llx.tmp", static_cast<unsigned long long>(unused_number()));
    TemporaryFile temporary{path + suffix.data(), nullptr};
    Result<std::unique_ptr<File>> file = files.create_new(temporary.path);
    if (!file.ok() && (file.status().code() != ErrorCode::kDuplicate || i == kMaxNames)) return file.status();
    if (!file.ok()) continue;
    temporary.file = *std::move(file);
    return temporary;
  }
}

Status write_file_atomically(FileOps& files, const std::string& path, std::span<const std::byte> bytes) {
  TRY_ASSIGN(const TemporaryFile temporary, create_temporary(files, path));
  Status status = write_and_sync(*temporary.file, bytes);
  if (status.ok()) status = files.rename(temporary.path, path);
  if (!status.ok()) {
    // Best effort: if remove() fails as well, the caller still gets the first error.
    static_cast<void>(files.remove(temporary.path));
    return status;
  }
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return files.sync_directory(parent.empty() ? "." : parent);
}

Result<std::string> read_file(FileOps& files, const std::string& path, uint64_t max_bytes) {
  TRY_ASSIGN(const std::unique_ptr<File> file, files.open_to_read(path));
  TRY_ASSIGN(const uint64_t size, file->size());
  if (size > max_bytes) {
    return Status(ErrorCode::kLimitExceeded,
                  path + ": " + std::to_string(size) + " bytes, at most " + std::to_string(max_bytes) + " are allowed");
  }
  std::string text(static_cast<size_t>(size), '\0');
  TRY_ASSIGN(const size_t n, file->read_at(0, std::as_writable_bytes(std::span(text))));
  text.resize(n);
  return text;
}

}  // namespace ibid
