// RespServer: a small key-value server that speaks RESP, for tests. It implements the commands that ibid uses, and can
// be told to fail in the ways in which real servers and networks do. Each connection has a thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/support/resp_collections.h"

struct ssl_ctx_st;

namespace ibid {

class RespServer {
 public:
  using Words = std::vector<std::string>;

  struct Options {
    std::string address = "127.0.0.1";       // IPv4
    std::string unix_path;                   // not empty: a Unix socket in place of TCP
    std::string certificate_file, key_file;  // both set: TLS
    std::string user = "default", password;  // password not empty: AUTH is required
  };
  RespServer() : RespServer(Options()) {}
  explicit RespServer(Options options);
  ~RespServer();
  RespServer(const RespServer&) = delete;
  RespServer& operator=(const RespServer&) = delete;

  std::string url() const;
  uint16_t port() const { return port_; }

  // --- Faults, which hold until they are changed.

  // Closes all connections and refuses new ones (true), or accepts them again (false).
  void set_down(bool down);
  // The server reads requests and answers none of them.
  void set_silent(bool silent);
  // The server sends at most n bytes, then pauses. n == 0: no pauses.
  void set_pace(size_t n_bytes, std::chrono::milliseconds pause);
  // Called for each command: bytes that are sent in place of the answer, or nothing for the ordinary answer. At
  // kThenClose in the bytes the connection is closed.
  static constexpr std::string_view kThenClose = "<then close>";
  using Script = std::function<std::optional<std::string>(const Words& command)>;
  void set_script(Script script);

  // --- The data.

  std::map<std::string, std::string> data() const;
  void set(const std::string& key, std::string value);
  // Replaces each value, and each element of a list, by edit(key, value).
  void edit(const std::function<std::string(const std::string& key, const std::string& value)>& edit);
  void clear();
  // Removes a key of any type.
  void erase(const std::string& key);
  // All that a reader of the server sees, in one text.
  std::string all_texts() const;
  size_t n_commands(const std::string& name) const;  // received so far; name in capitals
  size_t n_connections() const { return n_connections_; }

 private:
  class Channel;
  struct Connection {
    std::unique_ptr<Channel> channel;
    std::thread thread;
  };
  void listen();
  void stop_listening();
  void accept_all();
  void serve(Channel& channel);
  std::optional<Words> read_command(Channel& channel, std::string& ahead);
  bool send(Channel& channel, std::string_view bytes);
  bool wait(std::chrono::milliseconds time);
  struct Session {  // state of a connection
    bool logged_in = false, queues = false;
    std::vector<Words> queued;                   // commands since MULTI
    std::map<std::string, std::string> watched;  // values at the time of WATCH
  };
  std::string answer(const Words& words, Session& session);
  std::string answer_data(const Words& words);
  std::string answer_list(const Words& words);
  std::string transaction(const Words& words, Session& session);

  const Options options_;
  ssl_ctx_st* tls_ = nullptr;
  int listener_ = -1;
  uint16_t port_ = 0;
  std::atomic<size_t> n_connections_{0};

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool down_ = false, silent_ = false;
  size_t pace_bytes_ = 0;
  std::chrono::milliseconds pause_{0};
  Script script_;
  std::map<std::string, std::string> data_;
  std::map<std::string, std::deque<std::string>> lists_;
  RespCollections collections_;
  std::map<std::string, size_t> n_commands_;
  std::list<Connection> connections_;

  std::thread accepting_;
};

}  // namespace ibid
