// The whole server with a model that computes, and many clients that send requests, disconnect and come back.
// IBID_CROWD: number of clients, IBID_ROUNDS: requests of each. Timings are printed but not checked.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/json_limits.h"
#include "tests/runtime/chat_fixture.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/server/http/raw_client.h"
#include "tests/server/served_process.h"
#include "tests/server/server_inside.h"
#include "tests/server/talking_model.h"
#include "tests/support/paths.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using http::body_of;
using http::get_text;
using http::post_text;
using http::RawClient;
using http::status_of;
using std::chrono::milliseconds;
using LoadClock = std::chrono::steady_clock;

size_t number_from(const char* variable, size_t otherwise) {
  const char* given = std::getenv(variable);
  return given == nullptr ? otherwise : std::stoul(given);
}

double ms_since(LoadClock::time_point begin) {
  return std::chrono::duration<double, std::milli>(LoadClock::now() - begin).count();
}

void print_times(const std::string& what, std::vector<double> times) {
  ASSERT_FALSE(times.empty());
  std::sort(times.begin(), times.end());
  std::printf("%s: p50 %.2f ms, p99 %.2f ms, longest %.2f ms, of %zu\n", what.c_str(), times[times.size() / 2],
              times[times.size() * 99 / 100], times.back(), times.size());
}

std::string post_once(std::string_view path, const Json& body) {
  return post_text(path, json_to_string(body), "Connection: close\r\n");
}

const Json& unsaid_by_talker() {
  static const Json unsaid = Json::parse(R"({"257":-100})");
  return unsaid;
}

// Bans all tokens of FakeTokenizer except ASCII, because a stream has no text for an incomplete character.
const Json& unsaid_by_fake() {
  static const Json unsaid = [] {
    Json ids = Json::object();
    for (int id = 128; id < 264; ++id) ids[std::to_string(id)] = -100;
    return ids;
  }();
  return unsaid;
}

// A conversation with one question, whose answer has max_tokens tokens and is the same each time.
Json question(size_t number, size_t max_tokens, bool streams, const Json& unsaid = unsaid_by_talker()) {
  const std::string text = "question " + std::to_string(number) + std::string(number % 7 * 20, 'q');
  Json body = Json::parse(R"({"messages":[{"role":"system","content":"You are brief."}]})");
  body["logit_bias"] = unsaid;
  Json message = Json::object();
  message["role"] = "user";
  message["content"] = text;
  body["messages"].push_back(message);
  body["seed"] = number;
  body["max_tokens"] = max_tokens;
  body["stream"] = streams;
  return body;
}

std::string unchunked(std::string chunked) {
  std::string whole;
  while (!chunked.empty()) {
    const size_t size = std::stoul(chunked, nullptr, 16);
    const size_t begin = chunked.find("\r\n") + 2;
    if (size == 0) break;
    whole += chunked.substr(begin, size);
    chunked.erase(0, begin + size + 2);
  }
  return whole;
}

// Returns the text of a stream of chat completions, which must be complete.
std::string text_of_stream(const std::string& response) {
  const std::string events = unchunked(body_of(response));
  EXPECT_TRUE(events.ends_with("data: [DONE]\n\n")) << response.substr(0, 500);
  std::string text;
  for (size_t at = events.find("data: {"); at != std::string::npos; at = events.find("data: {", at)) {
    const size_t end = events.find("\n\n", at);
    const Json part = Json::parse(events.substr(at + 6, end - at - 6));
    for (const Json& choice : part["choices"]) {
      const auto content = choice["delta"].find("content");
      if (content != choice["delta"].end() && content->is_string()) text += content->get<std::string>();
    }
    at = end;
  }
  return text;
}

std::string text_of_whole(const std::string& response) {
  EXPECT_EQ(status_of(response), 200) << response;
  return Json::parse(body_of(response))["choices"][0]["message"]["content"].get<std::string>();
}

