#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "tests/server/http/server_fixture.h"

namespace ibid::http {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Limit for waits, much longer than expected, because a machine under load is slow.
constexpr int kSoonMs = 5000;

class ServerClientsTest : public ServerFixture {
 protected:
  // Returns a client whose request has reached its handler.
  RawClient holding() {
    RawClient one = client();
    one.send(post_text("/hold", "{}"));
    exchange_ = held(n_held_++);
    EXPECT_NE(exchange_, nullptr);
    return one;
  }

  ExchangePtr exchange_;

  void TearDown() override {
    exchange_.reset();
    ServerFixture::TearDown();
  }

 private:
  size_t n_held_ = 0;
};

// Case 127.
TEST_F(ServerClientsTest, DisconnectBeforeTheResponseIsDetected) {
  start();
  RawClient one = holding();
  EXPECT_FALSE(exchange_->gone().stop_requested());
  one.leave();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
}

TEST_F(ServerClientsTest, ResetConnectionIsDetected) {
  start();
  RawClient one = holding();
  one.reset();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
}

// Case 128.
TEST_F(ServerClientsTest, DisconnectDuringAStreamIsDetected) {
  start();
  RawClient one = holding();
  exchange_->begin_stream(200, "text/event-stream");
  EXPECT_TRUE(exchange_->send("data: 1\n\n"));
  one.read_to("data: 1\n\n");
  one.leave();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
  EXPECT_FALSE(exchange_->send("data: 2\n\n"));
  exchange_->end_stream();
}

TEST_F(ServerClientsTest, ClientMayDisconnectAtEveryByteOfItsRequest) {
  start();
  const std::string request = post_text("/echo", "{\"a\": 1}");
  for (size_t n = 0; n <= request.size(); ++n) {
    RawClient one = client();
    one.send(std::string_view(request).substr(0, n));
    n % 2 == 0 ? one.leave() : one.reset();
  }
  EXPECT_EQ(status_of(ask(get_text("/health"))), 200);
}

// A whole response is already written when the client leaves. Of a stream only the first events are, and the others are
// dropped.
TEST_F(ServerClientsTest, ClientMayDisconnectAtEveryByteOfItsResponse) {
  start();
  const std::string request = post_text("/echo", "{\"a\": 1}");
  const size_t n_whole = ask(request).size();
  std::string bytes(4096, '\0');
  const auto read_exactly = [&bytes](RawClient& one, size_t n) {
    return n == 0 || recv(one.descriptor(), bytes.data(), n, MSG_WAITALL) == static_cast<ssize_t>(n);
  };
  size_t n_exchanges = 1;
  for (size_t n = 0; n <= n_whole; ++n, ++n_exchanges) {
    RawClient one = client();
    one.send(request);
    ASSERT_TRUE(read_exactly(one, n));
    n % 2 == 0 ? one.reset() : one.leave();
  }
  const std::string event = "data: an event\n\n";
  size_t n_stream = 0;
  for (size_t n = 0; n_stream == 0 || n <= n_stream; ++n, ++n_exchanges) {
    RawClient one = holding();
    exchange_->begin_stream(200, "text/event-stream");
    exchange_->send(event);
    if (n == 0) {
      n_stream = one.read_to("event\n\n\r\n").size();
    } else {
      ASSERT_TRUE(read_exactly(one, n));
    }
    n % 2 == 0 ? one.reset() : one.leave();
    EXPECT_TRUE(is_gone_within(exchange_, kSoonMs)) << n;
    EXPECT_FALSE(exchange_->send(event));
    exchange_->end_stream();
  }
  exchange_.reset();
  let_go_of_all();
  const auto all = records(n_exchanges);
  EXPECT_EQ(all.size(), n_exchanges);
  for (int i = 0; i < kSoonMs && server_->stats().n_open > 0; ++i) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_EQ(server_->stats().n_open, 0u);
  EXPECT_EQ(server_->stats().n_exchanges, 0u);
  EXPECT_EQ(status_of(ask(get_text("/health"))), 200);
}

// A client that closes only its sending side counts as gone, but still gets its response.
TEST_F(ServerClientsTest, HalfClosedClientGetsAResponseAndComputationStops) {
  start();
  RawClient one = holding();
  one.end_sending();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
  exchange_->respond({.status = 499, .body = "you went"});
  EXPECT_EQ(body_of(one.read_response()), "you went");
  RawClient quick = client();
  quick.send(get_text("/health"));
  quick.end_sending();
  EXPECT_EQ(status_of(quick.read_response()), 200);
}

TEST_F(ServerClientsTest, PipelinedRequestIsNotADisconnect) {
  start();
  RawClient one = holding();
  one.send(get_text("/health"));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(exchange_->gone().stop_requested());
  exchange_->respond({.body = "first"});
  EXPECT_EQ(body_of(one.read_response()), "first");
  EXPECT_EQ(body_of(one.read_response()), "{\"status\":\"ok\"}");
}

// Requests beyond the read-ahead limit stay in the socket, and are answered in turn.
TEST_F(ServerClientsTest, ManyPipelinedRequestsAreAllAnswered) {
  start();
  RawClient one = holding();
  constexpr int kRequests = 5000;
  std::string all;
  for (int i = 0; i < kRequests; ++i) all += get_text("/health");
  ASSERT_GT(all.size(), 200'000u);
  std::thread sender([&] { EXPECT_TRUE(one.send(all)); });
  std::this_thread::sleep_for(milliseconds(50));
  exchange_->respond({.body = "first"});
  EXPECT_EQ(body_of(one.read_response()), "first");
  for (int i = 0; i < kRequests; ++i) ASSERT_EQ(body_of(one.read_response()), "{\"status\":\"ok\"}") << i;
  sender.join();
}

// The server reads ahead only up to a limit, so that one client takes no time from the others.
TEST_F(ServerClientsTest, EndlessPipelinedBytesAreNotRead) {
  start();
  RawClient one = holding();
  const timeval patience{.tv_sec = 0, .tv_usec = 200'000};
  setsockopt(one.descriptor(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  const std::string piece(1u << 20, 'x');
  int n_sent = 0;
  while (n_sent < 100 && one.send(piece)) ++n_sent;
  EXPECT_LT(n_sent, 100) << "all bytes of the client were read";
  EXPECT_FALSE(exchange_->gone().stop_requested());
  one.reset();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
}

TEST_F(ServerClientsTest, DisconnectIsDetectedBeyondTheReadAheadLimit) {
  start();
  RawClient one = holding();
  one.send(std::string(100'000, 'x'));
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(exchange_->gone().stop_requested());
  one.leave();
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
}

// Case 130: a client that does not read is disconnected, and no other client waits.
TEST_F(ServerClientsTest, OnlyTheClientThatDoesNotReadIsDisconnected) {
  ServerOptions options = quick_options();
  options.max_queued_bytes = 100'000;
  start(options);
  RawClient stuck = holding();
  exchange_->begin_stream(200, "text/event-stream");
  ExchangePtr stuck_exchange = exchange_;
  RawClient good = holding();
  exchange_->begin_stream(200, "text/event-stream");
  const std::string piece(10'000, 'd');
  bool lost = false;
  // The kernel buffers some megabytes for each client.
  for (int i = 0; i < 10'000 && !lost; ++i) lost = !stuck_exchange->send(piece);
  EXPECT_TRUE(lost);
  EXPECT_TRUE(stuck_exchange->gone().stop_requested());
  EXPECT_TRUE(exchange_->send("data: good\n\n"));
  EXPECT_THAT(good.read_to("good\n\n"), HasSubstr("data: good"));
  exchange_->end_stream();
  stuck_exchange->end_stream();
  exchange_.reset();
  stuck_exchange.reset();
  let_go_of_all();
  records(2);
  EXPECT_EQ(server_->stats().n_slow_clients, 1u);
}

TEST_F(ServerClientsTest, ClientThatTakesNoBytesIsDisconnected) {
  ServerOptions options = quick_options();
  options.write_timeout = milliseconds(200);
  options.max_queued_bytes = 1u << 30;
  start(options);
  RawClient stuck = holding();
  exchange_->respond({.content_type = "text/plain", .body = std::string(50'000'000, 'x')});
  EXPECT_TRUE(is_gone_within(exchange_, kSoonMs));
  exchange_.reset();
  let_go_of_all();
  const auto all = records(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].client_slow);
}

// The deadline is for the whole response: a byte now and then does not extend it.
TEST_F(ServerClientsTest, ClientThatReadsTooSlowlyIsDisconnected) {
  ServerOptions options = quick_options();
  options.write_timeout = milliseconds(300);
  options.write_bytes_per_second = 1u << 30;
  start(options);
  RawClient slow = holding();
  exchange_->respond({.content_type = "text/plain", .body = std::string(200'000'000, 'x')});
  std::string room(100'000, '\0');
  // On a busy machine the server may notice late. Even then less than half of the response is read.
  for (int i = 0; i < 900 && !exchange_->gone().stop_requested(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    recv(slow.descriptor(), room.data(), room.size(), MSG_DONTWAIT);
  }
  EXPECT_TRUE(exchange_->gone().stop_requested());
  exchange_.reset();
  let_go_of_all();
  const auto all = records(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].client_slow);
}

TEST_F(ServerClientsTest, IdleStreamGetsKeepAlives) {
  start();
  RawClient one = holding();
  exchange_->set_keep_alive(": ping\n\n", milliseconds(30));
  exchange_->begin_stream(200, "text/event-stream");
  EXPECT_THAT(one.read_to(": ping\n\n"), HasSubstr("8\r\n: ping\n\n"));
  EXPECT_THAT(one.read_to(": ping\n\n"), HasSubstr(": ping"));
  exchange_->end_stream();
  EXPECT_THAT(one.read_to("0\r\n\r\n"), HasSubstr("0\r\n\r\n"));
}

TEST_F(ServerClientsTest, ReleasedStreamIsClosedWithoutLastChunk) {
  start();
  RawClient one = holding();
  exchange_->begin_stream(200, "text/plain");
  exchange_->send("half");
  one.read_to("half\r\n");
  exchange_.reset();
  let_go_of_all();
  EXPECT_EQ(one.read_all(kSoonMs), "");  // no last chunk
}

TEST_F(ServerClientsTest, RecordHasOutcomeOfExchangeAndNoText) {
  start();
  RawClient one = holding();
  exchange_->set_figures({.model = "tiny", .n_prompt = 7, .n_cached = 5, .n_prefilled = 2, .n_decoded = 3});
  exchange_->respond({.body = "answer"});
  one.read_response();
  exchange_.reset();
  let_go_of_all();
  const auto all = records(1);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].pattern, "/hold");
  EXPECT_EQ(all[0].method, "POST");
  EXPECT_EQ(all[0].status, 200);
  EXPECT_EQ(all[0].n_bytes_in, 2u);
  EXPECT_GT(all[0].n_bytes_out, 6u);
  EXPECT_EQ(all[0].figures.n_cached, 5u);
  EXPECT_FALSE(all[0].client_gone);
  EXPECT_EQ(all[0].client, "127.0.0.1");
}

}  // namespace
}  // namespace ibid::http
