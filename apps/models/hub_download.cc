#include "apps/models/hub_download.h"

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "apps/models/model_catalog.h"
#include "apps/models/part_file.h"
#include "apps/terminal/progress.h"
#include "model/memory_plan.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr const char* kDefaultEndpoint = "https://huggingface.co";
constexpr size_t kConnections = 4;  // parallel downloads

struct ModelPart {
  HubFile file;
  std::string target, part;
  FileState state = FileState::kMissing;
  uint64_t there = 0;  // bytes of the part file that are already present
};

// True for the file that makes a directory loadable as a model. This file is downloaded and written last.
bool makes_a_model(const HubFile& file) {
  return file.path == "config.json" || file.path.find("-00001-of-") != std::string::npos;
}

// One pull. Downloaded files replace older files only when all downloads are complete.
class Download {
 public:
  // `model`: all files; those already present are not downloaded.
  Download(HubAccess access, std::string repository_url, HubOrigin origin, std::vector<ModelPart> model)
      : access_(std::move(access)),
        url_(std::move(repository_url)),
        origin_(std::move(origin)),
        model_(std::move(model)),
        stop_with_(access_.stop, [this] { stop_.request_stop(); }) {
    access_.stop = stop_.get_token();
    for (const ModelPart& part : model_) {
      if (part.state == FileState::kSame) continue;
      files_.push_back(part);
      done_ += part.there;
      total_ += part.file.size;
    }
  }

  const std::vector<ModelPart>& files() const { return files_; }

  uint64_t total() const { return total_; }
  uint64_t there() const { return done_; }

  // Downloads all files, those of makes_a_model() last.
  Status run() {
    ByteProgress progress(done_, total_);
    progress_ = &progress;
    const auto last = std::stable_partition(files_.begin(), files_.end(),
                                            [](const ModelPart& part) { return !makes_a_model(part.file); });
    fetch_until(static_cast<size_t>(last - files_.begin()));
    if (status_.ok()) fetch_until(files_.size());
    TRY(status_);
    return replace_older();
  }

 private:
  // Downloads files [next_, end) on up to kConnections threads.
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
      stop_.request_stop();  // stops the other downloads; the part files that they have written are kept
      return;
    }
  }

  Status fetch(const ModelPart& missing) {
    const HubFile& file = missing.file;
    TRY_ASSIGN(auto part, PartFile::open(missing.part));
    // Restart if the hub has no digest, because the part may belong to another version of the file.
    if (part->size() > file.size || file.sha256.empty()) TRY(part->restart());
    TRY(fetch_into(*part, access_, file, url_ + file.path, [this](int64_t bytes) { moved(bytes); }));
    if (!file.sha256.empty()) {
      TRY_ASSIGN(const std::string sha256, sha256_of_file(part->path()));
      if (sha256 != file.sha256) {
        part->discard();
        return {ErrorCode::kMismatch, file.path + ": the fetched file has the SHA-256 " + sha256 + ", the hub lists " +
                                          file.sha256 + "; nothing was kept"};
      }
    }
    if (missing.state == FileState::kOlder) {
      const std::lock_guard lock(mutex_);
      fetched_.emplace_back(&missing, std::move(part));
      return {};
    }
    TRY(part->finish(missing.target));
    note_pulled_file(missing.target, origin_, file);
    return {};
  }

  // Never leaves a loadable mix of new and old files, because the files of makes_a_model() are removed first and
  // written last. If it is interrupted, the next pull continues.
  Status replace_older() {
    if (fetched_.empty()) return {};
    for (const ModelPart& one : model_) {
      if (model_.size() == 1 || !makes_a_model(one.file) || one.state == FileState::kMissing) continue;
      const bool is_wanted = one.state == FileState::kSame;
      if (is_wanted ? rename(one.target.c_str(), one.part.c_str()) != 0 : unlink(one.target.c_str()) != 0) {
        return {ErrorCode::kIo, one.target + ": " + std::strerror(errno)};
      }
    }
    for (const bool last : {false, true}) {
      for (const auto& [missing, part] : fetched_) {
        if (makes_a_model(missing->file) != last) continue;
        TRY(part->finish(missing->target));
        note_pulled_file(missing->target, origin_, missing->file);
      }
    }
    for (const ModelPart& one : model_) {
      if (model_.size() == 1 || !makes_a_model(one.file) || one.state != FileState::kSame) continue;
      if (rename(one.part.c_str(), one.target.c_str()) != 0) {
        return {ErrorCode::kIo, one.target + ": " + std::strerror(errno)};
      }
    }
    return {};
  }

  void moved(int64_t bytes) {
    const std::lock_guard lock(mutex_);
    done_ = static_cast<uint64_t>(static_cast<int64_t>(done_) + bytes);
    progress_->show(done_);
  }

  HubAccess access_;
  std::string url_;  // URL prefix of the files
  HubOrigin origin_;
  std::vector<ModelPart> model_;
  std::vector<ModelPart> files_;  // files that are missing or outdated
  std::atomic<size_t> next_{0};
  uint64_t total_ = 0;
  std::mutex mutex_;
  // These members are guarded by mutex_:
  uint64_t done_ = 0;
  Status status_;  // first error of any download
  // Downloaded files that will replace older ones.
  std::vector<std::pair<const ModelPart*, std::unique_ptr<PartFile>>> fetched_;
  ByteProgress* progress_ = nullptr;

  std::stop_source stop_;
  std::stop_callback<std::function<void()>> stop_with_;
};