constexpr size_t kQuestions = 12, kAnswerTokens = 24;

// A client that sometimes disconnects before its answer is complete.
class Visitor {
 public:
  Visitor(const ServerInside& inside, const Json& unsaid, const std::vector<std::string>& answers, uint64_t seed)
      : inside_(inside), unsaid_(unsaid), answers_(answers), random_(seed) {}

  void run(size_t n_rounds) {
    for (size_t round = 0; round < n_rounds; ++round) {
      switch (random_() % 7) {
        case 0: hear_stream(); break;
        case 1: hear_whole(); break;
        case 2: leave_early(); break;
        case 3: leave_while_it_is_read(); break;
        case 4: leave_in_the_middle(); break;
        case 5: speak_another_protocol(); break;
        default: look_around(); break;
      }
    }
  }

  size_t n_whole = 0, n_left = 0;

 private:
  void hear_stream() {
    const size_t number = random_() % kQuestions;
    EXPECT_EQ(text_of_stream(inside_.ask(chat(number, true))), answers_[number]);
    ++n_whole;
  }
  void hear_whole() {
    const size_t number = random_() % kQuestions;
    EXPECT_EQ(text_of_whole(inside_.ask(chat(number, false))), answers_[number]);
    ++n_whole;
  }
  // Leaves in the queue, during planning, or at the start of prefill.
  void leave_early() {
    RawClient one(inside_.server->port());
    one.send(post_once("/v1/chat/completions", question(random_(), 500, random_() % 2 == 0, unsaid_)));
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 5000));
    go(one);
  }
  // Leaves during the prefill of a long, new prompt, after one part of it.
  void leave_while_it_is_read() {
    Json body = question(random_(), 500, true, unsaid_);
    body["messages"][0]["content"] = std::to_string(random_()) + std::string(1200 + random_() % 400, 'z');
    body["return_progress"] = true;
    RawClient one(inside_.server->port());
    one.send(post_once("/v1/chat/completions", body));
    EXPECT_NE(one.read_to("prompt_progress"), "");
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % 3000));
    go(one);
  }
  void leave_in_the_middle() {
    RawClient one(inside_.server->port());
    one.send(post_once("/v1/chat/completions", question(random_() % kQuestions, 1500, true, unsaid_)));
    for (size_t n = 1 + random_() % 10; n > 0; --n) {
      if (one.read_to("data: ").empty()) return;  // the answer has already ended
    }
    go(one);
  }
  void go(RawClient& one) {
    ++n_left;
    if (random_() % 2 == 0) one.reset();
  }
  void speak_another_protocol() {
    Json body = question(random_() % kQuestions, 8, random_() % 2 == 0, unsaid_);
    const char* paths[] = {"/v1/responses", "/v1/messages", "/api/chat", "/v1/completions", "/completion"};
    const std::string path = paths[random_() % std::size(paths)];
    if (path == "/v1/responses") body["input"] = body["messages"];
    if (path == "/api/chat") body["options"]["num_predict"] = 8;
    if (path == "/v1/messages") body["messages"].erase(0);  // the system message is a field of the request here
    if (path == "/v1/completions" || path == "/completion") body["prompt"] = "once upon a time";
    if (path == "/v1/responses" || path == "/completion") body["n_predict"] = body["max_output_tokens"] = 8;
    const std::string response = inside_.ask(post_once(path, body));
    EXPECT_EQ(status_of(response), 200) << path << response;
  }
  void look_around() {
    for (const char* path : {"/health", "/metrics", "/monitor.json", "/v1/models", "/api/ps"}) {
      const std::string response = inside_.ask(get_text(path, "Connection: close\r\n"));
      EXPECT_EQ(status_of(response), 200) << path;
    }
  }

  std::string chat(size_t number, bool streams) const {
    return post_once("/v1/chat/completions", question(number, kAnswerTokens, streams, unsaid_));
  }

  const ServerInside& inside_;
  const Json& unsaid_;
  const std::vector<std::string>& answers_;
  std::mt19937_64 random_;
};

