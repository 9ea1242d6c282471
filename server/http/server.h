// Server: listens, serves connections on a fixed pool of threads, and ends in order. It knows no model.
//
// A request passes, in this order: the limits (sizes, deadlines, connections), the Host header (a name that is not the
// server's own is refused, against DNS rebinding), the Origin header and CORS, the API key, the router.
//
// Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/api_keys.h"
#include "server/http/reply.h"
#include "server/http/router.h"

namespace ibid::http {

struct ServerOptions {
  std::string address = "127.0.0.1";  // empty: no TCP
  uint16_t port = 8080;               // 0: any free one
  std::string unix_socket = {};       // a path; empty: none. Made with 0600, removed at the end
  std::string certificate_file = {};  // PEM; with key_file: TLS on the TCP address
  std::string key_file = {};
  std::vector<ApiKey> api_keys = {};  // none: everybody may
  bool insecure = false;              // an address beyond this machine without a key is refused unless this is set
  std::vector<std::string> allowed_hosts = {};    // names in Host besides localhost and addresses; {"*"}: any
  std::vector<std::string> allowed_origins = {};  // for CORS, besides the server's own; {"*"}: any
  int n_threads = 2;                              // for bytes and deadlines
  int n_workers = 2;                              // for handlers
  size_t max_connections = 1024;                  // beyond it one that waits for its client gives way
  size_t max_header_bytes = 16 * 1024;
  size_t max_body_bytes = 64u << 20;
  size_t max_all_bodies_bytes = 256u << 20;  // of all clients at once, the first 64 KiB of each not counted
  size_t max_queued_bytes = 1u << 20;        // of one stream; a client further behind loses its place
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{30'000};   // and a second for each 256 KiB that have come
  std::chrono::milliseconds write_timeout{10'000};  // for what is sent to be taken, and a second for each:
  size_t write_bytes_per_second = 64 * 1024;
  std::chrono::milliseconds stall_time{1000};      // who has not taken what was sent by then may have to give way
  std::chrono::milliseconds idle_timeout{60'000};  // between two requests of a connection
  // Hears what became of each exchange, on the thread that lets go of it last, whatever locks that thread holds.
  OnRecord on_record = {};
};

// What happened at the door; for /metrics.
struct ServerStats {
  uint64_t n_connections = 0;   // ever
  uint64_t n_open = 0;          // now
  uint64_t n_exchanges = 0;     // now
  uint64_t n_requests = 0;      // whole ones, and those that were refused
  uint64_t n_refused = 0;       // by limits, Host, Origin or key
  uint64_t n_slow_clients = 0;  // that lost their place
};

class Server {
 public:
  // Listens from here on; the router is asked from any thread. Makes the text of an error that no handler wrote (404,
  // 413 ...) with `error_body(status, message, path)`, because each protocol has its own form. Errors: kInvalidArgument
  // (an option, a key file), kIo naming the address ("in use", and by what to replace it), kNotFound for files.
  using ErrorBody = std::function<std::string(int status, std::string_view message, std::string_view path)>;
  static Result<std::unique_ptr<Server>> listen(ServerOptions options, Router router, ErrorBody error_body);
  ~Server();  // as stop()

  uint16_t port() const;    // 0: no TCP
  std::string url() const;  // "http://127.0.0.1:8080"
  ServerStats stats() const;

  // Closes the listener. Exchanges go on; connections end behind the one that they are at.
  void stop_listening();
  // Waits until no exchange is under way. False: some are, at the end of the time.
  bool wait_until_quiet(std::chrono::milliseconds limit);
  // Tells every exchange that it is to end (gone()), while its client can still hear what it says to that.
  void cancel_exchanges();
  // Ends everything now: gone() of every exchange, and the threads of the pool.
  void stop();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::http
