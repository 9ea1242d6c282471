// ServerRoom: what all connections of a server share. Each part of it is thread-safe by itself.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "server/http/reply.h"
#include "server/http/request_filter.h"
#include "server/http/server.h"

namespace ibid::http {

// BodyBudget: how much memory the bodies of all clients may have at once. The first bytes of a body are free, so that a
// few clients with large bodies do not lock out those with small ones; their number is bounded by that of connections.
//
// BodyBudget is thread-safe; an Allowance is its owner's.
class BodyBudget {
 public:
  static constexpr size_t kFree = 64 * 1024;  // of each body

  explicit BodyBudget(size_t n_bytes) : n_bytes_(n_bytes) {}

 private:
  friend class BodyAllowance;
  const size_t n_bytes_;
  std::atomic<size_t> n_taken_{0};
};

// The share of one body in the budget. Gives it back at its end.
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

  // The body has so many bytes now. False: there is no room for them, and nothing was taken.
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

// ConnectionTable: all connections, and which of them gives way when the table is full. It is the one that has waited
// for its client for the longest time: for the rest of a request, or for what was sent to be read. So clients that open
// connections and say nothing, or ask and do not read, cost others nothing. Who is being answered and reads that never
// gives way.
//
// It owns no connection: their transports do.
class Connection;

class ConnectionTable {
 public:
  explicit ConnectionTable(size_t most) : most_(most) {}

  // Takes it in, in the state of waiting. Where the table is full, another one gives way; false: none can. Until that
  // one has gone there is one more than the most.
  bool add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  // The connection waits for its client from now on, or does not. No effect on one that is not here.
  void set_waiting(const Connection* connection, bool waiting);
  // Its client has shown that it is at work: the others that wait give way first.
  void wait_anew(const Connection* connection);

  // Calls `act` for each, without a lock.
  void for_each(const std::function<void(Connection&)>& act) const;
  // The one that has waited longest gives way: the process is out of descriptors, say.
  void make_room();
  void wait_until_empty() const;

  uint64_t n_ever() const;
  size_t n_open() const;

 private:
  struct Place {
    std::weak_ptr<Connection> connection;
    std::list<const Connection*>::iterator waiting;  // waiting_.end(): it does not wait, or gives way
  };
  std::shared_ptr<Connection> take_longest_waiting();  // REQUIRES: the lock is held

  const size_t most_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<const Connection*, Place> places_;
  std::list<const Connection*> waiting_;  // the longest first
  uint64_t n_ever_ = 0;
};

// WorkerPool: the threads that handlers run on, so that one that takes its time holds up no other connection's bytes.
class WorkerPool {
 public:
  explicit WorkerPool(int n_threads);  // throws std::system_error where there is no thread to be had
  ~WorkerPool();                       // as stop()
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Runs it on one of the threads. After stop() it is dropped. An exception of a task ends with the task.
  void run(std::function<void()> task);
  // Drops what waits, and returns when no task runs any more.
  void stop();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::function<void()>> tasks_;
  bool is_stopped_ = false;
  std::vector<std::thread> threads_;
};

// Counts the exchanges under way, and waits for the last of them.
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
  ServerRoom(const ServerOptions& server_options, RequestFilter server_door, Server::ErrorBody server_error_body)
      : options(server_options),
        door(std::move(server_door)),
        error_body(std::move(server_error_body)),
        report(std::make_shared<const OnRecord>(
            [slow = n_slow_clients, on_record = options.on_record](const ExchangeRecord& record) {
              *slow += record.client_slow ? 1 : 0;
              if (on_record) on_record(record);
            })),
        bodies(std::make_shared<BodyBudget>(options.max_all_bodies_bytes)),
        connections(options.max_connections),
        workers(options.n_workers) {}

  // A handler may let go of its exchange, and so report it, when the room is gone.
  const std::shared_ptr<std::atomic<uint64_t>> n_slow_clients = std::make_shared<std::atomic<uint64_t>>(0);
  const ServerOptions options;
  const RequestFilter door;
  const Server::ErrorBody error_body;
  const std::shared_ptr<const OnRecord> report;
  const std::shared_ptr<BodyBudget> bodies;
  ConnectionTable connections;
  WorkerPool workers;
  ExchangeCount exchanges;
  std::atomic<bool> is_closing{false};  // connections end behind the exchange that they are at
  std::atomic<uint64_t> n_requests{0}, n_refused{0};
};

}  // namespace ibid::http
