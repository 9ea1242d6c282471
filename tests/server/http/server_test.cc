#include "server/http/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/http/server_fixture.h"

namespace ibid::http {
namespace {

using testing::HasSubstr;
using testing::Not;

class ServerTest : public ServerFixture {};

TEST_F(ServerTest, ServerAnswersARequest) {
  start();
  const std::string response = ask(get_text("/health"));
  EXPECT_EQ(status_of(response), 200);
  EXPECT_EQ(body_of(response), "{\"status\":\"ok\"}");
  EXPECT_THAT(response, HasSubstr("x-request-id: 1\r\n"));
  EXPECT_THAT(response, HasSubstr("\r\nrequest-id: 1\r\n"));
  EXPECT_THAT(response, HasSubstr("X-Content-Type-Options: nosniff\r\n"));
  EXPECT_THAT(response, HasSubstr("Date: "));
}

TEST_F(ServerTest, IdsOfTheClientAreTakenOver) {
  start();
  const std::string trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
  RawClient one = client();
  one.send(get_text("/parts/a", "X-Request-Id: 7F000001:A_1\r\ntraceparent: " + trace + "\r\n"));
  const std::string response = one.read_response();
  EXPECT_THAT(response, HasSubstr("\r\nx-request-id: 7F000001:A_1\r\nrequest-id: 7F000001:A_1\r\n"));
  EXPECT_THAT(response, HasSubstr("\r\ntraceparent: " + trace + "\r\n"));
  one.send(get_text("/nowhere", "X-Request-Id: a b\r\ntraceparent: 00-x\r\n"));
  const std::string other = one.read_response();
  EXPECT_THAT(other, HasSubstr("\r\nx-request-id: 2\r\n"));
  EXPECT_THAT(other, Not(HasSubstr("traceparent")));
  one.send("x");
  EXPECT_EQ(status_of(one.read_response()), 400);
  const std::vector<ExchangeRecord> all = records(3);
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].request_id, "7F000001:A_1");
  EXPECT_EQ(all[0].trace_parent, trace);
  EXPECT_EQ(all[0].pattern, "/parts/{...}");
  EXPECT_EQ(all[0].unknown_path, "");
  EXPECT_EQ(all[1].request_id, "");
  EXPECT_EQ(all[1].pattern, "");
  EXPECT_EQ(all[1].unknown_path, "/nowhere");
  EXPECT_EQ(all[2].unknown_path, "") << "the record has nothing of the request before";
}

TEST_F(ServerTest, ConnectionIsKeptForManyRequests) {
  start();
  RawClient one = client();
  for (int i = 0; i < 50; ++i) {
    const std::string body = "body " + std::to_string(i);
    ASSERT_TRUE(one.send(post_text("/echo", body)));
    EXPECT_EQ(body_of(one.read_response()), body);
  }
  EXPECT_EQ(server_->stats().n_connections, 1u);
  EXPECT_EQ(server_->stats().n_requests, 50u);
}

TEST_F(ServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  RawClient one = client();
  std::string all;
  for (int i = 0; i < 20; ++i) all += post_text("/echo", "number " + std::to_string(i));
  ASSERT_TRUE(one.send(all));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(body_of(one.read_response()), "number " + std::to_string(i));
}

TEST_F(ServerTest, RequestIsReadTheSameInPiecesOfAnySize) {
  start();
  const std::string chunked =
      "POST /echo?x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
      "4;ext=1\r\nWiki\r\n6\r\npedia \r\nE\r\nin \r\n\r\nchunks.\r\n0\r\nX-Trailer: 1\r\n\r\n";
  RawClient one = client();
  for (size_t cut = 1; cut < chunked.size(); ++cut) {
    ASSERT_TRUE(one.send(chunked.substr(0, cut)));
    if (cut % 16 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ASSERT_TRUE(one.send(chunked.substr(cut)));
    ASSERT_EQ(body_of(one.read_response()), "Wikipedia in \r\n\r\nchunks.") << cut;
  }
}

TEST_F(ServerTest, StreamIsSentInChunksAndEnds) {
  start();
  RawClient one = client();
  one.send(get_text("/hold"));
  const ExchangePtr exchange = held(0);
  ASSERT_NE(exchange, nullptr);
  exchange->begin_stream(200, "text/event-stream");
  EXPECT_THAT(one.read_to("\r\n\r\n"), HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_TRUE(exchange->send("data: 1\n\n"));
  EXPECT_EQ(one.read_to("\n\n\r\n"), "9\r\ndata: 1\n\n\r\n");
  exchange->send("data: 2\n\n");
  exchange->end_stream();
  EXPECT_EQ(one.read_to("0\r\n\r\n"), "9\r\ndata: 2\n\n\r\n0\r\n\r\n");
  one.send(get_text("/health"));
  EXPECT_EQ(status_of(one.read_response()), 200);
}

TEST_F(ServerTest, ExchangeWithoutResponseGetsStatus500) {
  start();
  EXPECT_EQ(status_of(ask(get_text("/nothing"))), 500);
  EXPECT_EQ(status_of(ask(get_text("/throws"))), 500);
  EXPECT_EQ(status_of(ask(get_text("/health"))), 200);
}

}  // namespace
}  // namespace ibid::http
