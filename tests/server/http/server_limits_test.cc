#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "server/http/response_writer.h"
#include "tests/server/http/server_fixture.h"

namespace ibid::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;
using testing::Not;

class ServerLimitsTest : public ServerFixture {
 protected:
  static ServerOptions hasty_options() {
    ServerOptions options = quick_options();
    options.header_timeout = milliseconds(150);
    options.body_timeout = milliseconds(150);
    options.idle_timeout = milliseconds(150);
    return options;
  }
};

// Case 118: the client receives 413 although it has not sent the whole body.
TEST_F(ServerLimitsTest, TooLongBodyIsRefusedByItsDeclaredLength) {
  ServerOptions options = quick_options();
  options.max_body_bytes = 1000;
  start(options);
  RawClient one = client();
  ASSERT_TRUE(one.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000000\r\n\r\n"));
  one.send(std::string(100'000, 'a'));
  const std::string response = one.read_response();
  EXPECT_EQ(status_of(response), 413);
  EXPECT_THAT(response, HasSubstr("Connection: close\r\n"));
  EXPECT_TRUE(one.is_closed_within(5000));
}

TEST_F(ServerLimitsTest, ChunkedBodyCountsForTheLimit) {
  ServerOptions options = quick_options();
  options.max_body_bytes = 1000;
  start(options);
  RawClient one = client();
  one.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  std::string chunk;
  append_chunk(chunk, std::string(300, 'x'));
  for (int i = 0; i < 4; ++i) one.send(chunk);
  EXPECT_EQ(status_of(one.read_response()), 413);
}

TEST_F(ServerLimitsTest, TotalOfAllBodiesIsLimited) {
  ServerOptions options = quick_options();
  options.max_all_bodies_bytes = 200'000;
  start(options);
  RawClient large = client(), small = client();
  const std::string head = "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n";
  large.send(head + std::string(250'000, 'a'));
  large.send(std::string(100'000, 'a'));
  const std::string refused = large.read_response();
  EXPECT_EQ(status_of(refused), 503);
  EXPECT_THAT(refused, HasSubstr("Retry-After: 1\r\n"));
  small.send(post_text("/echo", std::string(60'000, 'b')));
  EXPECT_EQ(status_of(small.read_response()), 200);
  // The evicted body has returned its share of the budget.
  RawClient again = client();
  again.send(post_text("/echo", std::string(200'000, 'c')));
  EXPECT_EQ(status_of(again.read_response()), 200);
}

TEST_F(ServerLimitsTest, ExpectContinueIsAnswered) {
  start();
  RawClient one = client();
  one.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(one.read_to("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  one.send("ok");
  EXPECT_EQ(body_of(one.read_response()), "ok");
  RawClient other = client();
  other.send("POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(status_of(other.read_response()), 404);
}

// Case 122.
TEST_F(ServerLimitsTest, TooLongHeadIsRefused) {
  start();
  EXPECT_EQ(status_of(ask("GET / HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(1'000'000, 'a'))), 431);
}

// Case 123.
TEST_F(ServerLimitsTest, TenThousandHeadersAreRefused) {
  start();
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 10'000; ++i) many += "X" + std::to_string(i) + ": 1\r\n";
  EXPECT_EQ(status_of(ask(many)), 431);
}

// Case 124: a byte now and then does not extend the deadline.
TEST_F(ServerLimitsTest, SlowHeadIsRefused) {
  start(hasty_options());
  RawClient slow = client();
  std::string response;
  for (const char c : std::string("GET /health HTTP/1.1\r\nHost: localhost\r\n")) {
    if (!slow.send({&c, 1})) break;
    std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_EQ(status_of(slow.read_response()), 408);
  EXPECT_TRUE(slow.is_closed_within(5000));
}

TEST_F(ServerLimitsTest, SlowBodyIsRefused) {
  start(hasty_options());
  RawClient slow = client();
  slow.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nabc");
  EXPECT_EQ(status_of(slow.read_response()), 408);
}

// Case 120.
TEST_F(ServerLimitsTest, EndlessChunksAreRefused) {
  start(hasty_options());
  RawClient slow = client();
  slow.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 100; ++i) {
    if (!slow.send("1\r\na\r\n")) break;
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(status_of(slow.read_response()), 408);
}

// Case 125.
TEST_F(ServerLimitsTest, SilentConnectionsAreClosed) {
  start(hasty_options());
  RawClient silent = client(), idle = client();
  idle.send(get_text("/health"));
  EXPECT_EQ(status_of(idle.read_response()), 200);
  EXPECT_TRUE(silent.is_closed_within(10'000));
  EXPECT_TRUE(idle.is_closed_within(10'000));
  EXPECT_EQ(silent.read_all(0), "");
}

// Case 126.
TEST_F(ServerLimitsTest, NonHttpIsRefusedAtOnce) {
  start();
  for (const std::string& garbage :
       {std::string("\x16\x03\x01\x02\x00\x01\x00", 7), std::string("\x80\x2e\x01\x00\x02", 5),
        std::string("SSH-2.0-x\r\n"), std::string("hello\n"), std::string(100, '\0')}) {
    RawClient one = client();
    one.send(garbage);
    EXPECT_EQ(status_of(one.read_response()), 400) << garbage;
    EXPECT_TRUE(one.is_closed_within(5000));
  }
  EXPECT_THAT(ask(std::string("\x16\x03\x01", 3)), HasSubstr("sent TLS"));
}

TEST_F(ServerLimitsTest, AmbiguousRequestIsRefusedAndConnectionClosed) {
  start();
  RawClient one = client();
  one.send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 30\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" +
      get_text("/health"));
  EXPECT_EQ(status_of(one.read_response()), 400);
  EXPECT_TRUE(one.is_closed_within(5000));
  EXPECT_THAT(one.read_all(0), Not(HasSubstr("200 OK")));
}

TEST_F(ServerLimitsTest, InvalidPathsAreRefused) {
  start();
  EXPECT_EQ(status_of(ask(get_text("/parts/%zz"))), 400);
  EXPECT_EQ(status_of(ask(get_text("/parts/%00"))), 400);
  EXPECT_EQ(status_of(ask(get_text("/parts/%ff"))), 400);
  EXPECT_EQ(body_of(ask(get_text("/parts/a%2fb%20%c3%a4?x=%zz"))), "a/b ä?x=%zz");
}

TEST_F(ServerLimitsTest, ErrorsContainNothingOfTheRequest) {
  start();
  const std::string marker = "MARKER7f3a";
  for (const std::string& bytes :
       {get_text("/" + marker), get_text("/parts/%" + marker),
        "GET /health HTTP/1.1\r\nHost: " + marker + ".example\r\n\r\n",
        get_text("/health", "Origin: http://" + marker + "\r\n"), marker + " / HTTP/1.1\r\n\r\n",
        get_text("/health", marker + "\r\n"), get_text("/health", "Expect: " + marker + "\r\n"),
        get_text("/health", "Transfer-Encoding: " + marker + "\r\n")}) {
    RawClient one = client();
    one.send(bytes);
    const std::string response = one.read_response();
    EXPECT_GE(status_of(response), 400) << bytes;
    EXPECT_THAT(response, Not(HasSubstr(marker)));
  }
}

TEST_F(ServerLimitsTest, ResponseToHeadHasTheContentLengthAndNoBody) {
  start();
  RawClient one = client();
  one.send("HEAD /health HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(one.read_response(true), HasSubstr("Content-Length: 15\r\n"));
  one.send(get_text("/health"));
  EXPECT_EQ(body_of(one.read_response()), "{\"status\":\"ok\"}");
}

TEST_F(ServerLimitsTest, Http10ClientsAreServedAndClosed) {
  start();
  RawClient one = client();
  one.send("GET /health HTTP/1.0\r\n\r\n");
  EXPECT_EQ(body_of(one.read_response()), "{\"status\":\"ok\"}");
  EXPECT_TRUE(one.is_closed_within(5000));
}

TEST_F(ServerLimitsTest, BodyOfARefusedRequestIsNotReadAsARequest) {
  start();
  RawClient one = client();
  one.send(post_text("/nowhere", get_text("/health")));
  const std::string all = one.read_all(3000);
  EXPECT_EQ(status_of(all), 404);
  EXPECT_THAT(all, Not(HasSubstr("200 OK")));
}

TEST_F(ServerLimitsTest, LongestWaitingConnectionIsEvictedFromAFullTable) {
  ServerOptions options = quick_options();
  options.max_connections = 4;
  start(options);
  RawClient first = client();
  first.send(get_text("/health"));
  EXPECT_EQ(status_of(first.read_response()), 200);
  std::vector<RawClient> silent;
  for (int i = 0; i < 10; ++i) {
    silent.push_back(client());
    silent.back().send("GET");
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(first.is_closed_within(5000));
  EXPECT_EQ(status_of(ask(get_text("/health"))), 200);
}

TEST_F(ServerLimitsTest, ConnectionBeingAnsweredIsNotEvicted) {
  ServerOptions options = quick_options();
  options.max_connections = 2;
  start(options);
  RawClient a = client(), b = client();
  a.send(get_text("/hold"));
  b.send(get_text("/hold"));
  ASSERT_NE(held(1), nullptr);
  RawClient c = client();
  c.send(get_text("/health"));
  const std::string turned_away = c.read_all(2000);
  // The client may also have been disconnected before it could read the response.
  EXPECT_THAT(turned_away, testing::AnyOf("", testing::StartsWith("HTTP/1.1 503 ")));
  held(0)->respond({.body = "1"});
  held(1)->respond({.body = "2"});
  EXPECT_EQ(status_of(a.read_response()), 200);
  EXPECT_EQ(status_of(b.read_response()), 200);
}

// A connection with progress of its body is evicted after silent ones.
TEST_F(ServerLimitsTest, SilentClientsAreEvictedBeforeAnUploadWithProgress) {
  ServerOptions options = quick_options();
  options.max_connections = 16;
  start(options);
  RawClient upload = client();
  const std::string part(200'000, 'u');
  constexpr int kParts = 40;
  upload.send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kParts * part.size()) +
              "\r\n\r\n");
  std::vector<RawClient> silent;
  for (int i = 0; i < kParts; ++i) {
    ASSERT_TRUE(upload.send(part)) << i;
    std::this_thread::sleep_for(milliseconds(5));
    silent.push_back(client());
  }
  EXPECT_EQ(body_of(upload.read_response()).size(), kParts * part.size());
}

// A client that does not read its response counts as silent.
TEST_F(ServerLimitsTest, ConnectionThatDoesNotReadIsEvicted) {
  ServerOptions options = quick_options();
  options.max_connections = 4;
  options.stall_time = milliseconds(50);
  start(options);
  // The kernel does not buffer this much for them.
  const std::string request = post_text("/echo", std::string(20'000'000, 'x'));
  std::vector<RawClient> stuck;
  for (int i = 0; i < 4; ++i) {
    stuck.push_back(client());
    stuck.back().send(request);
  }
  for (int i = 0; i < 5000 && server_->stats().n_exchanges < 4; ++i) std::this_thread::sleep_for(milliseconds(1));
  std::this_thread::sleep_for(milliseconds(200));
  for (int i = 0; i < 4; ++i) {
    RawClient good = client();
    good.send(get_text("/health"));
    EXPECT_EQ(status_of(good.read_response()), 200);
  }
  EXPECT_GE(server_->stats().n_slow_clients, 1u);
}

}  // namespace
}  // namespace ibid::http
