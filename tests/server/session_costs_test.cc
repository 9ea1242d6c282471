// Sessions over a real service: what a message, an edit and a fork cost, and that a failure leaves all as it was.
#include <gtest/gtest.h>

#include "server/service/service.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// Behind an answer that was cut at max_tokens: its last id, and the template's end of it.
constexpr size_t kBehindCut = 2;

struct ServedSessions : ServiceFixture {
  ServedSessions() : door(service) {}

  std::string create() {
    const auto exchange = door.post("/v1/sessions", std::string(R"({"temperature": 0, "max_tokens": 12})"));
    return "/v1/sessions/" + exchange->json()["id"].get<std::string>();
  }
  std::shared_ptr<FakeExchange> post(const std::string& path, const std::string& body) {
    const auto exchange = door.post(path, body);
    EXPECT_TRUE(service->wait_until_quiet(std::chrono::seconds(60)));
    return exchange;
  }
  // What of the prompt an answer read.
  size_t n_read(const std::string& path, const std::string& body) {
    const auto exchange = post(path, body);
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return exchange->json()["ibid"]["prefilled"].get<size_t>();
  }
  Json messages(const std::string& path) { return door.send("GET", path)->json()["messages"]; }

  FakeDoor door;
};

TEST(SessionCostsTest, ASessionAnswersAsALoneOne) {
  ServedSessions f;
  ChatFixture lone;
  ChatSession session = lone.session();
  const std::string path = f.create();
  for (const char* text : {"one", "two", "three"}) {
    const Json answer = f.post(path + "/messages", "{\"content\": \"" + std::string(text) + "\"}")->json();
    const Turn expected = must(session.send(text, parsing(greedy(12))));
    EXPECT_EQ(answer["choices"][0]["message"]["content"], expected.content);
    EXPECT_EQ(answer["ibid"]["prefilled"], expected.usage.n_prefilled);
  }
  EXPECT_EQ(f.messages(path).size(), 6u);
}

TEST(SessionCostsTest, ForksRewindsAndEditsReadWhatIsNew) {
  ServedSessions f;
  const std::string path = f.create();
  f.post(path + "/messages", R"({"content": "one"})");
  f.post(path + "/messages", R"({"content": "two"})");
  const Json before = f.messages(path);
  const Json branch = f.post(path + "/fork", R"({"n_messages": 2})")->json();
  const std::string fork = "/v1/sessions/" + branch["id"].get<std::string>();
  EXPECT_EQ(f.n_read(fork + "/messages", R"({"content": "other"})"),
            f.chat.ids("other<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(f.messages(path), before);
  EXPECT_EQ(f.n_read(path + "/edit", R"({"message": 2, "content": "edited"})"),
            f.chat.ids("edited<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(f.n_read(path + "/regenerate", ""), 0u);
  EXPECT_EQ(f.post(path + "/rewind", R"({"n_messages": 2})")->status, 200);
  EXPECT_EQ(f.messages(path).size(), 2u);
}

TEST(SessionCostsTest, ARequestThatFailsLeavesItAsItWas) {
  ServedSessions f;
  const std::string path = f.create();
  f.post(path + "/messages", R"({"content": "one"})");
  const Json before = f.messages(path);
  const std::string large(5000, 'x');
  EXPECT_EQ(f.post(path + "/messages", "{\"content\": \"" + large + "\"}")->status, 400);
  EXPECT_EQ(f.post(path + "/edit", "{\"message\": 0, \"content\": \"" + large + "\"}")->status, 400);
  EXPECT_EQ(f.messages(path), before);
  EXPECT_EQ(f.post(path + "/messages", R"({"content": "two"})")->status, 200);
}

TEST(SessionCostsTest, ARestoredSessionGoesOnWhereItWas) {
  ServedSessions f;
  const std::string path = f.create();
  f.post(path + "/messages", R"({"content": "one"})");
  const std::string saved = f.post(path + "/save", "")->body;
  EXPECT_EQ(f.door.send("DELETE", path)->status, 200);
  const Json restored = f.post("/v1/sessions/restore", saved)->json();
  EXPECT_EQ(f.n_read("/v1/sessions/" + restored["id"].get<std::string>() + "/messages", R"({"content": "two"})"),
            f.chat.next_prompt("two").size() + kBehindCut) << "the ids of the answer are known still";
}

}  // namespace
}  // namespace ibid::serve
