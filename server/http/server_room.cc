#include "server/http/server_room.h"

#include "server/http/connection.h"

namespace ibid::http {

bool ConnectionTable::add(const std::shared_ptr<Connection>& connection) {
  std::shared_ptr<Connection> displaced;
  {
    const std::lock_guard lock(mutex_);
    if (places_.size() >= most_) {
      displaced = take_longest_waiting();
      if (displaced == nullptr) return false;
    }
    ++n_ever_;
    waiting_.push_back(connection.get());
    places_[connection.get()] = {connection, std::prev(waiting_.end())};
  }
  if (displaced != nullptr) displaced->give_way();
  return true;
}

std::shared_ptr<Connection> ConnectionTable::take_longest_waiting() {
  while (!waiting_.empty()) {
    Place& place = places_.find(waiting_.front())->second;
    waiting_.pop_front();
    place.waiting = waiting_.end();
    if (std::shared_ptr<Connection> connection = place.connection.lock()) return connection;
  }
  return nullptr;
}

void ConnectionTable::make_room() {
  std::shared_ptr<Connection> displaced;
  {
    const std::lock_guard lock(mutex_);
    displaced = take_longest_waiting();
  }
  if (displaced != nullptr) displaced->give_way();
}

void ConnectionTable::remove(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(connection);
  if (place == places_.end()) return;
  if (place->second.waiting != waiting_.end()) waiting_.erase(place->second.waiting);
  places_.erase(place);
  changed_.notify_all();
}

void ConnectionTable::set_waiting(const Connection* connection, bool waiting) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(connection);
  if (place == places_.end() || (place->second.waiting != waiting_.end()) == waiting) return;
  if (waiting) {
    waiting_.push_back(connection);
    place->second.waiting = std::prev(waiting_.end());
  } else {
    waiting_.erase(place->second.waiting);
    place->second.waiting = waiting_.end();
  }
}

void ConnectionTable::wait_anew(const Connection* connection) {
  const std::lock_guard lock(mutex_);
  const auto place = places_.find(connection);
  if (place == places_.end() || place->second.waiting == waiting_.end()) return;
  waiting_.splice(waiting_.end(), waiting_, place->second.waiting);
}

void ConnectionTable::for_each(const std::function<void(Connection&)>& act) const {
  std::vector<std::shared_ptr<Connection>> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [key, place] : places_) {
      if (std::shared_ptr<Connection> connection = place.connection.lock()) all.push_back(std::move(connection));
    }
  }
  for (const auto& connection : all) act(*connection);
}

void ConnectionTable::wait_until_empty() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return places_.empty(); });
}

uint64_t ConnectionTable::n_ever() const {
  const std::lock_guard lock(mutex_);
  return n_ever_;
}

size_t ConnectionTable::n_open() const {
  const std::lock_guard lock(mutex_);
  return places_.size();
}

}  // namespace ibid::http
