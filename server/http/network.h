// Network: the threads that move bytes, and the sockets that clients come to. Transport: the bytes of one client,
// whatever carries them.
#pragma once

#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/strand.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/http/listening_socket.h"

namespace ibid::http {

// Over TCP, TLS or a Unix socket, and with a timer. It makes one callback at a time, so its user needs no lock. Nothing
// here waits.
//
// All calls but post() are from within a callback, or before the first. A callback that is due when close() is called
// comes with ok == false.
class Transport {
 public:
  using Done = std::function<void(bool ok, size_t n_bytes)>;
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, Strand>;
  using Timer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand>;

  // tls: nullptr: none. client: address; "local" of a Unix socket.
  Transport(Socket socket, boost::asio::ssl::context* tls, std::string client, bool is_local);

  // TLS has to agree on keys first; without TLS this is done at once.
  void handshake(Done done);
  // Some bytes; 0 and ok: the client sends no more. One at a time. `room` must stay until then.
  void read(std::span<char> room, Done done);
  // Some of these bytes, which must stay until then. One at a time.
  void write(std::string_view bytes, Done done);
  // Nothing is written any more, and the client is told; reading goes on.
  void end_writing();
  void close();
  // Whether the client has closed, or sends no more, though not all of what it sent was read. Costs a system call.
  bool client_has_ended();
  // Returns the state of all bytes that write() took so far. Costs a system call.
  Delivery delivery();
  // Calls `task` at that time; a later call replaces it.
  void wake_at(Clock::time_point when, Task task);
  // Calls `task` soon. From any thread.
  void post(Task task);

  const std::string& client() const { return client_; }
  bool is_local() const { return is_local_; }  // a Unix socket

 private:
  Socket socket_;
  std::optional<boost::asio::ssl::stream<Socket&>> tls_;
  const Strand strand_;
  Timer timer_;
  const std::string client_;
  const bool is_local_;
};

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
