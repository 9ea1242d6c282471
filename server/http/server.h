// Server: listens, serves connections with a fixed pool of threads, and shuts down gracefully. Independent of models.
//
// A request is checked in this order: the limits (sizes, deadlines, connections), the Host header (against DNS
// rebinding, only the server's own names are accepted), the Origin header and CORS, the API key, the router.
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
  std::string address = "127.0.0.1";  // addresses to listen on, separated by commas; empty: no TCP
  uint16_t port = 8080;               // port to listen on; 0: any free port
  std::string unix_socket =
      {};  // path of the socket; empty: no Unix socket. Created with mode 0600, removed at the end
  std::string certificate_file = {};  // PEM file; if this file and key_file are set, the TCP address uses TLS
  std::string key_file = {};
  std::vector<ApiKey> api_keys = {};              // empty: requests need no key
  bool insecure = false;                          // allows a non-loopback address without keys
  std::vector<std::string> allowed_hosts = {};    // allowed in Host besides localhost and IP addresses; {"*"}: any name
  std::vector<std::string> allowed_origins = {};  // allowed by CORS besides the server's own; {"*"}: any origin
  int n_threads = 2;                              // threads for I/O and deadlines
  int n_workers = 2;                              // threads for handlers
  size_t max_connections = 1024;                  // if there are more, a connection that waits for its client is closed
  size_t max_header_bytes = 16u << 10;
  size_t max_body_bytes = 64u << 20;
  // Limit for all clients together; the first 64 KiB of each body are not counted.
  size_t max_all_bodies_bytes = 256u << 20;
  size_t max_queued_bytes = 1u << 20;  // limit for one stream; a client that reads more slowly is disconnected
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_timeout{30'000};  // time for a body, plus a second for each 256 KiB received
  // Time for the client to take the next bytes. For all bytes: plus one second for each write_bytes_per_second.
  std::chrono::milliseconds write_timeout{10'000};
  size_t write_bytes_per_second = 64u << 10;
  std::chrono::milliseconds stall_time{1000};      // a client that takes nothing for this time may be evicted
  std::chrono::milliseconds idle_timeout{60'000};  // time between two requests of a connection
  // Called with the record of each exchange, on the thread that releases the exchange last. This thread may hold locks.
  OnRecord on_record = {};
};

// Counters of connections and requests, for /metrics.
struct ServerStats {
  uint64_t n_connections = 0;   // connections since the start
  uint64_t n_open = 0;          // connections that are open now
  uint64_t n_exchanges = 0;     // requests that are answered now
  uint64_t n_requests = 0;      // requests since the start, refused ones included
  uint64_t n_refused = 0;       // requests refused because of limits, Host, Origin or key
  uint64_t n_slow_clients = 0;  // clients that were disconnected for reading too slowly
};

class Server {
 public:
  // Starts to listen. The router is used from any thread. error_body(status, message, path) returns the body of an
  // error response that no handler made (404, 413 ...), because each protocol has its own form of errors. Errors:
  // kInvalidArgument (an option, a key file), kIo naming the address ("in use", and what to use instead), kNotFound for
  // files.
  using ErrorBody = std::function<std::string(int status, std::string_view message, std::string_view path)>;
  static Result<std::unique_ptr<Server>> listen(ServerOptions options, Router router, ErrorBody error_body);
  ~Server();  // calls stop()

  uint16_t port() const;    // 0: no TCP
  std::string url() const;  // "http://127.0.0.1:8080", with the first address
  ServerStats stats() const;

  // Closes the listener. Exchanges continue; each connection closes after its current one.
  void stop_listening();
  // Waits until no exchange is left. Returns false if some are left after `limit`.
  bool wait_until_quiet(std::chrono::milliseconds limit);
  // Requests gone() of every exchange. The clients still receive what the handlers send.
  void cancel_exchanges();
  // Ends everything now: requests gone() of every exchange, and joins the threads.
  void stop();

 private:
  struct Parts;
  explicit Server(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::http
