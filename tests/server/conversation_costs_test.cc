#include <gtest/gtest.h>

#include <future>

#include "server/service/service.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// Prefilled after an answer that max_tokens ended: its last token, and the template's end of turn.
constexpr size_t kBehindCut = 2;

struct ServedConversations : ServiceFixture {
  ServedConversations() : door(service) {}

  std::shared_ptr<FakeExchange> ask(const std::string& input, Json more) {
    Json body = {{"input", input}, {"temperature", 0}, {"max_output_tokens", 12}};
    body.update(more);
    return send("POST", "/v1/responses", json_to_string(body));
  }
  std::shared_ptr<FakeExchange> send(const std::string& method, const std::string& path, const std::string& body = "") {
    const auto exchange = door.send(method, path, body);
    EXPECT_TRUE(service->wait_until_quiet(std::chrono::seconds(60)));
    std::promise<void> written;
    service->write_behind([&] { written.set_value(); });
    written.get_future().wait();
    return exchange;
  }
  Json answer(const std::string& input, Json more, size_t& n_read) {
    const auto exchange = ask(input, std::move(more));
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    n_read = exchange->json()["ibid"]["prefilled"].get<size_t>();
    return exchange->json();
  }
  Json create() { return {{"conversation", send("POST", "/v1/conversations", "{}")->json()["id"]}}; }
  Json items(const Json& conversation) {
    const std::string id = conversation["conversation"];
    return send("GET", "/v1/conversations/" + id + "/items?order=asc&limit=100")->json()["data"];
  }
  size_t n_of_message(const std::string& text) { return chat.ids(text + "<|im_end|>\n<|im_start|>assistant\n").size(); }

  FakeDoor door;
};

TEST(ConversationCostsTest, ConversationCostsTheSameAsASession) {
  ServedConversations f;
  ChatFixture lone;
  ChatSession session = lone.session();
  const Json conversation = f.create();
  for (const char* text : {"one", "two", "three"}) {
    size_t n_read = 0;
    const Json answer = f.answer(text, conversation, n_read);
    const Turn expected = must(session.send(text, parsing(greedy(12))));
    EXPECT_EQ(answer["output"][0]["content"][0]["text"], expected.content);
    EXPECT_EQ(n_read, expected.usage.n_prefilled);
  }
  EXPECT_EQ(f.items(conversation).size(), 6u);
}

TEST(ConversationCostsTest, BranchesPrefillOnlyNewMessages) {
  ServedConversations f;
  size_t n_read = 0;
  const Json first = f.answer("one", Json::object(), n_read);
  const Json second = f.answer("two", {{"previous_response_id", first["id"]}}, n_read);
  EXPECT_EQ(n_read, f.chat.next_prompt("two").size() + kBehindCut);
  // Continues from the first answer by a different message, then by the same one, then from the second answer.
  f.answer("other", {{"previous_response_id", first["id"]}}, n_read);
  EXPECT_EQ(n_read, f.n_of_message("other"));
  f.answer("two", {{"previous_response_id", first["id"]}}, n_read);
  EXPECT_LE(n_read, 1u);
  f.answer("three", {{"previous_response_id", second["id"]}}, n_read);
  EXPECT_EQ(n_read, f.chat.next_prompt("three").size() + kBehindCut);
}

TEST(ConversationCostsTest, FailedRequestLeavesConversationUnchanged) {
  ServedConversations f;
  const Json conversation = f.create();
  f.ask("one", conversation);
  const Json before = f.items(conversation);
  EXPECT_EQ(before.size(), 2u);
  EXPECT_EQ(f.ask(std::string(5000, 'x'), conversation)->status, 400);
  EXPECT_EQ(f.items(conversation), before);
  EXPECT_EQ(f.ask("two", conversation)->status, 200);
  EXPECT_EQ(f.items(conversation).size(), 4u);
}

}  // namespace
}  // namespace ibid::serve
