#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>

#include "base/json_limits.h"
#include "templates/message.h"
#include "tests/server/http/raw_client.h"
#include "tests/server/served_process.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using http::body_of;
using http::get_text;
using http::post_text;
using http::RawClient;

class ServeRestart : public testing::Test {
 protected:
  ServeRestart() : model_(dir_.file("talker.gguf")) { write_talking_model(model_); }

  std::vector<std::string> arguments(const std::string& cache) {
    return {model_, "--port", "0", "--cache-dir", dir_.file(cache)};
  }
  static std::string ask(uint16_t port, const std::string& request) {
    RawClient one(port);
    one.send(request);
    return one.read_response();
  }
  // Sends the next turn of a conversation; returns the whole response.
  static Json talk(uint16_t port, Json& messages, size_t number) {
    messages.push_back(make_message(Role::kUser, "question " + std::to_string(number) + std::string(80, 'x')));
    Json body = {{"messages", messages}, {"temperature", 0}, {"max_tokens", 20}, {"logit_bias", {{"257", -100}}}};
    const Result<Json> json =
        parse_json(body_of(ask(port, post_text("/v1/chat/completions", json_to_string(body)))), "answer");
    EXPECT_TRUE(json.ok() && json->contains("choices")) << (json.ok() ? json_to_string(*json) : "");
    if (!json.ok() || !json->contains("choices")) return {};
    messages.push_back((*json)["choices"][0]["message"]);
    return *json;
  }
  static std::string metric(uint16_t port, const std::string& name) {
    const std::string text = ask(port, get_text("/metrics"));
    const size_t at = text.find("\n" + name);
    if (at == std::string::npos) return "";
    const size_t end = text.find('\n', at + 1), space = text.rfind(' ', end);
    return text.substr(space + 1, end - space - 1);
  }

  // Five turns, a restart, and the sixth turn: the answer is the same as without a restart, and only the new message is
  // prefilled.
  void expect_it_goes_on(int end_signal) {
    Json expected, messages = Json::array();
    {
      ServedProcess served(arguments("other"));
      const uint16_t port = served.port();
      for (size_t i = 0; i < 6; ++i) expected = talk(port, messages, i);
    }
    messages = Json::array();
    ServedProcess first(arguments("cache"));
    const uint16_t port = first.port();
    ASSERT_NE(port, 0) << first.said();
    for (size_t i = 0; i < 5; ++i) talk(port, messages, i);
    if (end_signal == SIGKILL) {
      while (metric(port, "ibid_conversation_files_waiting") != "0" || metric(port, "ibid_tier_waiting_bytes") != "0") {
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      }
    }
    first.signal_it(end_signal);
    EXPECT_EQ(first.wait(), end_signal == SIGKILL ? 128 + SIGKILL : 0) << first.said();
    ServedProcess second(arguments("cache"));
    const uint16_t again = second.port();
    ASSERT_NE(again, 0) << second.said();
    const Json answer = talk(again, messages, 5);
    EXPECT_EQ(answer["choices"][0]["message"], expected["choices"][0]["message"]);
    EXPECT_EQ(answer["usage"], expected["usage"]) << "cached_tokens among them";
    EXPECT_GT(answer["usage"]["prompt_tokens_details"]["cached_tokens"].get<size_t>(), 500u);
    EXPECT_EQ(metric(again, "ibid_conversation_files_restored_total"), "1");
    EXPECT_EQ(metric(again, "ibid_conversation_files_refused_total"), "0");
  }

  TempDir dir_;
  const std::string model_;
};

TEST_F(ServeRestart, NextTurnAfterSigtermPrefillsOnlyItsMessage) { expect_it_goes_on(SIGTERM); }
TEST_F(ServeRestart, NextTurnAfterSigkillPrefillsOnlyItsMessage) { expect_it_goes_on(SIGKILL); }

TEST_F(ServeRestart, ResponseIdIsKnownAfterRestart) {
  const std::string fields = R"("max_output_tokens":4,"logit_bias":{"257":-100},"temperature":0)";
  std::string id, made;
  {
    ServedProcess first(arguments("cache"));
    const uint16_t port = first.port();
    ASSERT_NE(port, 0) << first.said();
    made = body_of(ask(port, post_text("/v1/responses", R"({"input":"one",)" + fields + "}")));
    id = Json::parse(made)["id"];
    first.signal_it(SIGKILL);
    first.wait();
  }
  ServedProcess second(arguments("cache"));
  const uint16_t port = second.port();
  ASSERT_NE(port, 0) << second.said();
  EXPECT_EQ(body_of(ask(port, get_text("/v1/responses/" + id))), made);
  const std::string next = R"({"input":"two","previous_response_id":")" + id + "\"," + fields + "}";
  const Json answer = Json::parse(body_of(ask(port, post_text("/v1/responses", next))));
  EXPECT_EQ(answer["previous_response_id"], id);
  EXPECT_EQ(answer["status"], "incomplete") << "truncated at max_output_tokens";
}

}  // namespace
}  // namespace ibid
