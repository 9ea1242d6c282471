// The client with a real server.
#include <gtest/gtest.h>

#include "net/connection_pool.h"
#include "net/resp_client.h"
#include "tests/support/redis_server.h"

namespace ibid::net {
namespace {

constexpr int64_t kMs = 1'000'000;

class RedisServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (redis_server_program().empty()) GTEST_SKIP() << "redis-server is not installed (Debian: redis-server)";
  }
  static Connector connector_to(const RedisServer& server, const std::string& login = "") {
    std::string url = server.url();
    if (!login.empty()) url.replace(0, 5, "unix://" + login + "@");
    return *Connector::create(*ServerAddress::parse(url), true);
  }
};

TEST_F(RedisServerTest, ValuesAreStoredReadAndRemoved) {
  const RedisServer server;
  ASSERT_TRUE(server.is_ready());
  const auto client = RespClient::connect(connector_to(server), {});
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  std::string value(8'000'000, 'v');
  value[7] = '\r', value[8] = '\n', value[9] = '\0';
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(value))};
  RespRequest request;
  request.command(5).word("SET").word("k").value(pieces).word("EX").word(int64_t{100});
  request.command(4).word("GETEX").word("k").word("EX").word(int64_t{100});
  request.command(2).word("INCR").word("n");
  request.command(2).word("DEL").word("k");
  request.command(2).word("GET").word("k");
  request.command(2).word("LPUSH").word("n");
  ASSERT_TRUE((*client)->send(request, {}).ok());
  EXPECT_TRUE((*client)->receive({})->is("OK"));
  std::vector<std::byte> room(value.size());
  EXPECT_EQ((*client)->receive({}, room)->n_bytes, value.size());
  EXPECT_TRUE(std::ranges::equal(room, pieces[0]));
  EXPECT_EQ((*client)->receive({})->integer, 1);
  EXPECT_EQ((*client)->receive({})->integer, 1);
  EXPECT_EQ((*client)->receive({})->kind, RespValue::Kind::kNull);
  EXPECT_EQ(status_of(*(*client)->receive({})).code(), ErrorCode::kUnsupported);
  EXPECT_TRUE((*client)->is_reusable());
}

TEST_F(RedisServerTest, UserWithFewRightsSuffices) {
  const RedisServer server({"--user", "default", "off", "--user", "ibid", "on", ">pass", "~ibid:3:*", "+get", "+getex",
                            "+set", "+del", "+ping"});
  ASSERT_TRUE(server.is_ready());
  EXPECT_EQ(RespClient::connect(connector_to(server, "ibid:wrong"), {}).status().code(), ErrorCode::kInvalidArgument);
  const auto client = RespClient::connect(connector_to(server, "ibid:pass"), {});
  ASSERT_TRUE(client.ok()) << client.status().to_string();
  EXPECT_TRUE((*client)->call(resp_command({"SET", "ibid:3:x", "1"}), {})->is("OK"));
  EXPECT_EQ(status_of(*(*client)->call(resp_command({"SET", "x", "1"}), {})).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(status_of(*(*client)->call(resp_command({"FLUSHALL"}), {})).code(), ErrorCode::kInvalidArgument);
}

TEST_F(RedisServerTest, FullServerIsALimit) {
  const RedisServer server({"--maxmemory", "3mb", "--maxmemory-policy", "noeviction"});
  ASSERT_TRUE(server.is_ready());
  const auto client = RespClient::connect(connector_to(server), {});
  ASSERT_TRUE(client.ok());
  const std::string value(1'000'000, 'v');
  Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) {
    status = status_of(*(*client)->call(resp_command({"SET", std::to_string(i), value}), {}));
  }
  EXPECT_EQ(status.code(), ErrorCode::kLimitExceeded);
}

TEST_F(RedisServerTest, HangingServerOpensTheBreakerAndClosesItAfterRecovery) {
  RedisServer server;
  ASSERT_TRUE(server.is_ready());
  ConnectionPool pool(connector_to(server));
  ASSERT_TRUE(pool.try_now().ok());
  server.stop();
  for (int i = 0; i < 3; ++i) {
    auto lease = pool.take(TimeLimits{}.within(100 * kMs, system_clock()));
    ASSERT_TRUE(lease.ok()) << "the kernel accepts connections of a stopped process";
    const int64_t begin_ns = system_clock().steady_ns();
    const TimeLimits limits = TimeLimits{}.within(100 * kMs, system_clock());
    const auto answer = (*lease)->call(resp_command({"GET", "x"}), limits);
    EXPECT_EQ(answer.status().code(), ErrorCode::kDeadline);
    pool.report(answer.status(), system_clock().steady_ns() - begin_ns);
  }
  EXPECT_EQ(pool.take({}).status().code(), ErrorCode::kBusy);
  server.go_on();
  const int64_t recovered_ns = system_clock().steady_ns();
  while (!pool.breaker().allows_calls() && system_clock().steady_ns() - recovered_ns < 10'000 * kMs) {
    ::usleep(10'000);
  }
  EXPECT_TRUE(pool.breaker().allows_calls());
  EXPECT_LE(system_clock().steady_ns() - recovered_ns, 2000 * kMs);
}

}  // namespace
}  // namespace ibid::net
