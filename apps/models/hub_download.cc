#include "apps/models/hub_download.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "apps/models/model_catalog.h"
#include "apps/models/part_file.h"
#include "apps/models/pull.h"
#include "apps/terminal/byte_progress.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kConnections = 4;  // files at a time

// A file that has to come, or the rest of it.
struct MissingFile {
  HubFile file;
  std::string target, part;
  uint64_t there = 0;  // bytes of the part
};

// The files of one pull on their way.
class Download {
 public:
  Download(HubAccess access, std::string repository_url, std::vector<MissingFile> files)
      : access_(std::move(access)), url_(std::move(repository_url)), files_(std::move(files)),
        stop_with_(access_.stop, [this] { stop_.request_stop(); }) {
    access_.stop = stop_.get_token();
    for (const MissingFile& missing : files_) {
      done_ += missing.there;
      total_ += missing.file.size;
    }
  }

  uint64_t total() const { return total_; }
  uint64_t there() const { return done_; }

  // Fetches all of them; those that make a model of the others come behind them.
  Status run() {
    ByteProgress progress(done_, total_);
    progress_ = &progress;
    const auto last = std::stable_partition(files_.begin(), files_.end(),
                                            [](const MissingFile& missing) { return !makes_a_model(missing.file); });
    fetch_until(static_cast<size_t>(last - files_.begin()));
    if (status_.ok()) fetch_until(files_.size());
    return status_;
  }

 private:
  static bool makes_a_model(const HubFile& file) {
    return file.path == "config.json" || file.path.find("-00001-of-") != std::string::npos;
  }

  // Files [next_, end), on as many connections as are worth it.
  void fetch_until(size_t end) {
    std::vector<std::jthread> others;
    const size_t n = std::min(kConnections, end - next_);
    for (size_t i = 1; i < n; ++i) others.emplace_back([this, end] { work(end); });
    work(end);
    others.clear();
    next_ = end;
  }

  void work(size_t end) {
    for (size_t i = next_++; i < end; i = next_++) {
      const Status status = fetch(files_[i]);
      if (status.ok()) continue;
      const std::lock_guard lock(mutex_);
      if (status_.ok()) status_ = status;
      stop_.request_stop();  // the others end as well; what has come of them is kept
      return;
    }
  }

  Status fetch(const MissingFile& missing) {
    const HubFile& file = missing.file;
    TRY_ASSIGN(const auto part, PartFile::open(missing.part));
    if (part->size() > file.size) TRY(part->restart());
    TRY(fetch_into(*part, access_, file, url_ + file.path, [this](int64_t bytes) { moved(bytes); }));
    if (!file.sha256.empty()) {
      TRY_ASSIGN(const std::string sha256, sha256_of_file(part->path()));
      if (sha256 != file.sha256) {
        part->discard();
        return {ErrorCode::kMismatch, file.path + ": what came has the SHA-256 " + sha256 + ", the hub says " +
                                          file.sha256 + "; nothing was kept"};
      }
    }
    return part->finish(missing.target);
  }

  void moved(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ = static_cast<uint64_t>(static_cast<int64_t>(done_) + bytes);
    progress_->show(done_);
  }

  HubAccess access_;
  std::string url_;  // of a file but for its path
  std::vector<MissingFile> files_;
  std::atomic<size_t> next_{0};
  uint64_t total_ = 0;
  std::mutex mutex_;
  // Guarded:
  uint64_t done_ = 0;
  Status status_;  // the first that was none
  ByteProgress* progress_ = nullptr;

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> stop_with_;
};

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

Result<std::vector<MissingFile>> missing_files(const std::vector<HubFile>& files, const HubListing& listing,
                                               const std::string& directory) {
  std::vector<MissingFile> missing;
  for (const HubFile& file : files) {
    const std::string target = directory + "/" + base_name(file.path);
    TRY_ASSIGN(const bool there, is_there(target, file));
    if (there) continue;
    const std::string content = file.path + "\n" + (file.sha256.empty() ? listing.revision : file.sha256);
    MissingFile one{file, target, part_path(directory, content), 0};
    struct stat info {};
    if (lstat(one.part.c_str(), &info) == 0 && S_ISREG(info.st_mode)) one.there = static_cast<uint64_t>(info.st_size);
    if (one.there > file.size) one.there = 0;
    missing.push_back(std::move(one));
  }
  return missing;
}

void say_what_comes(const std::vector<MissingFile>& missing, const Download& download) {
  const std::string what =
      missing.size() == 1 ? missing.front().file.path : std::to_string(missing.size()) + " files";
  std::fprintf(stderr, "fetching %s (%s%s)\n", what.c_str(), format_bytes(download.total()).c_str(),
               download.there() > 0 ? (", of which " + format_bytes(download.there()) + " are there").c_str() : "");
}

// http is for hubs on this machine: over a network anybody could read the token and write the model.
bool is_trusted_endpoint(const std::string& endpoint) {
  if (endpoint.find('@') != std::string::npos) return false;
  if (endpoint.starts_with("https://")) return endpoint.size() > 8;
  if (!endpoint.starts_with("http://")) return false;
  const std::string rest = endpoint.substr(7);
  const std::string host = rest.substr(0, rest.starts_with('[') ? rest.find(']') + 1 : rest.find_first_of(":/"));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// Waits for so long, or until it is stopped.
void wait_or_stop(double seconds, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, stop, std::chrono::duration<double>(seconds), [] { return false; });
}

}  // namespace

Result<HubAccess> hub_access(std::stop_token stop) {
  HubAccess access;
  const char* endpoint = std::getenv("HF_ENDPOINT");
  access.endpoint = endpoint != nullptr && *endpoint != 0 ? endpoint : kDefaultEndpoint;
  while (access.endpoint.ends_with('/')) access.endpoint.pop_back();
  if (!is_trusted_endpoint(access.endpoint)) {
    return Status(ErrorCode::kInvalidArgument, "HF_ENDPOINT is '" + access.endpoint +
                                                   "', wanted https://HOST (http:// for localhost alone)");
  }
  if (const char* token = std::getenv("HF_TOKEN")) access.token = token;
  while (access.token.ends_with('\n') || access.token.ends_with(' ')) access.token.pop_back();
  if (std::ranges::any_of(access.token, [](char c) { return c <= ' ' || c > '~'; })) {
    return Status(ErrorCode::kInvalidArgument, "HF_TOKEN holds a character that no token has");
  }
  TRY_ASSIGN(access.directory, models_directory());
  access.stop = stop;
  access.wait = [stop](double seconds) { wait_or_stop(seconds, stop); };
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
  TRY_ASSIGN(std::vector<MissingFile> missing, missing_files(files, listing, directory));
  if (!missing.empty()) {
    const uint64_t freed = remove_abandoned_parts(access.directory) +
                           (is_directory ? remove_abandoned_parts(directory) : uint64_t{0});
    if (freed > 0) std::fprintf(stderr, "removed %s of abandoned downloads\n", format_bytes(freed).c_str());
    Download download(access, access.endpoint + "/" + name.repository() + "/resolve/" + listing.revision + "/",
                      missing);
    TRY(check_room(directory, download.total() - download.there()));
    say_what_comes(missing, download);
    TRY(download.run());
  }
  if (is_directory) return directory;
  return directory + "/" + base_name(files.front().path);
}

}  // namespace ibid
