#include "apps/models/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

extern char** environ;

namespace ibid {

namespace {

constexpr size_t kKeptBytes = 4096;

// Reads the child's standard error to its end, keeping the last of it.
std::string drain(int fd, bool show) {
  std::string kept;
  char buffer[1024];
  for (;;) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    const size_t size = static_cast<size_t>(n);
    if (show) [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, buffer, size);
    kept.append(buffer, size);
    if (kept.size() > kKeptBytes) kept.erase(0, kept.size() - kKeptBytes);
  }
  return kept;
}

// Ctrl-C reaches the child, which dies of it, and not us: we still have to clean up after it.
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

}  // namespace

Result<ChildResult> run_child(const std::vector<std::string>& argv, bool show) {
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
  result.last_lines = drain(errors[0], show);
  close(errors[0]);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace ibid
