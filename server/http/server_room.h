// ServerRoom: the state that all connections of a server share. Each member is thread-safe by itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "base/work_threads.h"
#include "server/http/reply.h"
#include "server/http/request_filter.h"
#include "server/http/server.h"

namespace ibid::http {

// BodyBudget: limits the memory for the bodies of all clients. The first bytes of each body are not counted, so that a
// few large bodies do not lock out small ones; the number of connections bounds their total. BodyBudget is thread-safe;
// BodyAllowance is not.
class BodyBudget {
 public:
  static constexpr size_t kFree = 64u << 10;  // bytes of each body that are not counted

  explicit BodyBudget(size_t n_bytes) : n_bytes_(n_bytes) {}

 private:
  friend class BodyAllowance;
  const size_t n_bytes_;
  std::atomic<size_t> n_taken_{0};
};

// The share of one body in the budget. The destructor returns it.
class BodyAllowance {
 public:
  BodyAllowance() = default;
  explicit BodyAllowance(std::shared_ptr<BodyBudget> budget) : budget_(std::move(budget)) {}
  BodyAllowance(BodyAllowance&& other) noexcept
      : budget_(std::move(other.budget_)), n_taken_(std::exchange(other.n_taken_, 0)) {}
  BodyAllowance& operator=(BodyAllowance&& other) noexcept {
    std::swap(budget_, other.budget_);
    std::swap(n_taken_, other.n_taken_);
    return *this;
  }
  ~BodyAllowance() {
    if (budget_ != nullptr) budget_->n_taken_ -= n_taken_;
  }

  // Sets the size of the body. Returns false and takes nothing if the budget is exceeded.
  bool grow_to(size_t n_bytes) {
    const size_t wanted = saturating_sub(n_bytes, BodyBudget::kFree);
    if (budget_ == nullptr || wanted <= n_taken_) return true;
    const size_t more = wanted - n_taken_;
    if (budget_->n_taken_.fetch_add(more) + more > budget_->n_bytes_) {
      budget_->n_taken_ -= more;
      return false;
    }
    n_taken_ = wanted;
    return true;
  }

 private:
  std::shared_ptr<BodyBudget> budget_;
  size_t n_taken_ = 0;
};

// ConnectionTable: all connections. If it is full, the connection that has waited longest for its client is evicted. A
// connection waits for the rest of a request, or for its client to read. So clients that open connections and send
// nothing, or send requests and do not read, cannot keep others out. A connection is never evicted while its client
// reads a response. The connections are owned by their transports, not by the table.
class Connection;

class ConnectionTable {
 public:
  explicit ConnectionTable(size_t most) : most_(most) {}

  // Adds a connection, as waiting. If the table is full, evicts another connection, and exceeds the maximum by one
  // until the evicted one has closed. Returns false if no connection can be evicted.
  bool add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  // Sets whether the connection waits for its client. Has no effect if the connection is not in the table.
  void set_waiting(const Connection* connection, bool waiting);
  // Moves the connection to the end of the eviction order, because its client has made progress.
  void wait_anew(const Connection* connection);

  // Calls `act` for each connection, without a lock.
  void for_each(const std::function<void(Connection&)>& act) const;
  // Evicts the connection that has waited longest; called if the process has no descriptors left.
  void make_room();
  void wait_until_empty() const;

  uint64_t n_ever() const;
  size_t n_open() const;

 private:
  struct Place {
    std::weak_ptr<Connection> connection;
    std::list<const Connection*>::iterator waiting;  // position in waiting_; end(): not waiting, or being evicted
  };
  std::shared_ptr<Connection> take_longest_waiting();  // REQUIRES: mutex_ is held

  const size_t most_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<const Connection*, Place> places_;
  std::list<const Connection*> waiting_;  // the connection that has waited longest is first
  uint64_t n_ever_ = 0;
};

// Counts the current exchanges, and waits until all have ended.
class ExchangeCount {
 public:
  void add() { n_.fetch_add(1); }
  void remove() {
    const std::lock_guard lock(mutex_);
    if (n_.fetch_sub(1) == 1) quiet_.notify_all();
  }
  size_t n() const { return n_.load(); }
  bool wait_for_none(std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    return quiet_.wait_for(lock, limit, [this] { return n_.load() == 0; });
  }

 private:
  std::atomic<size_t> n_{0};
  std::mutex mutex_;
  std::condition_variable quiet_;
};

struct ServerRoom {
  ServerRoom(const ServerOptions& server_options, RequestFilter server_filter, Server::ErrorBody server_error_body)
      : options(server_options),
        filter(std::move(server_filter)),
        error_body(std::move(server_error_body)),
        report(std::make_shared<const OnRecord>(
            [slow = n_slow_clients, on_record = options.on_record](const ExchangeRecord& record) {
              *slow += record.client_slow ? 1 : 0;
              if (on_record) on_record(record);
            })),
        bodies(std::make_shared<BodyBudget>(options.max_all_bodies_bytes)),
        connections(options.max_connections),
        workers(static_cast<size_t>(options.n_workers), "ibid-worker") {}

  // Shared with the exchanges, because a handler may release its exchange, and so report its record, after the room was
  // destroyed.
  const std::shared_ptr<std::atomic<uint64_t>> n_slow_clients = std::make_shared<std::atomic<uint64_t>>(0);
  const ServerOptions options;
  const RequestFilter filter;
  const Server::ErrorBody error_body;
  const std::shared_ptr<const OnRecord> report;
  const std::shared_ptr<BodyBudget> bodies;
  ConnectionTable connections;
  WorkThreads workers;  // run handlers, so that a slow handler does not delay the I/O of other connections
  ExchangeCount exchanges;
  std::atomic<bool> is_closing{false};  // connections close after their current exchange
  std::atomic<uint64_t> n_requests{0}, n_refused{0};
};

}  // namespace ibid::http
