#include "apps/models/hub_download.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <thread>
#include <utility>

#include "apps/models/http.h"
#include "apps/models/model_catalog.h"
#include "apps/models/pull.h"
#include "apps/terminal/byte_progress.h"
#include "base/sha256.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kMaxListingBytes = 16u << 20;
constexpr int kMaxAttempts = 6;             // that bring nothing, one behind the other
constexpr uint64_t kLongestWaitSeconds = 60;

Status system_error(const std::string& path) { return {ErrorCode::kIo, path + ": " + std::strerror(errno)}; }

// Closes what it holds.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

// What a status means that no further attempt will change; ok: try again.
Status refusal(const HttpAnswer& answer, const HubAccess& access, const std::string& what) {
  switch (answer.status) {
    case 401:
    case 403:
      return {ErrorCode::kUnsupported,
              what + ": the hub " +
                  (access.token.empty() ? "wants a token, or there is no such repository: set HF_TOKEN to one that may "
                                          "read it (for some models their terms are to be accepted on the hub first)"
                                        : "does not let the token of HF_TOKEN read it")};
    case 404: return {ErrorCode::kNotFound, what + ": there is no such thing on " + access.endpoint};
    default: break;
  }
  const bool may_pass = answer.status == 408 || answer.status == 416 || answer.status == 429 || answer.status >= 500;
  if (answer.status >= 400 && !may_pass) {
    return {ErrorCode::kIo, what + ": the hub answers " + std::to_string(answer.status)};
  }
  return {};
}

Status given_up(const HttpAnswer& answer, const std::string& what) {
  const std::string why = answer.status >= 400 ? "the hub answers " + std::to_string(answer.status)
                          : answer.problem.empty() ? "the connection ends before the file does"
                                                   : answer.problem;
  return {ErrorCode::kIo, what + ": " + why + "; what has come is kept, and the same command goes on from there"};
}

// Before attempt number n, counted from 1. False: longer than anybody wants to wait.
bool wait_before(int n, const HttpAnswer& answer, const HubAccess& access) {
  if (answer.retry_after_s && *answer.retry_after_s > kLongestWaitSeconds) return false;
  access.wait(answer.retry_after_s ? static_cast<double>(*answer.retry_after_s) : 0.25 * (1 << n));
  return true;
}

Result<std::string> fetch_text(const HubAccess& access, const std::string& url, const std::string& what) {
  for (int attempt = 1;; ++attempt) {
    std::string text;
    const auto take = [&](long, std::string_view bytes) {
      text += bytes;
      return text.size() <= kMaxListingBytes;
    };
    TRY_ASSIGN(const HttpAnswer answer, http_get({url, access.token, 0}, take));
    if (text.size() > kMaxListingBytes) return Status(ErrorCode::kLimitExceeded, what + ": the hub's list has no end");
    if (answer.status == 200 && answer.problem.empty()) return text;
    TRY(refusal(answer, access, what));
    if (attempt == kMaxAttempts || !wait_before(attempt, answer, access)) return given_up(answer, what);
  }
}

// A file on its way: locked, and as long as what has come of it.
class PartFile {
 public:
  static Result<std::unique_ptr<PartFile>> open(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (fd < 0) return system_error(path);
    std::unique_ptr<PartFile> part(new PartFile(path, fd));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      return Status(ErrorCode::kBusy, "another process is fetching this file already (" + path + ")");
    }
    struct stat info {};
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return system_error(path);
    part->size_ = static_cast<uint64_t>(info.st_size);
    return part;
  }

  // What is empty is not worth keeping.
  ~PartFile() {
    if (size_ == 0) unlink(path_.c_str());
  }
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  uint64_t size() const { return size_; }
  const std::string& path() const { return path_; }

  bool append(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(size_));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) {
        status_ = system_error(path_);
        return false;
      }
      size_ += static_cast<uint64_t>(n);
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  Status restart() {
    size_ = 0;
    return ftruncate(fd_.get(), 0) == 0 ? Status() : system_error(path_);
  }
  Status sync() const { return fsync(fd_.get()) == 0 ? Status() : system_error(path_); }
  const Status& status() const { return status_; }

 private:
  PartFile(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}

  std::string path_;
  Descriptor fd_;
  uint64_t size_ = 0;
  Status status_;  // of writing
};

// Fetches what is missing of it.
Status fetch_into(PartFile& part, const HubAccess& access, const HubFile& file, const std::string& url) {
  ByteProgress progress(part.size(), file.size);
  uint64_t most = part.size();  // that ever was there: an attempt that does not get further has brought nothing
  bool was_at_end = false;
  for (int attempt = 1; part.size() < file.size;) {
    bool is_first = true, too_much = false;
    const auto take = [&](long status, std::string_view bytes) {
      // A server that knows no ranges sends all of it again.
      if (std::exchange(is_first, false) && status != 206 && part.size() > 0 && !part.restart().ok()) return false;
      too_much = bytes.size() > file.size - part.size();
      if (too_much || !part.append(bytes)) return false;
      progress.show(part.size());
      return true;
    };
    TRY_ASSIGN(const HttpAnswer answer, http_get({url, access.token, part.size()}, take));
    TRY(part.status());
    if (too_much) {
      (void)part.restart();
      return {ErrorCode::kMismatch, file.path + ": more comes than the " + std::to_string(file.size) +
                                        " bytes that the hub says; nothing was kept"};
    }
    TRY(refusal(answer, access, file.path));
    if (answer.status == 416) {
      TRY(part.restart());
      if (std::exchange(was_at_end, true)) {
        return {ErrorCode::kMismatch, file.path + ": it ends before the " + std::to_string(file.size) +
                                          " bytes that the hub says; nothing was kept"};
      }
    }
    attempt = part.size() > most ? 1 : attempt + 1;
    most = std::max(most, part.size());
    if (part.size() == file.size) break;
    if (attempt > kMaxAttempts || !wait_before(attempt - 1, answer, access)) return given_up(answer, file.path);
  }
  return {};
}

