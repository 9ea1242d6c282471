// client_gone of a record is true only if bytes of the response did not arrive.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/server/http/server_fixture.h"

namespace ibid::http {
namespace {

constexpr int kSoonMs = 5000;

class ServerDeliveryTest : public ServerFixture {
 protected:
  RawClient holding(const std::string& method = "POST") {
    RawClient one = client();
    one.send(method == "POST" ? post_text("/hold", "{}") : method + " /hold HTTP/1.1\r\nHost: localhost\r\n\r\n");
    exchange_ = held(0);
    EXPECT_NE(exchange_, nullptr);
    return one;
  }
  // Returns client_gone of the record of the last exchange.
  bool was_gone() {
    exchange_.reset();
    let_go_of_all();
    const auto all = records(++n_records_);
    EXPECT_EQ(all.size(), n_records_);
    return all.size() == n_records_ && all.back().client_gone;
  }
  void TearDown() override {
    exchange_.reset();
    ServerFixture::TearDown();
  }

  ExchangePtr exchange_;

 private:
  size_t n_records_ = 0;
};

TEST_F(ServerDeliveryTest, ClientThatReadsAllAndClosesIsNotRecordedAsGone) {
  start();
  constexpr size_t kClients = 300;
  for (size_t i = 0; i < kClients; ++i) {
    RawClient one = client();
    const bool says_close = i % 3 == 0;
    one.send(says_close ? "GET /whose HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" : get_text("/whose"));
    if (i % 3 == 1) one.end_sending();
    EXPECT_EQ(status_of(one.read_response()), 200);
    i % 2 == 0 ? one.leave() : one.reset();
  }
  const auto all = records(kClients);
  ASSERT_EQ(all.size(), kClients);
  for (const ExchangeRecord& record : all) EXPECT_FALSE(record.client_gone) << record.id;
}

TEST_F(ServerDeliveryTest, ClientThatHalfClosesAndReadsTheResponseIsNotRecordedAsGone) {
  start();
  RawClient one = holding();
  one.end_sending();
  ASSERT_TRUE(is_gone_within(exchange_, kSoonMs)) << "nothing is computed for it";
  exchange_->respond({.body = std::string(3'000'000, 'x')});
  EXPECT_EQ(body_of(one.read_response()).size(), 3'000'000u);
  EXPECT_FALSE(was_gone());
}

TEST_F(ServerDeliveryTest, ClientThatClosesBeforeTheResponseIsRecordedAsGone) {
  start();
  for (const bool resets : {false, true}) {
    RawClient one = holding();
    resets ? one.reset() : one.leave();
    ASSERT_TRUE(is_gone_within(exchange_, kSoonMs));
    exchange_->respond({.body = "to nobody"});
    EXPECT_TRUE(was_gone()) << resets;
  }
}

TEST_F(ServerDeliveryTest, ClientThatClosesDuringTheResponseIsRecordedAsGone) {
  start();
  RawClient one = holding();
  exchange_->respond({.body = std::string(50'000'000, 'x')});
  char some[1000];
  ASSERT_EQ(recv(one.descriptor(), some, sizeof(some), MSG_WAITALL), 1000);
  one.leave();
  EXPECT_TRUE(was_gone());
}

TEST_F(ServerDeliveryTest, ClientThatReadsAStreamToTheEndIsNotRecordedAsGone) {
  start();
  RawClient one = holding();
  exchange_->begin_stream(200, "text/event-stream");
  exchange_->send("data: [DONE]\n\n");
  one.read_to("[DONE]\n\n\r\n");
  one.leave();
  ASSERT_TRUE(is_gone_within(exchange_, kSoonMs));
  exchange_->end_stream();
  EXPECT_FALSE(was_gone()) << "all bytes were delivered";
}

TEST_F(ServerDeliveryTest, ClientThatLeavesAStreamBeforeItsEndIsRecordedAsGone) {
  start();
  RawClient one = holding();
  exchange_->begin_stream(200, "text/event-stream");
  exchange_->send("data: 1\n\n");
  one.read_to("1\n\n\r\n");
  one.leave();
  ASSERT_TRUE(is_gone_within(exchange_, kSoonMs));
  EXPECT_FALSE(exchange_->send("data: 2\n\n"));
  exchange_->end_stream();
  EXPECT_TRUE(was_gone());
}

TEST_F(ServerDeliveryTest, ClientOfAHeadRequestIsNotRecordedAsGone) {
  start();
  RawClient one = holding("HEAD");
  exchange_->begin_stream(200, "text/event-stream");
  one.read_response(true);
  ASSERT_TRUE(is_gone_within(exchange_, kSoonMs)) << "nothing is computed for it";
  exchange_->send("data: 1\n\n");
  exchange_->end_stream();
  EXPECT_FALSE(was_gone());
}

}  // namespace
}  // namespace ibid::http
