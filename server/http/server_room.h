// ServerRoom: what all connections of a server share. Each part of it is thread-safe by itself.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "server/http/body_budget.h"
#include "server/http/connection_table.h"
#include "server/http/door.h"
#include "server/http/reply.h"
#include "server/http/server.h"
#include "server/http/worker_pool.h"

namespace ibid::http {

// How many exchanges are under way, and a sleep until there are none.
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
  ServerRoom(const ServerOptions& server_options, Door server_door, Server::ErrorBody server_error_body)
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
  const Door door;
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
