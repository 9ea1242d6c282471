#include <gtest/gtest.h>

#include <string>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

constexpr const char* kConversations = "/v1/conversations";
constexpr const char* kResponsesPath = "/v1/responses";

std::string path_of(const Json& conversation) {
  return std::string(kConversations) + "/" + conversation["id"].get<std::string>();
}

Json answer_to(FakeDoor& door, const Json& conversation, const char* input) {
  return door.post(kResponsesPath, Json({{"input", input}, {"conversation", conversation["id"]}}))->json();
}

TEST(ConversationsTest, ResponsesAreAppendedToTheirConversation) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string(R"({"metadata": {"a": "b"}, "items":
      [{"role": "developer", "content": "be brief"}]})"))
                                ->json();
  EXPECT_EQ(conversation["object"], "conversation");
  EXPECT_EQ(conversation["metadata"]["a"], "b");
  const Json first = answer_to(door, conversation, "one");
  EXPECT_EQ(first["conversation"]["id"], conversation["id"]);
  const Json second =
      door.post(kResponsesPath,
                Json({{"input", "two"}, {"stream", true}, {"conversation", {{"id", conversation["id"]}}}}))
          ->events()
          .back()["response"];
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"one"},)"
            R"({"role":"assistant","content":"Hello"},{"role":"user","content":"two"}])");
  const Json items = door.send("GET", path_of(conversation) + "/items?order=asc")->json()["data"];
  ASSERT_EQ(items.size(), 5u);
  EXPECT_EQ(items[2], first["output"][0]);
  EXPECT_EQ(items[4], second["output"][0]);
  EXPECT_EQ(door.send("GET", path_of(conversation) + "/items/" + items[1]["id"].get<std::string>())->json(), items[1]);
}

TEST(ConversationsTest, ResponseIsContinuedFromItsPosition) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string("{}"))->json();
  const Json first = answer_to(door, conversation, "one");
  answer_to(door, conversation, "two");
  // A branch of the response is not part of the conversation; it can be continued itself.
  const Json branch =
      door.post(kResponsesPath, Json({{"input", "other"}, {"previous_response_id", first["id"]}}))->json();
  EXPECT_EQ(door.last().messages.size(), 3u);
  EXPECT_EQ(door.last().messages[2]["content"], "other");
  EXPECT_FALSE(branch.contains("conversation"));
  door.post(kResponsesPath, Json({{"input", "more"}, {"previous_response_id", branch["id"]}}));
  EXPECT_EQ(door.last().messages.size(), 5u);
  EXPECT_EQ(door.send("GET", path_of(conversation) + "/items")->json()["data"].size(), 4u);
  const std::string inputs = std::string(kResponsesPath) + "/" + first["id"].get<std::string>() + "/input_items";
  EXPECT_EQ(door.send("GET", inputs)->json()["data"].size(), 1u);
  // If items of a response were deleted, it cannot be continued, and the error says so.
  const std::string said = first["output"][0]["id"];
  EXPECT_EQ(door.send("DELETE", path_of(conversation) + "/items/" + said)->json()["object"], "conversation");
  const auto lost = door.post(kResponsesPath, Json({{"input", "x"}, {"previous_response_id", first["id"]}}));
  EXPECT_EQ(lost->status, 404);
  EXPECT_EQ(door.send("GET", inputs)->status, 404);
}

TEST(ConversationsTest, ItemsAreAddedAndRemoved) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string())->json();
  const Json added = door.post(path_of(conversation) + "/items", std::string(R"({"items": [
      {"role": "user", "content": "weather?"},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "sun"}]})"))
                         ->json();
  ASSERT_EQ(added["data"].size(), 3u);
  EXPECT_EQ(added["first_id"], added["data"][0]["id"]);
  // An empty input is allowed if a tool's result still has no answer.
  const auto exchange =
      door.post(kResponsesPath, Json({{"input", Json::array()}, {"conversation", conversation["id"]}}));
  EXPECT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(door.last().messages.size(), 3u);
  EXPECT_EQ(door.last().messages[1]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(door.post(path_of(conversation), std::string(R"({"metadata": {"c": "d"}})"))->json()["metadata"]["c"], "d");
  EXPECT_EQ(door.send("GET", path_of(conversation))->json()["metadata"]["c"], "d");
}

TEST(ConversationsTest, ConversationIsFoundAndDeletedOnlyInItsNamespace) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string("{}"))->json();
  const std::string path = path_of(conversation);
  for (const char* method : {"GET", "DELETE"}) EXPECT_EQ(door.send(method, path, "", "others")->status, 404);
  const Json body = {{"input", "x"}, {"conversation", conversation["id"]}};
  const auto others = door.send("POST", kResponsesPath, json_to_string(body), "others");
  EXPECT_EQ(others->status, 404);
  EXPECT_EQ(others->json()["error"]["param"], "conversation");
  EXPECT_TRUE(door.send("DELETE", path)->json()["deleted"].get<bool>());
  EXPECT_EQ(door.send("GET", path)->status, 404);
  EXPECT_EQ(door.post(kResponsesPath, body)->status, 404);
}

TEST(ConversationsTest, SecondResponseIsRefusedAndFailedResponsesChangeNothing) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string("{}"))->json();
  door.backend->keep_listeners = true;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
  };
  const Json body = {{"input", "x"}, {"conversation", conversation["id"]}};
  door.post(kResponsesPath, body);
  EXPECT_EQ(door.post(kResponsesPath, body)->status, 409);
  const std::string more = R"({"items": [{"role": "user", "content": "y"}]})";
  EXPECT_EQ(door.post(path_of(conversation) + "/items", more)->status, 409);
  door.backend->listeners[0]->end(Status(ErrorCode::kOutOfMemory, "no pages"));
  door.backend->listeners.clear();
  EXPECT_EQ(door.send("GET", path_of(conversation) + "/items")->json()["data"].size(), 0u);
  door.backend->script = {};
  EXPECT_EQ(door.post(kResponsesPath, body)->status, 200);
}

TEST(ConversationsTest, BadRequestsNameTheirPath) {
  FakeDoor door;
  const Json conversation = door.post(kConversations, std::string("{}"))->json();
  EXPECT_EQ(door.post(kConversations, std::string(R"({"items": [5]})"))->json()["error"]["param"], "items[0]");
  EXPECT_EQ(door.post(path_of(conversation), std::string("{}"))->json()["error"]["param"], "metadata");
  EXPECT_EQ(door.post(path_of(conversation) + "/items", std::string("{}"))->json()["error"]["param"], "items");
  EXPECT_EQ(door.send("GET", path_of(conversation) + "/items/x")->json()["error"]["param"], "item_id");
  const Json both = {{"input", "x"}, {"conversation", conversation["id"]}, {"previous_response_id", "resp_1"}};
  EXPECT_EQ(door.post(kResponsesPath, both)->json()["error"]["param"], "conversation");
  EXPECT_EQ(door.post(kResponsesPath, std::string(R"({"input": "x", "conversation": 5})"))->status, 400);
}

}  // namespace
}  // namespace ibid::serve
