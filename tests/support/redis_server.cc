#include "tests/support/redis_server.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <thread>

extern char** environ;

namespace ibid {

namespace {

bool accepts(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  const int descriptor = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = ::connect(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  ::close(descriptor);
  return connected;
}

}  // namespace

std::string redis_server_program() {
  for (const char* program : {"redis-server", "valkey-server"}) {
    for (const char* folder : {"/usr/bin/", "/usr/local/bin/"}) {
      if (::access((std::string(folder) + program).c_str(), X_OK) == 0) return std::string(folder) + program;
    }
  }
  return {};
}

RedisServer::RedisServer(const std::vector<std::string>& options) : options_(options) { start(); }

RedisServer::~RedisServer() { kill(); }

void RedisServer::start() {
  std::vector<std::string> words = {
      redis_server_program(), "--port", "0",     "--unixsocket", socket_,       "--save", "",
      "--appendonly",         "no",     "--dir", dir_.path(),    "--daemonize", "no"};
  words.insert(words.end(), options_.begin(), options_.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  if (::posix_spawn(&pid_, arguments[0], &actions, nullptr, arguments.data(), environ) != 0) pid_ = -1;
  posix_spawn_file_actions_destroy(&actions);
  for (int i = 0; pid_ > 0 && i < 2000; ++i) {
    if (accepts(socket_)) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill();
}

void RedisServer::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void RedisServer::restart() {
  kill();
  start();
}

void RedisServer::stop() { ::kill(pid_, SIGSTOP); }
void RedisServer::go_on() { ::kill(pid_, SIGCONT); }

}  // namespace ibid
