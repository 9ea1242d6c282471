// `ibid serve` as a process: its output, which requests it accepts, and its shutdown.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <thread>

#include "base/json_limits.h"
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
using http::status_of;
using testing::HasSubstr;
using testing::Not;

class ServeCommand : public testing::Test {
 protected:
  ServeCommand() : model_(dir_.file("talker.gguf")) { write_talking_model(model_); }

  static std::string ask(uint16_t port, const std::string& request) {
    RawClient one(port);
    one.send(request);
    return one.read_response();
  }
  // Returns a request that bans the end-of-turn token, so that the answer has max_tokens tokens.
  static std::string chat_text(int max_tokens, const std::string& fields = "", const std::string& more = "") {
    const std::string body = R"({"messages":[{"role":"user","content":"a secret question"}],"seed":1,)"
                             R"("logit_bias":{"257":-100},"max_tokens":)" +
                             std::to_string(max_tokens) + fields + "}";
    return post_text("/v1/chat/completions", body, more);
  }
  static std::string content_of(const std::string& response) {
    const Result<Json> json = parse_json(body_of(response), "the response");
    EXPECT_TRUE(json.ok()) << response;
    if (!json.ok() || !json->contains("choices")) return response;
    return (*json)["choices"][0]["message"]["content"].get<std::string>();
  }
  static std::string long_chat_text() { return chat_text(1900, R"(,"stream":true,"n":16)"); }

  TempDir dir_;
  const std::string model_;
};

TEST_F(ServeCommand, ServesAModelAndShutsDownGracefully) {
  ServedProcess served({model_, "--port", "0", "--log"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  EXPECT_THAT(served.said(), HasSubstr("ibid: serving talker\n"));
  EXPECT_EQ(status_of(ask(port, get_text("/health"))), 200);
  EXPECT_EQ(status_of(ask(port, get_text("/ready"))), 200);
  EXPECT_THAT(ask(port, get_text("/v1/models")), HasSubstr("talker"));
  const std::string answer = ask(port, chat_text(5));
  EXPECT_EQ(status_of(answer), 200) << answer;
  // An exchange is counted at its end, which may be shortly after the client has received the response.
  std::string metrics;
  for (int i = 0; i < 500; ++i) {
    metrics = ask(port, get_text("/metrics"));
    if (metrics.find("{ended=\"whole\"} 1\n") != std::string::npos &&
        metrics.find("ibid_http_exchanges 1\n") != std::string::npos) {
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_THAT(metrics, HasSubstr("ibid_generation_tokens_total 5\n"));
  EXPECT_THAT(metrics, HasSubstr("ibid_sequences_completed_total{reason=\"length\"} 1\n"));
  for (const char* name : {"ibid_prompt_seconds_total",
                           "ibid_tokens_predicted_total",
                           "ibid_requests_processing",
                           "llamacpp:prompt_tokens_total",
                           "llamacpp:requests_processing",
                           "llamacpp:prompt_tokens_cached_total",
                           "llamacpp:n_decode_total",
                           "llamacpp:n_busy_slots_per_decode",
                           "llamacpp:spec_decode_num_draft_tokens_total",
                           "llamacpp:spec_decode_num_accepted_tokens_total",
                           "llamacpp:spec_decode_num_drafts_total",
                           "ibid_requests_deferred",
                           "ibid_n_tokens_max",
                           "ibid_prefix_cache_lookups_total",
                           "ibid_prefix_cache_evictions_total",
                           "ibid_kv_store_sessions",
                           "vllm:num_requests_running",
                           "vllm:num_requests_waiting",
                           "vllm:prefix_cache_queries_total",
                           "vllm:prefix_cache_hits_total",
                           "vllm:kv_cache_usage_perc"}) {
    EXPECT_THAT(metrics, HasSubstr(std::string("\n# TYPE ") + name + " "));
  }
  EXPECT_THAT(metrics, HasSubstr("vllm:kv_cache_usage_perc{model_name=\"talker\"} 0\n")) << "nothing runs";
  EXPECT_THAT(metrics, HasSubstr("vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\""));
  EXPECT_THAT(metrics, HasSubstr("ibid_kv_budget_bytes{model=\"talker\"} "));
  EXPECT_THAT(metrics, HasSubstr("path=\"/v1/chat/completions\",method=\"POST\",status=\"200\"} 1\n"));
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait(), 0) << served.said();
}

TEST_F(ServeCommand, LogHasNumbersAndNoClientText) {
  ServedProcess served({model_, "--port", "0", "--log"}, {"IBID_API_KEY=key-of-a-test"});
  const uint16_t port = served.port();
  ask(port, chat_text(3, "", "Authorization: Bearer key-of-a-test\r\nX-Request-Id: router-7\r\n"));
  ask(port, get_text("/get_loads", "x-api-key: key-of-a-test\r\n"));
  ask(port, get_text("/a/path/of/mine", "x-api-key: wrong-key-9\r\n"));
  ASSERT_TRUE(served.says("\"status\":401")) << served.said();
  EXPECT_THAT(served.said(), HasSubstr("\"request_id\":\"router-7\""));
  EXPECT_THAT(served.said(), HasSubstr("\"unknown_path\":\"/get_loads\""));
  served.signal_it(SIGTERM);
  served.wait();
  EXPECT_THAT(served.said(), HasSubstr("\"n_decoded\":3"));
  EXPECT_THAT(served.said(), HasSubstr("\"model\":\"talker\""));
  for (const char* text : {"secret question", "key-of-a-test", "wrong-key", "path/of/mine"}) {
    EXPECT_THAT(served.said(), Not(HasSubstr(text)));
  }
}

TEST_F(ServeCommand, RunningAnswerIsCompletedBeforeShutdown) {
  ServedProcess served({model_, "--port", "0"});
  const uint16_t port = served.port();
  RawClient one(port);
  one.send(chat_text(400, R"(,"stream":true,"n":4)"));
  one.read_to("data: ");
  served.signal_it(SIGTERM);
  ASSERT_TRUE(served.says("stopping")) << served.said();
  EXPECT_THAT(one.read_all(), HasSubstr("data: [DONE]"));
  EXPECT_EQ(served.wait(), 0);
}

TEST_F(ServeCommand, AnswersAreCancelledAfterDrainTimeout) {
  ServedProcess served({model_, "--port", "0", "--drain-timeout", "0s"});
  const uint16_t port = served.port();
  RawClient one(port);
  one.send(long_chat_text());
  one.read_to("data: ");
  served.signal_it(SIGINT);
  const std::string rest = one.read_all();
  EXPECT_THAT(rest, HasSubstr("\"code\":\"cancelled\"")) << "the client gets the error";
  EXPECT_THAT(rest, Not(HasSubstr("[DONE]")));
  EXPECT_EQ(served.wait(), 0);
  EXPECT_THAT(served.said(), HasSubstr("cut off"));
}

TEST_F(ServeCommand, SecondSignalEndsTheServerAtOnce) {
  ServedProcess served({model_, "--port", "0", "--unix", dir_.file("socket")});
  const uint16_t port = served.port();
  RawClient one(port);
  one.send(long_chat_text());
  one.read_to("data: ");
  served.signal_it(SIGTERM);
  ASSERT_TRUE(served.says("stopping")) << served.said();
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait(), 128 + SIGTERM);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("socket")));
}

