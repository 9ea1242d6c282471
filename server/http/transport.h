// Transport: the bytes of one client, whatever carries them (TCP, TLS, a Unix socket), and its time. What it calls back
// comes one call at a time, so whoever uses one needs no lock. Nothing here waits.
//
// All calls but post() are from within a callback, or before the first. A callback that is due when close() is called
// comes with ok == false.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace ibid::http {

// The state of bytes that were written to a client.
enum class Delivery { kUnderWay, kDone, kLost };

class Transport {
 public:
  using Done = std::function<void(bool ok, size_t n_bytes)>;
  using Task = std::function<void()>;

  virtual ~Transport() = default;

  // TLS has to agree on keys first; where there is none, this is done at once.
  virtual void handshake(Done done) = 0;
  // Some bytes; 0 and ok: the client sends no more. One at a time. `room` must stay until then.
  virtual void read(std::span<char> room, Done done) = 0;
  // Some of these bytes, which must stay until then. One at a time.
  virtual void write(std::string_view bytes, Done done) = 0;
  // Nothing is written any more, and the client is told; reading goes on.
  virtual void end_writing() = 0;
  virtual void close() = 0;
  // Whether the client has closed, or sends no more, though not all of what it sent was read. Costs a system call.
  virtual bool client_has_ended() const = 0;
  // Returns the state of all bytes that write() took so far. Costs a system call.
  virtual Delivery delivery() const = 0;
  // Calls `task` at that time; a later call replaces it.
  virtual void wake_at(std::chrono::steady_clock::time_point when, Task task) = 0;
  // Calls `task` soon. From any thread.
  virtual void post(Task task) = 0;

  virtual const std::string& client() const = 0;  // address; "local" of a Unix socket
  virtual bool is_local() const = 0;              // a Unix socket
};

}  // namespace ibid::http
