// Responses and conversations of two nodes with one shared store, and a store that is down.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "net/shared_server.h"
#include "server/store/conversation_store.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/support/resp_server.h"

namespace ibid::serve {
namespace {

constexpr const char* kResponsesPath = "/v1/responses";
constexpr const char* kConversationsPath = "/v1/conversations";

std::unique_ptr<ConversationStore> store_on(const RespServer& server) {
  return ConversationStore::open({.server = net::SharedServer::open(server.url(), "").value()}).value();
}
std::string path_of(const char* resource, const Json& made) {
  return std::string(resource) + "/" + made["id"].get<std::string>();
}

TEST(SharedStoreTest, ResponseIsContinuedAndDeletedOnAnotherNode) {
  const RespServer server;
  FakeDoor first(store_on(server)), second(store_on(server));
  second.new_ids_from(100);
  const Json made = first.post(kResponsesPath, std::string(R"({"input": "one"})"))->json();
  EXPECT_EQ(second.send("GET", path_of(kResponsesPath, made))->json(), made);
  const auto next = second.post(kResponsesPath, Json({{"input", "two"}, {"previous_response_id", made["id"]}}));
  ASSERT_EQ(next->status, 200);
  EXPECT_EQ(second.last().messages.size(), 3u);
  EXPECT_EQ(first.send("GET", path_of(kResponsesPath, next->json()) + "/input_items")->json()["data"].size(), 3u);
  EXPECT_EQ(second.send("GET", path_of(kResponsesPath, made), "", "others")->status, 404);
  EXPECT_EQ(second.send("DELETE", path_of(kResponsesPath, made))->status, 200);
  EXPECT_EQ(first.send("GET", path_of(kResponsesPath, made))->status, 404);
}

TEST(SharedStoreTest, ConversationIsChangedAndDeletedOnAnotherNode) {
  const RespServer server;
  FakeDoor first(store_on(server)), second(store_on(server));
  second.new_ids_from(100);
  const Json made = first.post(kConversationsPath, std::string(R"({"metadata": {"a": "b"}})"))->json();
  const Json request = {{"input", "one"}, {"conversation", made["id"]}};
  EXPECT_EQ(first.post(kResponsesPath, request)->json()["status"], "completed");
  EXPECT_EQ(second.post(kResponsesPath, request)->json()["status"], "completed");
  EXPECT_EQ(second.last().messages.size(), 3u) << "the turn of the other node precedes this one";
  EXPECT_EQ(first.send("GET", path_of(kConversationsPath, made) + "/items")->json()["data"].size(), 4u);
  EXPECT_EQ(second.send("DELETE", path_of(kConversationsPath, made))->status, 200);
  EXPECT_EQ(first.send("GET", path_of(kConversationsPath, made))->status, 404);
}

// Two nodes answer in one conversation at once: the turn that ends first is part of it, the other is refused.
TEST(SharedStoreTest, ConversationHasTheFirstOfTwoTurnsAtOnce) {
  const RespServer server;
  FakeDoor first(store_on(server)), second(store_on(server));
  second.new_ids_from(100);
  const Json made = first.post(kConversationsPath, std::string("{}"))->json();
  const Json request = {{"input", "one"}, {"conversation", made["id"]}};
  first.backend->script = [&](const AnswerRequest& answered, AnswerListener& listener) {
    EXPECT_EQ(second.post(kResponsesPath, request)->json()["status"], "completed");
    FakeBackend::say(answered, listener, make_answer("Hello"));
  };
  const Json refused = first.post(kResponsesPath, request)->json();
  EXPECT_EQ(refused["status"], "failed");
  EXPECT_EQ(refused["error"]["code"], "conversation_busy");
  EXPECT_EQ(refused["output"].size(), 1u) << "the client has the answer";
  EXPECT_EQ(first.send("GET", path_of(kConversationsPath, made) + "/items")->json()["data"].size(), 2u);
}

// The answer is whole, and says that it was not stored. Requests that need the store are refused.
TEST(SharedStoreTest, StoreThatIsDownCostsNoAnswer) {
  RespServer server;
  FakeDoor door(store_on(server));
  const Json before = door.post(kResponsesPath, std::string(R"({"input": "one"})"))->json();
  const Json conversation = door.post(kConversationsPath, std::string("{}"))->json();
  EXPECT_EQ(before["store"], true);
  EXPECT_FALSE(before["ibid"].contains("ignored"));
  const auto goes_down = [&](const AnswerRequest& request, AnswerListener& listener) {
    server.set_down(true);
    FakeBackend::say(request, listener, make_answer("Hello"));
  };
  door.backend->script = goes_down;
  const auto in_conversation =
      door.post(kResponsesPath, Json({{"input", "one"}, {"conversation", conversation["id"]}}));
  EXPECT_EQ(in_conversation->json()["status"], "completed");
  EXPECT_EQ(in_conversation->json()["ibid"]["ignored"][0]["field"], "store");
  EXPECT_EQ(in_conversation->json()["ibid"]["ignored"][1]["field"], "conversation");
  const Json answer = door.post(kResponsesPath, std::string(R"({"input": "one"})"))->json();
  EXPECT_EQ(answer["status"], "completed");
  EXPECT_EQ(answer["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(answer["store"], false);
  EXPECT_EQ(answer["ibid"]["ignored"][0]["field"], "store");
  const Json unstored = door.post(kResponsesPath, std::string(R"({"input": "one", "store": false})"))->json();
  EXPECT_FALSE(unstored["ibid"].contains("ignored")) << "nothing was lost";
  const auto stream = door.post(kResponsesPath, std::string(R"({"input": "one", "stream": true})"));
  EXPECT_EQ(stream->events().back()["type"], "response.completed");
  EXPECT_EQ(stream->events().back()["response"]["store"], false);
  const auto chat =
      door.post("/v1/chat/completions", std::string(R"({"messages": [{"role": "user", "content": "x"}]})"));
  EXPECT_EQ(chat->status, 200);
  const auto next = door.post(kResponsesPath, Json({{"input", "two"}, {"previous_response_id", before["id"]}}));
  EXPECT_EQ(next->status, 503);
  EXPECT_EQ(next->json()["error"]["code"], "service_unavailable");
  EXPECT_EQ(next->body.find("127.0.0.1"), std::string::npos);
  EXPECT_EQ(door.send("GET", path_of(kResponsesPath, before))->status, 503);
  EXPECT_EQ(door.send("DELETE", path_of(kResponsesPath, before))->status, 503);
  EXPECT_EQ(door.post(kConversationsPath, std::string("{}"))->status, 503);
}

}  // namespace
}  // namespace ibid::serve
