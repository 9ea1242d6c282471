#include "base/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/file_ops.h"
#include "base/memory_marks.h"
#include "base/utf8.h"

namespace ibid {

namespace {

int64_t mtime_ns_of(const struct stat& info) {
  return static_cast<int64_t>(info.st_mtim.tv_sec) * 1'000'000'000 + info.st_mtim.tv_nsec;
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

// slack_of() returns how many bytes of a file's last page are after its end: mapped and zero, but not part of the file.
constexpr size_t kPageBytes = 4096;
size_t slack_of(size_t size) { return (kPageBytes - size % kPageBytes) % kPageBytes; }

}  // namespace

bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= NAME_MAX &&
         name.find_first_of(std::string_view("/\0", 2)) == std::string::npos;
}

Result<MappedFile> MappedFile::open(const std::string& path) {
  MappedFile file;
  file.path_ = path;
  // O_NONBLOCK, because opening a FIFO would otherwise wait for a writer forever.
  file.fd_ = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file.fd_ < 0) return errno_status(errno, path, "open");
  return map(std::move(file));
}

Result<MappedFile> MappedFile::open_in(const std::string& directory, const std::string& name, bool follow_symlinks) {
  if (!is_plain_name(name)) {
    return Status(ErrorCode::kUnsafePath,
                  directory + ": '" + utf8_sanitize(name.substr(0, NAME_MAX)) + "' is not a plain file name");
  }
  MappedFile file;
  file.path_ = directory + "/" + name;
  const int directory_fd = ::open(directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (directory_fd < 0) return errno_status(errno, directory, "open");
  const int no_follow = follow_symlinks ? 0 : O_NOFOLLOW;
  file.fd_ = ::openat(directory_fd, name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC | no_follow);
  const int error = errno;
  ::close(directory_fd);
  if (file.fd_ >= 0) return map(std::move(file));
  if (error == ENOENT) return Status(ErrorCode::kNotFound, file.path_ + ": does not exist");
  if (error == ELOOP && !follow_symlinks) {
    return Status(ErrorCode::kUnsafePath, file.path_ + ": is a symlink, and symlinks are not followed");
  }
  return errno_status(error, file.path_, "open");
}

Result<MappedFile> MappedFile::map(MappedFile file) {
  const std::string& path = file.path_;
  struct stat info {};
  if (::fstat(file.fd_, &info) != 0) return errno_status(errno, path, "stat");
  if (!S_ISREG(info.st_mode)) {
    return Status(ErrorCode::kNotRegularFile,
                  path + ": is " + std::string(kind_of(info.st_mode)) + ", expected a regular file");
  }
  if (info.st_size == 0) return Status(ErrorCode::kTruncated, path + ": the file is empty");
  const auto size = static_cast<size_t>(info.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.fd_, 0);
  if (data == MAP_FAILED) return errno_status(errno, path, "map");
  // With huge pages the kernel reads ahead by megabytes, whatever the default of the disk, and maps the file with fewer
  // page faults. If the kernel or the file system has no huge pages for files, madvise() fails or has no effect.
  ::madvise(data, size, MADV_HUGEPAGE);
  file.data_ = static_cast<const std::byte*>(data);
  file.size_ = size;
  file.mtime_ns_ = mtime_ns_of(info);
  file.guard_ = MappingGuard(file.data_, size);
  forbid_memory(file.data_ + size, slack_of(size));
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mtime_ns_(other.mtime_ns_),
      guard_(std::move(other.guard_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(mtime_ns_, other.mtime_ns_);
  std::swap(guard_, other.guard_);
  return *this;
}

MappedFile::~MappedFile() {
  guard_ = MappingGuard();  // destroyed before the mapping is removed
  if (data_ != nullptr) {
    allow_memory(data_ + size_, slack_of(size_));
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
  if (fd_ >= 0) ::close(fd_);
}

void MappedFile::release(std::span<const std::byte> part) const {
  const auto begin = reinterpret_cast<uintptr_t>(part.data());
  const auto own = reinterpret_cast<uintptr_t>(data_);
  if (begin < own || part.size() > size_ || begin - own > size_ - part.size()) return;
  constexpr uintptr_t kPage = 4096;  // if pages are larger, madvise may reject the range, and nothing is freed
  const uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const uintptr_t last = (begin + part.size()) / kPage * kPage;
  if (first < last) ::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

Result<Sha256Digest> MappedFile::digest(const std::stop_token& stop) const {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  std::vector<std::byte> piece(std::min(size_, kPieceBytes));
  Sha256 hash;
  for (size_t offset = 0; offset < size_;) {
    if (stop.stop_requested()) return Status(ErrorCode::kCancelled, path_ + ": hashing was cancelled");
    const ssize_t n = ::pread(fd_, piece.data(), std::min(piece.size(), size_ - offset), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno_status(errno, path_, "read");
    if (n == 0) return Status(ErrorCode::kChangedOnDisk, path_ + ": was truncated while it was read");
    hash.update(std::span(piece).first(static_cast<size_t>(n)));
    offset += static_cast<size_t>(n);
  }
  TRY(check_unchanged());
  return hash.finish();
}

Status MappedFile::check_unchanged() const {
  struct stat info {};
  if (::fstat(fd_, &info) != 0) return errno_status(errno, path_, "stat");
  if (static_cast<size_t>(info.st_size) != size_) {
    return {ErrorCode::kChangedOnDisk, path_ + ": had " + std::to_string(size_) +
                                           " bytes when it was opened, now has " + std::to_string(info.st_size)};
  }
  if (mtime_ns_of(info) != mtime_ns_) {
    return {ErrorCode::kChangedOnDisk, path_ + ": was modified after it was opened"};
  }
  if (guard_.lost()) return {ErrorCode::kIo, path_ + ": read error: a part of the file could not be read from disk"};
  return {};
}

// A guarded mapping. The signal handler reads it on the faulting thread, so all fields are atomic. A slot is free if
// `end` is 0; slots are reused and never deleted.
struct MappingGuard::Slot {
  std::atomic<uintptr_t> begin = 0;
  std::atomic<uintptr_t> end = 0;
  std::atomic<bool> lost = false;
  Slot* next = nullptr;  // constant once the slot is in the list
};
static_assert(std::atomic<uintptr_t>::is_always_lock_free, "a signal handler must not wait for a lock");

struct MappingGuard::Registry {
  static inline std::atomic<Slot*> slots = nullptr;
  static inline std::mutex mutex;  // guards the members below, and taking and freeing slots
  static inline size_t n_guards = 0;
  static inline bool installed = false;
  static inline struct sigaction previous {};  // constant while the handler is installed

  static void install() {
    if (installed) return;
    struct sigaction ours {};
    ours.sa_sigaction = handle;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&ours.sa_mask);
    CHECK(::sigaction(SIGBUS, nullptr, &previous) == 0 && ::sigaction(SIGBUS, &ours, nullptr) == 0);
    installed = true;
  }

  static void uninstall() {
    struct sigaction current {};
    CHECK(::sigaction(SIGBUS, nullptr, &current) == 0);
    // If another handler was installed after ours, keep ours installed, because the other handler may call it. Without
    // guards our handler forwards all signals.
    if ((current.sa_flags & SA_SIGINFO) == 0 || current.sa_sigaction != handle) return;
    CHECK(::sigaction(SIGBUS, &previous, nullptr) == 0);
    installed = false;
  }

  static void handle(int signal, siginfo_t* info, void* context) {
    const int saved_errno = errno;
    const bool from_kernel = info->si_code > 0;  // si_addr is valid only in signals of the kernel
    if (!from_kernel || !replace_pages(reinterpret_cast<uintptr_t>(info->si_addr))) pass_on(signal, info, context);
    errno = saved_errno;
  }

  // Replaces the page of `address` and all later pages of the mapping: a truncated file has lost these too.
  static bool replace_pages(uintptr_t address) {
    for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
      const uintptr_t begin = slot->begin.load();
      const uintptr_t end = slot->end.load();
      if (address < begin || address >= end) continue;
      const uintptr_t page = address & ~(static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)) - 1);
      slot->lost.store(true);
      return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED;
    }
    return false;
  }

  static void pass_on(int signal, siginfo_t* info, void* context) {
    if ((previous.sa_flags & SA_SIGINFO) != 0) return previous.sa_sigaction(signal, info, context);
    const bool from_kernel = info->si_code > 0;
    if (previous.sa_handler == SIG_IGN && !from_kernel) return;
    if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) return previous.sa_handler(signal);
    // Restores the previous action. If the kernel sent the signal, the read faults again when this returns. If a
    // process sent the signal, raise() repeats it.
    ::sigaction(SIGBUS, &previous, nullptr);
    if (!from_kernel) ::raise(signal);
  }

  static Slot* take() {
    for (Slot* slot = slots.load(); slot != nullptr; slot = slot->next) {
      if (slot->end.load() == 0) return slot;
    }
    auto* slot = new Slot;
    slot->next = slots.load();
    slots.store(slot);
    return slot;
  }
};

MappingGuard::MappingGuard(const std::byte* data, size_t size) {
  const std::lock_guard lock(Registry::mutex);
  if (Registry::n_guards++ == 0) Registry::install();
  slot_ = Registry::take();
  slot_->lost.store(false);
  slot_->begin.store(reinterpret_cast<uintptr_t>(data));
  slot_->end.store(reinterpret_cast<uintptr_t>(data) + size);
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
  std::swap(slot_, other.slot_);
  return *this;
}

MappingGuard::~MappingGuard() {
  if (slot_ == nullptr) return;
  const std::lock_guard lock(Registry::mutex);
  slot_->end.store(0);
  if (--Registry::n_guards == 0) Registry::uninstall();
}

bool MappingGuard::lost() const { return slot_ != nullptr && slot_->lost.load(); }

}  // namespace ibid
