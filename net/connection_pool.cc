#include "net/connection_pool.h"

#include <algorithm>
#include <chrono>

namespace ibid::net {

namespace {

constexpr size_t kMaxIdle = 4;

}  // namespace

ConnectionPool::Lease::~Lease() {
  if (client_ != nullptr) pool_->give_back(std::move(client_));
}

ConnectionPool::ConnectionPool(Connector connector) : connector_(std::move(connector)), breaker_(connector_.clock()) {
  idle_.reserve(kMaxIdle);
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void ConnectionPool::give_back(std::unique_ptr<RespClient> client) noexcept {
  if (!client->is_reusable()) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMaxIdle) idle_.push_back(std::move(client));
}

Status ConnectionPool::try_now() {
  const Status status = probe({});
  if (!status.ok()) open(status);
  return status;
}

Result<ConnectionPool::Lease> ConnectionPool::take(const TimeLimits& limits) {
  if (!breaker_.allows_calls()) return {ErrorCode::kBusy, breaker_.reason()};
  for (;;) {
    std::unique_ptr<RespClient> client;
    {
      const std::lock_guard lock(mutex_);
      if (idle_.empty()) break;
      client = std::move(idle_.back());
      idle_.pop_back();
    }
    if (client->is_reusable()) return Lease(*this, std::move(client));
  }
  const int64_t begin_ns = clock().steady_ns();
  Result<std::unique_ptr<RespClient>> made = RespClient::connect(connector_, limits.within(kConnectNs, clock()));
  if (made.ok()) return Lease(*this, *std::move(made));
  const ErrorCode code = made.status().code();
  if (code == ErrorCode::kDeadline) {
    report(made.status(), clock().steady_ns() - begin_ns);
  } else if (code != ErrorCode::kCancelled && code != ErrorCode::kOutOfMemory) {
    open(made.status());
  }
  return made.status();
}

void ConnectionPool::report(const Status& status, int64_t waited_ns) {
  if (status.ok()) {
    breaker_.call_succeeded();
    return notify_change();
  }
  if (status.code() == ErrorCode::kCancelled || status.code() == ErrorCode::kOutOfMemory) return;
  if (status.code() == ErrorCode::kDeadline && waited_ns < kSlowNs) return;
  breaker_.call_failed(status);
  if (!breaker_.allows_calls()) open(status);
}

// Opens the breaker if it is not open yet, closes the idle connections, and wakes the thread that makes probes.
void ConnectionPool::open(const Status& why) {
  if (breaker_.allows_calls()) breaker_.open(why);
  {
    const std::lock_guard lock(mutex_);
    idle_.clear();
  }
  opened_.notify_all();
  notify_change();
}

void ConnectionPool::set_on_change(OnChange on_change) {
  const std::lock_guard lock(mutex_);
  on_change_ = std::move(on_change);
}

void ConnectionPool::notify_change() {
  const CircuitBreaker::State state = breaker_.state();
  if (state == CircuitBreaker::State::kTrial) return;
  OnChange on_change;
  {
    const std::lock_guard lock(mutex_);
    const bool is_open = state == CircuitBreaker::State::kOpen;
    if (is_open == is_open_) return;
    is_open_ = is_open;
    on_change = on_change_;
  }
  if (on_change) on_change(breaker_.reason());
}

Status ConnectionPool::probe(const std::stop_token& stop) {
  return guarded([&]() -> Status {
    const TimeLimits limits = TimeLimits{.stop = stop}.within(kConnectNs, clock());
    TRY_ASSIGN(std::unique_ptr<RespClient> client, RespClient::connect(connector_, limits));
    TRY_ASSIGN(const RespValue answer, client->call(resp_command({"PING"}), limits));
    if (!answer.is("PONG")) return unexpected(answer, "PONG");
    give_back(std::move(client));
    return {};
  });
}

void ConnectionPool::run(const std::stop_token& stop) {
  constexpr int64_t kMaxSleepNs = 100'000'000;  // an injected clock may run faster than real time
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    const int64_t due_in_ns = breaker_.probe_due_in_ns();
    if (due_in_ns < 0) {
      opened_.wait(lock, stop, [this] { return !breaker_.allows_calls(); });
      continue;
    }
    if (due_in_ns > 0) {
      const auto sleep = std::chrono::nanoseconds(std::min(due_in_ns, kMaxSleepNs));
      opened_.wait_for(lock, stop, sleep, [] { return false; });
      continue;
    }
    lock.unlock();
    const Status status = probe(stop);
    status.ok() ? breaker_.probe_succeeded() : breaker_.probe_failed(status);
    lock.lock();
  }
}

}  // namespace ibid::net
