#include "apps/models/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <optional>
#include <span>
#include <system_error>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/sha256.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = ".pull-";
constexpr size_t kNameDigits = 24;
constexpr size_t kDirectoryDigits = 6;  // characters that mkdtemp adds
constexpr time_t kAbandonedSeconds = time_t{7} * 24 * 3600;

Status system_error(const std::string& path) { return {ErrorCode::kIo, path + ": " + std::strerror(errno)}; }

// True if `path` still names the file of `fd`, which may have been removed or renamed before it was locked.
bool is_at(const std::string& path, int fd) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

// True for the name of a part, or of a directory for unpacking packages.
bool is_part_name(const std::string& name) {
  const std::string_view digits = std::string_view(name).substr(std::min(kPrefix.size(), name.size()));
  if (!name.starts_with(kPrefix)) return false;
  return digits.size() == kDirectoryDigits ||
         (digits.size() == kNameDigits && digits.find_first_not_of("0123456789abcdef") == std::string_view::npos);
}

// Removes the part or directory if no process uses it. Returns the freed bytes; 0 for directories.
uint64_t remove_if_abandoned(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return 0;
  struct stat info {};
  const bool abandoned = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &info) == 0 &&
                         (S_ISREG(info.st_mode) || S_ISDIR(info.st_mode)) &&
                         time(nullptr) - info.st_mtime > kAbandonedSeconds && is_at(path, fd);
  std::error_code error;
  const bool removed = abandoned && fs::remove_all(path, error) > 0 && !error;
  close(fd);
  return removed && S_ISREG(info.st_mode) ? static_cast<uint64_t>(info.st_size) : 0;
}

}  // namespace

Result<std::unique_ptr<PartFile>> PartFile::open(const std::string& path) {
  for (;;) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return system_error(path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      close(fd);
      return Status(ErrorCode::kBusy, "another process is fetching this file already (" + path + ")");
    }
    if (!is_at(path, fd)) {
      close(fd);
      continue;
    }
    std::unique_ptr<PartFile> part(new PartFile(path, fd));
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return system_error(path);
    part->size_ = static_cast<uint64_t>(info.st_size);
    return part;
  }
}

PartFile::~PartFile() {
  if (size_ == 0) discard();
  close(fd_);
}

bool PartFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = pwrite(fd_, bytes.data(), bytes.size(), static_cast<off_t>(size_));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      const bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
      status_ = full ? Status(ErrorCode::kIo, path_ + ": " + std::strerror(errno) +
                                                  "; the partial download is kept: run the same command to resume")
                     : system_error(path_);
      return false;
    }
    size_ += static_cast<uint64_t>(n);
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return true;
}

Status PartFile::restart() {
  size_ = 0;
  return ftruncate(fd_, 0) == 0 ? Status() : system_error(path_);
}

Status PartFile::finish(const std::string& target) {
  if (fsync(fd_) != 0) return system_error(path_);
  return rename(path_.c_str(), target.c_str()) == 0 ? Status() : system_error(target);
}

void PartFile::discard() {
  if (is_at(path_, fd_)) unlink(path_.c_str());
}

Result<std::string> sha256_of_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status(ErrorCode::kIo, path + ": cannot be read");
  Sha256 hash;
  std::vector<char> buffer(1 << 20);
  while (file) {
    file.read(buffer.data(), static_cast<std::streamsize>(buffer.size()));
    hash.update(std::string_view(buffer.data(), static_cast<size_t>(file.gcount())));
  }
  if (file.bad()) return Status(ErrorCode::kIo, path + ": reading failed");
  return to_hex(hash.finish());
}

std::string part_path(const std::string& directory, std::string_view content) {
  Sha256 hash;
  hash.update(content);
  return directory + "/" + std::string(kPrefix) + to_hex(hash.finish()).substr(0, kNameDigits);
}

uint64_t remove_abandoned_parts(const std::string& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (is_part_name(it->path().filename().string())) bytes += remove_if_abandoned(it->path().string());
  }
  return bytes;
}

namespace {

namespace fs = std::filesystem;

constexpr int kNoteFormat = 1;
constexpr uint64_t kMaxNoteBytes = 1 << 16;

struct Note {
  std::string repository, path, revision, sha256;
};

std::string note_path(const std::string& target) {
  const fs::path path(target);
  return (path.parent_path() / ("." + path.filename().string() + ".pulled")).string();
}

// Returns nullopt if there is no readable note.
std::optional<Note> read_note(const std::string& target) {
  const std::string path = note_path(target);
  const Result<std::string> text = read_file(system_file_ops(), path, kMaxNoteBytes);
  const Result<Json> json = text.ok() ? parse_json(*text, path) : Result<Json>(text.status());
  if (!json.ok() || !json->is_object()) return std::nullopt;
  if (const auto format = json->find("format"); format == json->end() || *format != kNoteFormat) {
    std::fprintf(stderr, "%s has the format %s, this program reads %d: the note is ignored\n", path.c_str(),
                 format == json->end() ? "(none)" : format->dump().c_str(), kNoteFormat);
    return std::nullopt;
  }
  const auto word = [&json](const char* key) {
    const auto found = json->find(key);
    return found != json->end() && found->is_string() ? found->get<std::string>() : std::string();
  };
  return Note{word("repository"), word("path"), word("revision"), word("sha256")};
}

}  // namespace

Result<FileState> compare_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) return FileState::kMissing;
  const Status another(ErrorCode::kDuplicate, target + " exists and is another file than " + origin.repository + ":" +
                                                  file.path + " of revision " + origin.revision +
                                                  "; move it away first");
  if (!fs::is_regular_file(target, error)) return another;
  const bool has_size = fs::file_size(target, error) == file.size && !error;
  TRY_ASSIGN(const std::string sha256, sha256_of_file(target));
  if (has_size && sha256 == file.sha256) return FileState::kSame;
  const std::optional<Note> note = read_note(target);
  const bool is_ours =
      note && note->repository == origin.repository && note->path == file.path && note->sha256 == sha256;
  if (is_ours && has_size && file.sha256.empty() && note->revision == origin.revision) return FileState::kSame;
  const bool is_unknown = !note && has_size && file.sha256.empty();
  return is_ours || is_unknown ? Result<FileState>(FileState::kOlder) : Result<FileState>(another);
}

void note_pulled_file(const std::string& target, const HubOrigin& origin, const HubFile& file) {
  const Result<std::string> sha256 = file.sha256.empty() ? sha256_of_file(target) : Result<std::string>(file.sha256);
  if (!sha256.ok()) return;
  const Json note = {{"format", kNoteFormat}, {"repository", origin.repository},
                     {"path", file.path},     {"revision", origin.revision},
                     {"size", file.size},     {"sha256", *sha256}};
  const std::string text = json_to_string(note) + '\n';
  (void)write_file_atomically(system_file_ops(), note_path(target), std::as_bytes(std::span(text)));
}

std::string repository_folder(const HubName& name) {
  // If owner or name contains two dashes, separate owner and name by @, which neither can contain.
  const bool ambiguous = name.owner.find("--") != name.owner.npos || name.name.find("--") != name.name.npos;
  return name.owner + (ambiguous ? "@" : "--") + name.name;
}

}  // namespace ibid