TEST_F(ServeCommand, SignalDuringModelLoadingShutsDownGracefully) {
  ServedProcess served({model_, "--port", "0"});
  ASSERT_TRUE(served.says("ibid: on http")) << served.said();
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait(), 0) << served.said();
}

TEST_F(ServeCommand, UnreadLogDoesNotBlockShutdown) {
  ServedProcess served({model_, "--port", "0", "--log"});
  const uint16_t port = served.port();
  RawClient one(port);
  for (int i = 0; i < 1000; ++i) {  // more requests than a pipe can hold lines for
    one.send(get_text("/health"));
    ASSERT_EQ(status_of(one.read_response()), 200);
  }
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait_silently(), 0);
}

TEST_F(ServeCommand, ReplacedModelFileIsUsedAfterRunningAnswers) {
  const std::string other = dir_.file("other.gguf"), whole = dir_.file("whole.gguf");
  write_talking_model(other, 2);
  std::filesystem::copy_file(model_, whole);
  std::string expected_old, expected_new;
  {
    ServedProcess served({model_, other, "--port", "0"});
    const uint16_t port = served.port();
    expected_old = content_of(ask(port, chat_text(20, R"(,"temperature":0)")));
    expected_new = content_of(ask(port, chat_text(20, R"(,"temperature":0,"model":"other")")));
    ASSERT_NE(expected_old, expected_new);
  }
  ServedProcess served({model_, "--port", "0"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  RawClient long_one(port);
  long_one.send(chat_text(400, R"(,"stream":true,"n":4)"));
  long_one.read_to("data: ");
  std::filesystem::rename(other, model_);
  RawClient next(port);
  next.send(chat_text(20, R"(,"temperature":0)"));
  EXPECT_THAT(long_one.read_to("data: [DONE]"), HasSubstr("data: [DONE]"))
      << "the running answer is completed by the old model";
  EXPECT_EQ(content_of(next.read_response()), expected_new);
  // Overwrites the file in place with its first half.
  std::filesystem::resize_file(model_, std::filesystem::file_size(model_) / 2);
  for (int i = 0; i < 2; ++i) {
    const std::string broken = ask(port, chat_text(20));
    EXPECT_EQ(status_of(broken), 503) << broken;
    EXPECT_THAT(broken, HasSubstr("talker cannot be loaded"));
    EXPECT_THAT(broken, Not(HasSubstr(dir_.file(""))));
  }
  EXPECT_TRUE(served.says("talker cannot be loaded: " + model_)) << served.said();
  std::filesystem::copy_file(whole, model_, std::filesystem::copy_options::overwrite_existing);
  EXPECT_EQ(content_of(ask(port, chat_text(20, R"(,"temperature":0)"))), expected_old);
  served.signal_it(SIGTERM);
  EXPECT_EQ(served.wait(), 0);
}

TEST_F(ServeCommand, ServesOnlyAUnixSocket) {
  ServedProcess served({model_, "--host", "", "--unix", dir_.file("socket")});
  ASSERT_TRUE(served.says("ibid: ready")) << served.said();
  EXPECT_THAT(served.said(), HasSubstr("on unix:" + dir_.file("socket")));
  RawClient one(dir_.file("socket"));
  one.send(get_text("/health"));
  EXPECT_EQ(status_of(one.read_response()), 200);
}

TEST_F(ServeCommand, StartupErrorsAreOneSentence) {
  const auto fails_with = [](std::vector<std::string> arguments) {
    ServedProcess served(std::move(arguments));
    EXPECT_EQ(served.wait(), 1) << served.said();
    EXPECT_EQ(std::count(served.said().begin(), served.said().end(), '\n'), 1) << served.said();
    return served.said();
  };
  EXPECT_THAT(fails_with({dir_.file("none.gguf")}), HasSubstr("none.gguf"));
  EXPECT_THAT(fails_with({model_, "--host", "0.0.0.0", "--port", "0"}), HasSubstr("--api-key-file"));
  EXPECT_THAT(fails_with({model_, "--cert", dir_.file("c")}), HasSubstr("--cert FILE --key FILE"));
  EXPECT_THAT(fails_with({model_, "--api-key-file", dir_.write("keys", "bad\n")}), HasSubstr("line 1"));
  EXPECT_THAT(fails_with({model_, "--max-connections", "1000000"}), HasSubstr("--max-connections"));
  ServedProcess first({model_, "--port", "0"});
  const uint16_t port = first.port();
  EXPECT_THAT(fails_with({model_, "--port", std::to_string(port)}), HasSubstr("in use by another program"));
}

TEST_F(ServeCommand, OptionsAlsoComeFromEnvironmentAndConfigFile) {
  const std::string config = dir_.write("config.toml", "[serve]\nparallel = 3\nmax-body = \"1K\"\n");
  ServedProcess served({model_, "--config", config},
                       {"IBID_PORT=0", "IBID_SERVE_UNIX=" + dir_.file("of_env"), "IBID_SERVE_LOG=true"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  EXPECT_NE(port, 8080);
  EXPECT_TRUE(std::filesystem::exists(dir_.file("of_env")));
  EXPECT_EQ(status_of(ask(port, post_text("/v1/chat/completions", std::string(2000, ' ')))), 413);
  EXPECT_TRUE(served.says("\"status\":413")) << "the log is on";
}

TEST_F(ServeCommand, ServesSeveralModelsByName) {
  const std::string second = dir_.file("other.gguf");
  write_talking_model(second, 2);
  ServedProcess served({model_, second, "--port", "0"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  EXPECT_THAT(ask(port, get_text("/metrics")), HasSubstr("ibid_model_loaded{model=\"other\"} 0\n"));
  const std::string body = R"({"model":"other","messages":[{"role":"user","content":"x"}],"max_tokens":2})";
  EXPECT_EQ(status_of(ask(port, post_text("/v1/chat/completions", body))), 200);
  EXPECT_THAT(ask(port, get_text("/metrics")), HasSubstr("ibid_model_loaded{model=\"other\"} 1\n"));
}

}  // namespace
}  // namespace ibid