Status check_disk_space(const std::string& directory, uint64_t wanted) {
  struct statvfs room {};
  if (statvfs(directory.c_str(), &room) != 0) return {};
  const uint64_t there = static_cast<uint64_t>(room.f_bavail) * room.f_frsize;
  if (wanted <= there) return {};
  return {ErrorCode::kIo, directory + " has room for " + format_bytes(there) + ", the model needs " +
                              format_bytes(wanted) + "; IBID_MODELS names another directory"};
}

// Determines the local paths and the state of a model's files.
Result<std::vector<ModelPart>> look_for(const std::vector<HubFile>& files, const HubOrigin& origin,
                                        const std::string& directory) {
  std::vector<ModelPart> model;
  for (const HubFile& file : files) {
    ModelPart one{file, directory + "/" + file.path, "", FileState::kMissing, 0};
    TRY_ASSIGN(one.state, compare_pulled_file(one.target, origin, file));
    const std::string content =
        file.path + "\n" + (file.sha256.empty() ? origin.repository + "\n" + origin.revision : file.sha256);
    one.part = part_path(directory, content);
    struct stat info {};
    if (lstat(one.part.c_str(), &info) == 0 && S_ISREG(info.st_mode)) one.there = static_cast<uint64_t>(info.st_size);
    if (one.there > file.size || file.sha256.empty()) one.there = 0;
    model.push_back(std::move(one));
  }
  return model;
}

// True if all files are in the models directory itself, where earlier versions put .gguf files.
bool lie_in(const std::string& directory, const std::vector<HubFile>& files) {
  return std::ranges::all_of(files, [&directory](const HubFile& file) {
    const std::string path = directory + "/" + base_name(file.path);
    std::error_code error;
    const bool has_size = fs::is_regular_file(path, error) && fs::file_size(path, error) == file.size;
    if (file.sha256.empty() || !has_size) return false;
    const Result<std::string> sha256 = sha256_of_file(path);
    return sha256.ok() && *sha256 == file.sha256;
  });
}

void print_download(const Download& download) {
  const std::vector<ModelPart>& files = download.files();
  const std::string what = files.size() == 1 ? files.front().file.path : std::to_string(files.size()) + " files";
  std::fprintf(stderr, "fetching %s (%s%s)\n", what.c_str(), format_bytes(download.total()).c_str(),
               download.there() > 0 ? (", of which " + format_bytes(download.there()) + " are present").c_str() : "");
}

Status make_directories(const std::vector<ModelPart>& model) {
  for (const ModelPart& one : model) {
    const fs::path directory = fs::path(one.target).parent_path();
    std::error_code error;
    fs::create_directories(directory, error);
    if (error) {
      return {ErrorCode::kIo,
              "cannot write to " + directory.string() + ": set IBID_MODELS to a directory that can be written to"};
    }
  }
  return {};
}

// True for https, and for http on this machine; on a network, others could read the token and alter the model.
bool is_trusted_endpoint(const std::string& endpoint) {
  if (endpoint.find('@') != std::string::npos) return false;
  if (endpoint.starts_with("https://")) return endpoint.size() > 8;
  if (!endpoint.starts_with("http://")) return false;
  const std::string rest = endpoint.substr(7);
  const std::string host = rest.substr(0, rest.starts_with('[') ? rest.find(']') + 1 : rest.find_first_of(":/"));
  return host == "localhost" || host == "127.0.0.1" || host == "[::1]";
}

// Waits for the time, or until stop is requested.
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
    return Status(ErrorCode::kInvalidArgument,
                  "HF_ENDPOINT is '" + access.endpoint + "', expected https://HOST (http:// only for localhost)");
  }
  if (const char* token = std::getenv("HF_TOKEN")) access.token = token;
  while (access.token.ends_with('\n') || access.token.ends_with(' ')) access.token.pop_back();
  if (std::ranges::any_of(access.token, [](char c) { return c <= ' ' || c > '~'; })) {
    return Status(ErrorCode::kInvalidArgument, "HF_TOKEN holds a character that tokens cannot have");
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
  if (!is_directory && lie_in(access.directory, files)) return access.directory + "/" + base_name(files.front().path);
  const std::string directory = access.directory + "/" + repository_folder(name);
  const HubOrigin origin{what, listing.revision};
  TRY_ASSIGN(const std::vector<ModelPart> model, look_for(files, origin, directory));
  TRY(make_directories(model));
  Download download(access, access.endpoint + "/" + name.repository() + "/resolve/" + listing.revision + "/", origin,
                    model);
  if (!download.files().empty()) {
    const uint64_t freed = remove_abandoned_parts(access.directory) + remove_abandoned_parts(directory);
    if (freed > 0) std::fprintf(stderr, "removed %s of abandoned downloads\n", format_bytes(freed).c_str());
    TRY(check_disk_space(directory, download.total() - download.there()));
    print_download(download);
    TRY(download.run());
  }
  return is_directory ? directory : directory + "/" + files.front().path;
}

}  // namespace ibid
