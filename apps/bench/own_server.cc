#include "apps/bench/own_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

namespace ibid {

namespace {

constexpr const char* kThisProgram = "/proc/self/exe";
constexpr std::string_view kAddress = "http://127.0.0.1:";

// Bytes as they come; empty: the end.
std::string read_some(int fd) {
  char bytes[4096];
  for (;;) {
    const ssize_t n = read(fd, bytes, sizeof bytes);
    if (n < 0 && errno == EINTR) continue;
    return n > 0 ? std::string(bytes, static_cast<size_t>(n)) : std::string();
  }
}

std::string last_line(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
}

}  // namespace

Result<std::unique_ptr<OwnServer>> OwnServer::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"ibid", "serve"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.insert(words.end(), {"--port", "0", "--config", ""});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return Status(ErrorCode::kIo, std::string("pipe: ") + std::strerror(errno));
  std::vector<char*> environment;  // without a key, which would keep this process out
  for (char** each = environ; *each != nullptr; ++each) {
    if (!std::string_view(*each).starts_with("IBID_API_KEY=")) environment.push_back(*each);
  }
  environment.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t process = fork();
  if (process == 0) {
    // Nothing but calls that POSIX allows between fork() and exec().
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);
    dup2(ends[1], STDERR_FILENO);
    execve(kThisProgram, pointers.data(), environment.data());
    _exit(127);
  }
  close(ends[1]);
  if (process < 0) {
    close(ends[0]);
    return Status(ErrorCode::kIo, std::string("the server cannot be started: ") + std::strerror(errno));
  }
  std::unique_ptr<OwnServer> server(new OwnServer(process, ends[0]));
  if (!server->await_ready()) return Status(ErrorCode::kIo, "the server did not start: " + last_line(server->said_));
  server->reader_ = std::thread([fd = server->errors_] {
    while (!read_some(fd).empty()) {
    }
  });
  return server;
}

bool OwnServer::await_ready() {
  while (said_.find("\nibid: ready\n") == std::string::npos) {
    const std::string more = read_some(errors_);
    if (more.empty()) return false;
    said_ += more;
  }
  const size_t at = said_.find(kAddress);
  if (at == std::string::npos) return false;
  url_ = said_.substr(at, said_.find_first_not_of("0123456789", at + kAddress.size()) - at);
  return true;
}

OwnServer::~OwnServer() {
  kill(process_, SIGTERM);
  if (reader_.joinable()) reader_.join();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
  close(errors_);
}

}  // namespace ibid
