#include "net/connection_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <thread>

#include "tests/support/manual_clock.h"
#include "tests/support/resp_server.h"

namespace ibid::net {
namespace {

using State = CircuitBreaker::State;
constexpr int64_t kMs = 1'000'000;

Connector connector_to(const RespServer& server, Clock& clock = system_clock()) {
  return *Connector::create(*ServerAddress::parse(server.url()), true, clock);
}

// Waits until the server has accepted n connections, for at most ten seconds: connect() succeeds before the server's
// thread accepts. Returns the number accepted then.
size_t n_accepted(const RespServer& server, size_t n) {
  for (int i = 0; i < 1000 && server.n_connections() < n; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return server.n_connections();
}

// Waits until the breaker is in a state, for at most ten seconds.
bool becomes(const ConnectionPool& pool, State state) {
  for (int i = 0; i < 1000; ++i) {
    if (pool.breaker().state() == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST(ConnectionPool, ConnectionsAreReusedUnlessTheyAreBroken) {
  RespServer server;
  ConnectionPool pool(connector_to(server));
  ASSERT_TRUE(pool.try_now().ok());
  for (int i = 0; i < 5; ++i) {
    auto lease = pool.take({});
    ASSERT_TRUE(lease.ok());
    EXPECT_TRUE((*lease)->call(resp_command({"PING"}), {}).ok());
  }
  EXPECT_EQ(n_accepted(server, 1u), 1u);
  {
    auto one = pool.take({}), two = pool.take({});
    ASSERT_TRUE(one.ok() && two.ok());
    ASSERT_TRUE((*one)->send(resp_command({"PING"}), {}).ok()) << "its answer is not read";
  }
  EXPECT_EQ(n_accepted(server, 2u), 2u);
  ASSERT_TRUE(pool.take({}).ok());
  EXPECT_EQ(n_accepted(server, 2u), 2u);
  server.set_down(true);
  server.set_down(false);
  EXPECT_TRUE(pool.take({}).ok()) << "a connection that the server closed is replaced";
  EXPECT_EQ(n_accepted(server, 3u), 3u);
}

TEST(ConnectionPool, UnreachableServerOpensTheBreakerAndComesBack) {
  RespServer server;
  server.set_down(true);
  ManualClock clock;
  ConnectionPool pool(connector_to(server, clock));
  EXPECT_EQ(pool.try_now().code(), ErrorCode::kIo);
  EXPECT_EQ(pool.breaker().state(), State::kOpen);
  const size_t n_connections = server.n_connections();
  EXPECT_EQ(pool.take({}).status().code(), ErrorCode::kBusy);
  EXPECT_FALSE(pool.take({}).status().message().empty());
  server.set_down(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(server.n_connections(), n_connections) << "no probe before its time";
  clock.advance(1000 * kMs);
  ASSERT_TRUE(becomes(pool, State::kTrial));
  const auto lease = pool.take({});
  ASSERT_TRUE(lease.ok());
  EXPECT_EQ(n_accepted(server, n_connections + 1), n_connections + 1) << "the probe's connection is used";
  pool.report(Status(), 0);
  EXPECT_EQ(pool.breaker().state(), State::kClosed);
}

TEST(ConnectionPool, OutcomesOfCallsDecide) {
  RespServer server;
  ManualClock clock;
  ConnectionPool pool(connector_to(server, clock));
  const Status late(ErrorCode::kDeadline, "late"), failed(ErrorCode::kTruncated, "closed");
  for (int i = 0; i < 10; ++i) {
    pool.report(Status(ErrorCode::kCancelled, "stopped"), 1000 * kMs);
    pool.report(late, ConnectionPool::kSlowNs - 1);
  }
  EXPECT_EQ(pool.breaker().state(), State::kClosed) << "these say little about the server";
  pool.report(late, ConnectionPool::kSlowNs);
  pool.report(failed, 0);
  EXPECT_EQ(pool.breaker().state(), State::kClosed);
  pool.report(late, ConnectionPool::kSlowNs);
  EXPECT_EQ(pool.breaker().state(), State::kOpen);
}

TEST(ConnectionPool, ServerThatAnswersProbesOnlyInPartStaysOpen) {
  RespServer server;
  server.set_script([](const RespServer::Words& words) -> std::optional<std::string> {
    if (words[0] == "PING") return "-LOADING Redis is loading the dataset in memory\r\n";
    return std::nullopt;
  });
  ManualClock clock;
  ConnectionPool pool(connector_to(server, clock));
  EXPECT_EQ(pool.try_now().code(), ErrorCode::kBusy);
  EXPECT_EQ(pool.breaker().state(), State::kOpen);
  server.set_script({});
  clock.advance(2000 * kMs);
  EXPECT_TRUE(becomes(pool, State::kTrial));
}

TEST(ConnectionPool, DestructorDoesNotWaitForAProbe) {
  RespServer server;
  server.set_silent(true);
  ManualClock clock;
  std::optional<ConnectionPool> pool(std::in_place, connector_to(server, clock));
  pool->report(Status(ErrorCode::kIo, "a"), 0);
  pool->report(Status(ErrorCode::kIo, "b"), 0);
  pool->report(Status(ErrorCode::kIo, "c"), 0);
  clock.advance(2000 * kMs);
  for (int i = 0; i < 500 && server.n_commands("PING") == 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(server.n_commands("PING"), 1u) << "the probe waits; with this clock it has no end";
  pool.reset();
}

}  // namespace
}  // namespace ibid::net
