// The KV events of `ibid serve` as a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/json_limits.h"
#include "tests/server/events/zmq_client.h"
#include "tests/server/http/raw_client.h"
#include "tests/server/served_process.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using http::body_of;
using http::post_text;
using http::RawClient;
using http::status_of;
using serve::ZmqClient;
using testing::HasSubstr;

class ServeEvents : public testing::Test {
 protected:
  ServeEvents() : model_(dir_.file("talker.gguf")) { write_talking_model(model_); }

  std::vector<std::string> arguments() const {
    return {model_, "--port", "0", "--kv-events", endpoint(), "--kv-events-replay", "ipc://" + dir_.file("replay")};
  }
  std::string endpoint() const { return "ipc://" + dir_.file("events"); }

  static Json post(uint16_t port, const std::string& path, const std::string& more = "") {
    const std::string body =
        R"({"messages":[{"role":"user","content":"A text of more than one hundred and twenty-eight characters, so that it )"
        R"(fills at least two blocks of the cache, as each character is a token."}],"max_tokens":1,"temperature":0})";
    RawClient one(port);
    one.send(post_text(path, body, more));
    const std::string response = one.read_response();
    EXPECT_EQ(status_of(response), 200) << response;
    return *parse_json(body_of(response), "the response");
  }
  // Returns the next event of this type.
  static Json next_event(const ZmqClient& subscriber, const std::string& type) {
    for (;;) {
      const ZmqClient::Batch batch = subscriber.next();
      EXPECT_GE(batch.number, 0) << "no event " << type;
      if (batch.number < 0) return Json::object();
      for (const Json& event : batch.events) {
        if (event["type"] == type) return event;
      }
    }
  }

  TempDir dir_;
  const std::string model_;
};

TEST_F(ServeEvents, BlocksHaveTheTokensOfTheRenderedPrompt) {
  std::vector<std::string> options = arguments();
  options.insert(options.end(), {"--kv-events-topic", "kv@pod@talker"});
  ServedProcess served(options);
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  EXPECT_THAT(served.said(), HasSubstr("ibid: KV events on " + endpoint()));
  const ZmqClient subscriber(ZMQ_SUB, endpoint());
  const ZmqClient::Batch first = subscriber.next();
  EXPECT_EQ(first.topic, "kv@pod@talker");
  ASSERT_FALSE(first.events.empty());
  EXPECT_EQ(first.events[0]["type"], "AllBlocksCleared");
  post(port, "/v1/chat/completions");
  const Json rendered = post(port, "/v1/chat/completions/render")["token_ids"];
  Json ids = Json::array();  // of one event or of several: a prompt may be stored in several steps
  while (ids.size() < 128) {
    const ZmqClient::Batch batch = subscriber.next();
    ASSERT_GE(batch.number, 0) << ids.size() << " tokens";
    for (const Json& event : batch.events) {
      if (event["type"] != "BlockStored") continue;
      EXPECT_EQ(event["block_size"], 64);
      EXPECT_FALSE(event.contains("extra_keys"));
      ids.insert(ids.end(), event["token_ids"].begin(), event["token_ids"].end());
    }
  }
  for (size_t i = 0; i < 128; ++i) ASSERT_EQ(ids[i], rendered[i]) << i;
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
  EXPECT_EQ(next_event(subscriber, "AllBlocksCleared")["type"], "AllBlocksCleared") << "at the end";
}

TEST_F(ServeEvents, BlocksOfAKeyHaveNoTokensAndAnotherProcessOtherHashes) {
  Json hashes;
  for (int run = 0; run < 2; ++run) {
    ServedProcess served(arguments(), {"IBID_API_KEY=key-of-a-test"});
    const uint16_t port = served.port();
    ASSERT_NE(port, 0) << served.said();
    const ZmqClient subscriber(ZMQ_SUB, endpoint());
    post(port, "/v1/chat/completions", "x-api-key: key-of-a-test\r\n");
    const Json stored = next_event(subscriber, "BlockStored");
    EXPECT_TRUE(stored["token_ids"].empty());
    EXPECT_EQ(stored["extra_keys"].size(), stored["block_hashes"].size());
    EXPECT_NE(stored["block_hashes"], hashes);
    hashes = stored["block_hashes"];
  }
}

TEST_F(ServeEvents, EndpointThatOtherMachinesReachIsAStartupError) {
  ServedProcess served({model_, "--port", "0", "--kv-events", "tcp://0.0.0.0:5557"});
  EXPECT_EQ(served.wait(), 1);
  EXPECT_THAT(served.said(), HasSubstr("--kv-events-open"));
  EXPECT_EQ(std::count(served.said().begin(), served.said().end(), '\n'), 1) << served.said();
}

}  // namespace
}  // namespace ibid
