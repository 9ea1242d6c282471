#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/server/http/raw_client.h"

namespace ibid {

class ServedProcess {
 public:
  static constexpr int kPatienceMs = 60'000;

  explicit ServedProcess(std::vector<std::string> arguments, const std::vector<std::string>& environment = {}) {
    arguments.insert(arguments.begin(), {IBID_PROGRAM, "serve"});
    if (std::find(arguments.begin(), arguments.end(), "--config") == arguments.end()) {
      arguments.insert(arguments.end(), {"--config", ""});
    }
    arguments.insert(arguments.end(), {"--threads", "1"});
    std::vector<char*> words, variables;
    for (std::string& argument : arguments) words.push_back(argument.data());
    words.push_back(nullptr);
    std::vector<std::string> all = environment;
    for (char** each = environ; *each != nullptr; ++each) all.emplace_back(*each);
    for (std::string& variable : all) variables.push_back(variable.data());
    variables.push_back(nullptr);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    posix_spawn(&process_, words[0], &actions, nullptr, words.data(), variables.data());
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    errors_ = ends[0];
  }
  ~ServedProcess() {
    if (process_ > 0) {
      kill(process_, SIGKILL);
      waitpid(process_, nullptr, 0);
    }
    if (errors_ >= 0) close(errors_);
  }
  ServedProcess(const ServedProcess&) = delete;
  ServedProcess& operator=(const ServedProcess&) = delete;

  // Reads the output until it contains this text. Returns false if the process ended or the time is over. said() is all
  // output so far.
  bool says(const std::string& text) {
    while (said_.find(text) == std::string::npos) {
      if (!read_more()) return false;
    }
    return true;
  }
  const std::string& said() const { return said_; }

  // Returns the port in "on http://127.0.0.1:PORT".
  uint16_t port() {
    if (!says("\nibid: ready\n")) return 0;
    const size_t at = said_.find("127.0.0.1:");
    return at == std::string::npos ? 0 : static_cast<uint16_t>(std::stoi(said_.substr(at + 10)));
  }

  void signal_it(int number) const { kill(process_, number); }
  // Waits for the process without reading its output.
  int wait_silently() {
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  // Waits for the end of the process, and returns the exit status as shells report it.
  int wait() {
    while (read_more()) {
    }
    int status = 0;
    waitpid(process_, &status, 0);
    process_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }

 private:
  bool read_more() {
    pollfd source{errors_, POLLIN, 0};
    if (poll(&source, 1, kPatienceMs) <= 0) return false;
    char bytes[4096];
    const ssize_t n = read(errors_, bytes, sizeof(bytes));
    if (n <= 0) return false;
    said_.append(bytes, static_cast<size_t>(n));
    return true;
  }

  pid_t process_ = -1;
  int errors_ = -1;
  std::string said_;
};

}  // namespace ibid