// Whichever clients disconnect, every answer equals that of the same question on an idle server.
void let_them_come_and_go(const ServerInside& inside, const Json& unsaid, size_t n_visitors) {
  std::vector<std::string> answers;
  for (size_t i = 0; i < kQuestions; ++i) {
    const Json body = question(i, kAnswerTokens, false, unsaid);
    answers.push_back(text_of_whole(inside.ask(post_once("/v1/chat/completions", body))));
  }
  const size_t n_rounds = number_from("IBID_ROUNDS", 3);
  std::vector<Visitor> visitors;
  for (uint64_t i = 0; i < n_visitors; ++i) visitors.emplace_back(inside, unsaid, answers, i);
  std::vector<std::thread> threads;
  for (Visitor& visitor : visitors) threads.emplace_back([&visitor, n_rounds] { visitor.run(n_rounds); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(inside.server->wait_until_quiet(milliseconds(20'000)));
  EXPECT_TRUE(inside.service->wait_until_quiet(milliseconds(20'000)));
  size_t n_whole = 0, n_left = 0;
  for (const Visitor& visitor : visitors) n_whole += visitor.n_whole, n_left += visitor.n_left;
  const ServiceStats stats = inside.service->stats();
  std::printf("%zu whole answers, %zu clients left, %llu answers were cancelled\n", n_whole, n_left,
              static_cast<unsigned long long>(stats.n_cancelled));
  EXPECT_GT(stats.n_cancelled, 0u);
  EXPECT_EQ(stats.n_bad + stats.n_failed, 0u);
  EXPECT_EQ(stats.n_running + stats.n_waiting, 0u);
  EXPECT_EQ(inside.server->stats().n_exchanges, 0u);
}

TEST(ServerLoadTest, ClientsGetTheirOwnAnswersWhileOthersDisconnect) {
  const TempDir dir;
  write_talking_model(dir.file("talker.gguf"));
  const ServerInside inside(dir.file("talker.gguf"));
  let_them_come_and_go(inside, unsaid_by_talker(), number_from("IBID_CROWD", 64));
}

// The same with layers of every kind: recurrent ones with and without an MLP, next to attention, after a shared block;
// windows, latent attention, experts.
TEST(ServerLoadTest, ClientsGetTheirOwnAnswersFromModelsOfEveryKindOfLayer) {
  IBID_NEED_SHARED(shared);
  const auto load = [](const std::string& path) -> Result<std::shared_ptr<Engine>> {
    return tiny_engine(load_tiny_checkpoint(path, {.kv_dtype = KvDType::kInt8, .n_threads = 2}), kChatMl);
  };
  for (const char* name : {"mamba2", "jamba", "falcon_h1", "zamba2", "gemma3_text", "kimi_linear"}) {
    SCOPED_TRACE(name);
    const ServerInside inside(shared + "/reference/tiny/" + name, {}, {.max_running = 32}, load);
    let_them_come_and_go(inside, unsaid_by_fake(), number_from("IBID_CROWD", 64) / 4);
  }
}

class ServedLoad : public testing::Test {
 protected:
  // IBID_SERVE_MODEL, or a tiny one.
  std::string model() {
    if (const char* given = std::getenv("IBID_SERVE_MODEL")) return given;
    write_talking_model(dir_.file("talker.gguf"));
    return dir_.file("talker.gguf");
  }

  static std::string ask(uint16_t port, const std::string& request) {
    RawClient one(port);
    one.send(request);
    return one.read_all();
  }

  TempDir dir_;
};

// Streams to many clients, all of which read, and one client that requests /health meanwhile.
TEST_F(ServedLoad, HealthIsAnsweredDuringManyStreams) {
  const size_t n_clients = number_from("IBID_CROWD", 32), n_tokens = 200;
  ServedProcess served({model(), "--port", "0", "--parallel", std::to_string(n_clients)});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  const auto health = [port](size_t n_most, const std::atomic<bool>* over) {
    std::vector<double> times;
    RawClient one(port);
    while (times.size() < n_most && (over == nullptr || !*over)) {
      const LoadClock::time_point begin = LoadClock::now();
      one.send(get_text("/health"));
      EXPECT_EQ(status_of(one.read_response()), 200);
      times.push_back(ms_since(begin));
      std::this_thread::sleep_for(milliseconds(2));
    }
    return times;
  };
  print_times("/health alone", health(100, nullptr));
  std::vector<RawClient> clients;
  for (size_t i = 0; i < n_clients; ++i) {
    clients.emplace_back(port);
    clients.back().send(post_once("/v1/chat/completions", question(i, n_tokens, true)));
  }
  std::atomic<bool> over = false;
  std::vector<double> times;
  std::thread asks([&] { times = health(SIZE_MAX, &over); });
  std::vector<std::string> responses;
  for (RawClient& one : clients) responses.push_back(one.read_all());
  over = true;
  asks.join();
  print_times("/health beside " + std::to_string(n_clients) + " streams", times);
  for (size_t i = 0; i < n_clients; i += std::max<size_t>(n_clients / 16, 1)) {
    const std::string alone = text_of_whole(ask(port, post_once("/v1/chat/completions", question(i, n_tokens, false))));
    EXPECT_EQ(text_of_stream(responses[i]), alone) << "client " << i;
  }
  for (const std::string& response : responses) EXPECT_FALSE(text_of_stream(response).empty());
}

// Measures the time from the disconnect of a client until its answer has ended and its pages and place are free.
class Departures : public ServedLoad {
 protected:
  // Sends the question, waits for this text of the stream and a while longer, disconnects, and waits.
  double leave(uint16_t port, const Json& body, std::string_view text, std::chrono::microseconds while_longer) {
    RawClient one(port);
    one.send(post_once("/v1/chat/completions", body));
    EXPECT_TRUE(one.read_to(text).ends_with(text));
    std::this_thread::sleep_for(while_longer);
    RawClient watching(port);
    one.reset();
    const LoadClock::time_point begin = LoadClock::now();
    for (int i = 0; i < 100'000; ++i) {
      watching.send(get_text("/metrics"));
      if (watching.read_response().find("\nibid_num_requests_running 0\n") != std::string::npos) return ms_since(begin);
    }
    ADD_FAILURE() << "the answer continues";
    return 0;
  }
};

TEST_F(Departures, AnswerEndsSoonAfterItsClientDisconnects) {
  ServedProcess served({model(), "--port", "0"});
  const uint16_t port = served.port();
  ASSERT_NE(port, 0) << served.said();
  std::vector<double> decoding, reading;
  std::mt19937 random(1);
  for (size_t i = 0; i < number_from("IBID_ROUNDS", 5); ++i) {
    const std::chrono::microseconds longer(random() % 20'000);
    decoding.push_back(leave(port, question(i, 1500, true), "\"content\"", longer));
    Json body = question(i, 100, true);
    // Texts differ from the first byte on, so that no part is cached.
    std::string text;
    while (text.size() < number_from("IBID_PROMPT_BYTES", 1500)) text += std::to_string(random()) + " ";
    body["messages"][0]["content"] = text;
    body["return_progress"] = true;
    reading.push_back(leave(port, body, "prompt_progress", std::chrono::microseconds(0)));
  }
  print_times("behind a client that goes while the answer is said", decoding);
  print_times("behind a client that goes while its prompt is read", reading);
  // The next request is answered, so nothing of the answer is left.
  EXPECT_EQ(text_of_whole(ask(port, post_once("/v1/chat/completions", question(1, 5, false)))).empty(), false);
}

}  // namespace
}  // namespace ibid::serve