Status check_room(const std::string& directory, uint64_t wanted) {
  struct statvfs room {};
  if (statvfs(directory.c_str(), &room) != 0) return {};
  const uint64_t there = static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
  if (wanted <= there) return {};
  return {ErrorCode::kIo, directory + " has room for " + format_bytes(there) + ", the model needs " +
                              format_bytes(wanted) + "; IBID_MODELS names another directory"};
}

// Whether `target` is the file that the hub means; an error when it is another.
Result<bool> is_there(const std::string& target, const HubFile& file) {
  std::error_code error;
  if (!fs::exists(target, error)) return false;
  if (fs::is_regular_file(target, error) && fs::file_size(target, error) == file.size) return true;
  return Status(ErrorCode::kDuplicate, target + " is there and is another file; move it away first");
}

// Beside its place, with a name of its own for each content, so that parts of two revisions never mix.
std::string part_path(const std::string& directory, const HubListing& listing, const HubFile& file) {
  Sha256 hash;
  hash.update(file.path + "\n" + (file.sha256.empty() ? listing.revision : file.sha256));
  return directory + "/.pull-" + to_hex(hash.finish()).substr(0, 24);
}

Status fetch_file(const HubAccess& access, const HubName& name, const HubListing& listing, const HubFile& file,
                  const std::string& directory) {
  const std::string target = directory + "/" + file.path.substr(file.path.rfind('/') + 1);
  TRY_ASSIGN(const bool there, is_there(target, file));
  if (there) return {};
  TRY_ASSIGN(const auto part, PartFile::open(part_path(directory, listing, file)));
  if (part->size() > file.size) TRY(part->restart());
  TRY(check_room(directory, file.size - part->size()));
  std::fprintf(stderr, "fetching %s (%s)%s\n", file.path.c_str(), format_bytes(file.size).c_str(),
               part->size() > 0 ? (", " + format_bytes(part->size()) + " are there").c_str() : "");
  const std::string url =
      access.endpoint + "/" + name.repository() + "/resolve/" + listing.revision + "/" + file.path;
  TRY(fetch_into(*part, access, file, url));
  if (!file.sha256.empty()) {
    TRY_ASSIGN(const std::string sha256, sha256_of_file(part->path()));
    if (sha256 != file.sha256) {
      (void)unlink(part->path().c_str());
      return {ErrorCode::kMismatch, file.path + ": what came has the SHA-256 " + sha256 + ", the hub says " +
                                        file.sha256 + "; nothing was kept"};
    }
  }
  TRY(part->sync());
  if (rename(part->path().c_str(), target.c_str()) != 0) return system_error(target);
  return {};
}

}  // namespace

Result<HubAccess> hub_access() {
  HubAccess access;
  const char* endpoint = std::getenv("HF_ENDPOINT");
  access.endpoint = endpoint != nullptr && *endpoint != 0 ? endpoint : kDefaultEndpoint;
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (!access.endpoint.starts_with("https://") && !access.endpoint.starts_with("http://")) {
    return Status(ErrorCode::kInvalidArgument, "HF_ENDPOINT is '" + access.endpoint + "', wanted https://HOST");
  }
  if (const char* token = std::getenv("HF_TOKEN")) access.token = token;
  TRY_ASSIGN(access.directory, models_directory());
  access.wait = [](double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); };
  return access;
}

Result<std::string> pull_from_hub(const HubAccess& access, const HubName& name) {
  const std::string what = "hf:" + name.repository();
  TRY_ASSIGN(const std::string text,
             fetch_text(access, access.endpoint + "/api/models/" + name.repository() + "?blobs=true", what));
  TRY_ASSIGN(const Json json, parse_json(text, what));
  TRY_ASSIGN(const HubListing listing, parse_hub_listing(json));
  TRY_ASSIGN(const std::vector<HubFile> files, choose_hub_files(listing, name));
  const bool is_directory = !files.front().path.ends_with(".gguf");
  const std::string directory = access.directory + (is_directory ? "/" + name.owner + "--" + name.name : "");
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return Status(ErrorCode::kIo, "cannot write to " + directory +
                                      ": set IBID_MODELS to a directory that can be written to");
  }
  // config.json makes a directory a model: it comes last.
  std::vector<HubFile> in_order = files;
  std::stable_partition(in_order.begin(), in_order.end(), [](const HubFile& f) { return f.path != "config.json"; });
  for (const HubFile& file : in_order) TRY(fetch_file(access, name, listing, file, directory));
  if (is_directory) return directory;
  return directory + "/" + files.front().path.substr(files.front().path.rfind('/') + 1);
}

}  // namespace ibid
