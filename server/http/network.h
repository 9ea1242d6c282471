// Network: the threads that move bytes, and the sockets that clients come to. It hides Asio and OpenSSL: everything
// else of the server sees transports (transport.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/listening_socket.h"
#include "server/http/transport.h"

namespace ibid::http {

struct NetworkOptions {
  int n_threads = 2;
  std::string certificate_file = {};  // PEM, with its chain; with key_file: TLS on sockets that are not local
  std::string key_file = {};
};

class Network {
 public:
  // On a thread of the network, for each client.
  using OnClient = std::function<void(std::shared_ptr<Transport> transport)>;
  // The process has no descriptors left; on a thread of the network, now and then until it has.
  using OnShortage = std::function<void()>;

  // Errors: kNotFound, kIo, kInvalidArgument naming the file: certificate and key are not there, not readable, not PEM,
  // or do not belong together; kOutOfMemory: there are no threads to be had.
  static Result<std::unique_ptr<Network>> create(const NetworkOptions& options);
  // REQUIRES: stopped, or no transport lives any more.
  ~Network();

  // Serves the clients of a socket from here on.
  void serve(ListeningSocket socket, OnClient on_client, OnShortage on_shortage);
  // Closes the sockets. When this returns no client comes any more. REQUIRES: not on a thread of the network.
  void stop_listening();
  // Ends the threads. REQUIRES: likewise.
  void stop();

 private:
  struct Parts;
  explicit Network(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::http
