// ConnectionTable: who is connected, and who of them gives way when the table is full. It is one who is waiting for its
// client's next request, for the longest time: so clients that open connections and say nothing cost others nothing.
// Who is being answered never gives way.
//
// Thread-safe. It owns no connection: their transports do.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace ibid::http {

class Connection;

class ConnectionTable {
 public:
  explicit ConnectionTable(size_t most) : most_(most) {}

  // Takes it in, in the state of waiting. Where the table is full, another one gives way; false: none can. Until that
  // one has gone there is one more than the most.
  bool add(const std::shared_ptr<Connection>& connection);
  void remove(const Connection* connection);
  // The connection waits for a request from now on, or is being answered. No effect on one that is not here.
  void set_waiting(const Connection* connection, bool waiting);

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
    std::list<const Connection*>::iterator waiting;  // waiting_.end(): it is answered, or gives way
  };
  std::shared_ptr<Connection> take_longest_waiting();  // REQUIRES: the lock is held

  const size_t most_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::unordered_map<const Connection*, Place> places_;
  std::list<const Connection*> waiting_;  // the longest first
  uint64_t n_ever_ = 0;
};

}  // namespace ibid::http
