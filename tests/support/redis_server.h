// RedisServer: a real redis-server (or valkey-server) with its data in memory, on a Unix socket, for the time of one
// test. Debian has it in the package redis-server; tests are skipped where it is missing.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace ibid {

// The path of the program; empty: it is not installed.
std::string redis_server_program();

class RedisServer {
 public:
  // options: of the program's command line, such as {"--maxmemory", "20mb"}. REQUIRES: the program is installed.
  explicit RedisServer(const std::vector<std::string>& options = {});
  ~RedisServer();
  RedisServer(const RedisServer&) = delete;
  RedisServer& operator=(const RedisServer&) = delete;

  bool is_ready() const { return pid_ > 0; }  // false: it did not start
  std::string url() const { return "unix:" + socket_; }
  void stop();     // SIGSTOP: the server hangs
  void go_on();    // SIGCONT
  void restart();  // kills the server; the new one is empty

 private:
  void start();
  void kill();

  const TempDir dir_;
  const std::string socket_ = dir_.file("socket");
  const std::vector<std::string> options_;
  pid_t pid_ = -1;
};

}  // namespace ibid
