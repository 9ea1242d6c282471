// Network: the I/O threads, and the sockets to which clients connect. Transport: the byte stream of one client, over
// TCP, TLS or a Unix socket.
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
#include <utility>

#include "base/result.h"
#include "server/http/listening_socket.h"

namespace ibid::http {

// Calls `task`. Returns false if it threw: libraries throw if memory is short, and a shortage that one client caused
// must not end the requests of all clients. The exception is not logged, because its message may quote text from a
// client.
template <typename Task>
bool guarded(Task&& task) noexcept {
  try {
    std::forward<Task>(task)();
    return true;
  } catch (...) {
    return false;
  }
}

// A byte stream over TCP, TLS or a Unix socket, with a timer. It makes callbacks one at a time, so its user needs no
// lock. Never blocks.
//
// All calls except post() are made within a callback, or before the first callback. Callbacks that are pending when
// close() is called get ok == false.
class Transport {
 public:
  using Done = std::function<void(bool ok, size_t n_bytes)>;
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;
  using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;
  using Socket = boost::asio::basic_stream_socket<boost::asio::generic::stream_protocol, Strand>;
  using Timer = boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, Strand>;

  // tls: the TLS context; nullptr: no TLS. client: address of the client; "local" for a Unix socket.
  Transport(Socket socket, boost::asio::ssl::context* tls, std::string client, bool is_local);

  // Performs the TLS handshake. Without TLS, `done` is called at once.
  void handshake(Done done);
  // Reads some bytes. `done` gets 0 bytes and ok if the client's input has ended. One read at a time. `room` must stay
  // valid until `done` is called.
  void read(std::span<char> room, Done done);
  // Writes some of these bytes, which must stay valid until `done` is called. One write at a time.
  void write(std::string_view bytes, Done done);
  // Shuts down the sending side; reading continues.
  void end_writing();
  void close();
  // True if the client has closed or shut down its side, even if bytes of it are still unread. Costs a system call.
  bool client_has_ended();
  // Returns whether all bytes written so far have arrived. Costs a system call.
  Delivery delivery();
  // Calls `task` at `when`; replaces the task of an earlier call.
  void wake_at(Clock::time_point when, Task task);
  // Calls `task` soon as a callback of this transport: on a network thread, not during another callback. May be called
  // from any thread.
  void post(Task task);

  const std::string& client() const { return client_; }
  bool is_local() const { return is_local_; }  // connected over a Unix socket

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
  // PEM file with the certificate's chain. If this and key_file are set, all sockets except local ones use TLS.
  std::string certificate_file = {};
  std::string key_file = {};
};

class Network {
 public:
  // Called on a network thread for each client that connects.
  using OnClient = std::function<void(std::shared_ptr<Transport> transport)>;
  // Called repeatedly on a network thread while the process has no free file descriptors.
  using OnShortage = std::function<void()>;

  // Errors, naming the file: kNotFound, kIo, kInvalidArgument if certificate or key are missing, unreadable, not PEM,
  // or do not match. kOutOfMemory if threads cannot be created.
  static Result<std::unique_ptr<Network>> create(const NetworkOptions& options);
  // REQUIRES: stop() was called, or no transport exists any more.
  ~Network();

  // Starts to accept the clients of a socket.
  void serve(ListeningSocket socket, OnClient on_client, OnShortage on_shortage);
  // Closes the sockets. No client is accepted after it returns. REQUIRES: not called on a network thread.
  void stop_listening();
  // Ends the threads. REQUIRES: not called on a network thread.
  void stop();

 private:
  struct Parts;
  explicit Network(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace ibid::http
