// ConnectionPool: the connections of one program to one server, and the circuit breaker of that server. A thread of the
// pool makes the probes, so no caller waits for a server that is down.
//
// Thread-safe. Leases must not outlive the pool.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time_limits.h"
#include "net/circuit_breaker.h"
#include "net/connector.h"
#include "net/resp_client.h"

namespace ibid::net {

class ConnectionPool {
 public:
  // Limit of a connection attempt and of a probe.
  static constexpr int64_t kConnectNs = 1'000'000'000;

  // A connection that one caller has. The destructor gives a reusable connection back to the pool.
  class Lease {
   public:
    Lease(Lease&& other) noexcept = default;
    ~Lease();
    RespClient& operator*() { return *client_; }
    RespClient* operator->() { return client_.get(); }

   private:
    friend class ConnectionPool;
    Lease(ConnectionPool& pool, std::unique_ptr<RespClient> client) : pool_(&pool), client_(std::move(client)) {}
    ConnectionPool* pool_;
    std::unique_ptr<RespClient> client_;
  };

  // Throws std::system_error if no thread can be started.
  explicit ConnectionPool(Connector connector);
  ConnectionPool(const ConnectionPool&) = delete;
  ConnectionPool& operator=(const ConnectionPool&) = delete;

  // Connects now, for at most kConnectNs, so that an unreachable server is reported at the start and not by the first
  // call. After an error the breaker is open.
  Status try_now();

  // Returns an idle connection, or makes one. Errors: kBusy, with the reason, while the breaker is open; those of
  // RespClient::connect(), after which the breaker is open unless the limits of the caller were the reason.
  Result<Lease> take(const TimeLimits& limits);

  // Reports the outcome of a call to the breaker. kDeadline counts as a failure only if the call has waited for
  // kSlowNs, because a short deadline says little about the server; kCancelled and kOutOfMemory do not count.
  static constexpr int64_t kSlowNs = 25'000'000;
  void report(const Status& status, int64_t waited_ns);

  // Sets a function that is called when the breaker opens, with the reason, and when it closes, with an empty text; not
  // for the pauses between. It is called by threads that use the server, and must be quick.
  using OnChange = std::function<void(const std::string& reason)>;
  void set_on_change(OnChange on_change);

  const CircuitBreaker& breaker() const { return breaker_; }
  const ServerAddress& address() const { return connector_.address(); }
  Clock& clock() const { return connector_.clock(); }

 private:
  void give_back(std::unique_ptr<RespClient> client) noexcept;
  void open(const Status& why);
  void notify_change();
  void run(const std::stop_token& stop);
  Status probe(const std::stop_token& stop);

  const Connector connector_;
  CircuitBreaker breaker_;
  std::mutex mutex_;                               // guards the members below
  std::vector<std::unique_ptr<RespClient>> idle_;  // reserved for kMaxIdle
  OnChange on_change_;
  bool is_open_ = false;                // as on_change_ was called last
  std::condition_variable_any opened_;  // signalled when the breaker may have been opened

  std::jthread thread_;  // last, because it uses all other members
};

}  // namespace ibid::net
