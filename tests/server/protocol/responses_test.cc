#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/protocol/responses_items.h"
#include "server/store/database.h"
#include "tests/server/protocol/fake_door.h"
#include "tests/support/temp_dir.h"

namespace ibid::serve {
namespace {

using testing::ElementsAre;

constexpr const char* kResponses = "/v1/responses";

TEST(ResponsesTest, WholeResponseHasItemsAndUsage) {
  FakeDoor door;
  const auto exchange =
      door.post(kResponses, std::string(R"({"model": "tiny", "input": "hi", "instructions": "be brief",
    "metadata": {"a": "b"}, "max_output_tokens": 9})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  const Json json = exchange->json();
  EXPECT_EQ(json["object"], "response");
  EXPECT_EQ(json["status"], "completed");
  EXPECT_EQ(json["output"][0]["type"], "message");
  EXPECT_EQ(json["output"][0]["content"][0]["type"], "output_text");
  EXPECT_EQ(json["output"][0]["content"][0]["text"], "Hello");
  EXPECT_EQ(json["usage"]["input_tokens"], 30);
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cached_tokens"], 20);
  EXPECT_EQ(json["usage"]["input_tokens_details"]["cache_write_tokens"], 10);
  EXPECT_EQ(json["metadata"]["a"], "b");
  EXPECT_EQ(json["max_output_tokens"], 9);
  EXPECT_EQ(json_to_string(door.last().messages),
            R"([{"role":"system","content":"be brief"},{"role":"user","content":"hi"}])");
  EXPECT_EQ(door.last().options.max_tokens, 9u);
}

TEST(ResponsesTest, ItemsOfOneAnswerBecomeOneMessage) {
  Json messages = Json::array();
  const Json input = Json::parse(R"([
    {"role": "user", "content": [{"type": "input_text", "text": "weather?"}]},
    {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hmm"}]},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "wait", "annotations": []}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "g", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "sun"},
    {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "rain"}]}])");
  IgnoredParts ignored;
  read_input(input, messages, ignored);
  EXPECT_TRUE(ignored.empty());
  ASSERT_EQ(messages.size(), 4u) << messages.dump();
  EXPECT_EQ(messages[1]["content"], "wait");
  EXPECT_EQ(messages[1]["reasoning_content"], "hmm");
  EXPECT_EQ(messages[1]["tool_calls"].size(), 2u);
  EXPECT_EQ(messages[2]["role"], "tool");
  EXPECT_EQ(messages[2]["content"], "sun");
  EXPECT_EQ(messages[3]["tool_call_id"], "c2");
}

// The output continues a message of the assistant at the end, and is joined to it where the history is read again: from
// the store, or as the client sends it back.
TEST(ResponsesTest, AssistantMessageAtTheEndIsContinued) {
  const std::string begun = R"({"role": "user", "content": "Q"}, {"role": "assistant", "content": "The "})";
  for (const char* stream : {"false", "true"}) {
    FakeDoor door;
    const auto exchange =
        door.post(kResponses, R"({"input": [)" + begun + R"(], "stream": )" + std::string(stream) + "}");
    ASSERT_EQ(exchange->status, 200) << exchange->body;
    EXPECT_TRUE(door.last().continues);
    EXPECT_EQ(door.last().messages.size(), 2u);
    const Json first = exchange->streams ? exchange->events().back()["response"] : exchange->json();
    EXPECT_EQ(first["output"][0]["content"][0]["text"], "Hello") << "only the added text";
    const std::string joined = R"([{"role":"user","content":"Q"},{"role":"assistant","content":"The Hello"},)"
                               R"({"role":"user","content":"go on"}])";
    const std::string next = R"({"role": "user", "content": "go on"})";
    door.post(kResponses,
              R"({"previous_response_id": )" + json_to_string(first["id"]) + R"(, "input": [)" + next + "]}");
    EXPECT_EQ(json_to_string(door.last().messages), joined);
    EXPECT_FALSE(door.last().continues);
    door.post(kResponses, R"({"input": [)" + begun + "," + json_to_string(first["output"][0]) + "," + next + "]}");
    EXPECT_EQ(json_to_string(door.last().messages), joined);
    // An answer that was cut goes on without another message.
    door.post(kResponses, R"({"previous_response_id": )" + json_to_string(first["id"]) + R"(, "input": []})");
    EXPECT_TRUE(door.last().continues);
    EXPECT_EQ(door.last().messages[1]["content"], "The Hello");
  }
}

TEST(ResponsesTest, BadItemErrorsNameTheirPath) {
  const std::pair<const char*, const char*> cases[] = {
      {R"([5])", "input[0]"},
      {R"([{"type": "web_search_call"}])", "input"},
      {R"([{"role": "", "content": "x"}])", "input[0].role"},
      {R"([{"role": "user", "content": [{"type": "input_image"}]}])", "input[0].content[0].type"},
      {R"([{"type": "function_call", "call_id": "c", "name": "f"}])", "input[0].arguments"},
      {R"([{"type": "function_call_output", "output": "x"}])", "input[0].call_id"},
      {R"([{"role": "assistant", "content": ""}])", "input"},
      {R"([{"role": "user", "content": "x"}, {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}])",
       "input"},
      {R"([])", "input"},
      {R"(5)", "input"}};
  for (const auto& [input, param] : cases) {
    FakeDoor door;
    const auto exchange = door.post(kResponses, std::string(R"({"input": )") + input + "}");
    EXPECT_EQ(exchange->status, 400) << input;
    EXPECT_EQ(exchange->json()["error"]["param"], param) << input;
  }
  FakeDoor door;
  EXPECT_EQ(door.post(kResponses, std::string(R"({"input": "x", "tools": [{"type": "web_search"}]})"))->status, 200);
  EXPECT_EQ(door.post(kResponses, std::string(R"({"input": "x", "tools": [{"type": "function", "name": ""}]})"))
                ->json()["error"]["param"],
            "tools[0].name");
  EXPECT_EQ(door.post(kResponses, std::string(R"({"input": "x", "tools": [{"type": "function", "name": "f",
      "strict": "no"}]})"))
                ->json()["error"]["param"],
            "tools[0].strict");
  EXPECT_EQ(door.post(kResponses, std::string(R"({"input": "x", "tools": [{"type": "function", "name": "f",
      "strict": true}]})"))
                ->status,
            200);
  EXPECT_EQ(door.last().tools[0]["function"]["strict"], true);
  EXPECT_EQ(door.post(kResponses, std::string(R"({"input": "x", "background": true})"))->status, 400);
}

TEST(ResponsesTest, AnyResponseCanBeContinued) {
  FakeDoor door;
  const std::string first =
      door.post(kResponses, std::string(R"({"input": "one", "instructions": "a"})"))->json()["id"];
  const Json next = {{"input", "two"}, {"previous_response_id", first}};
  const std::string second = door.post(kResponses, next)->json()["id"];
  EXPECT_EQ(
      json_to_string(door.last().messages),
      R"([{"role":"user","content":"one"},{"role":"assistant","content":"Hello"},{"role":"user","content":"two"}])");
  // Both responses can be continued: the second, then the first a second time.
  door.post(kResponses, Json({{"input", "three"}, {"previous_response_id", second}}));
  EXPECT_EQ(door.last().messages.size(), 5u);
  door.post(kResponses, Json({{"input", "other"}, {"previous_response_id", first}, {"instructions", "b"}}));
  ASSERT_EQ(door.last().messages.size(), 4u);
  EXPECT_EQ(door.last().messages[0]["content"], "b");
  EXPECT_EQ(door.last().messages[3]["content"], "other");
}

TEST(ResponsesTest, ResponsesAreFoundAndDeletedOnlyInTheirNamespace) {
  FakeDoor door;
  const Json made = door.post(kResponses, std::string(R"({"input": "one"})"))->json();
  const std::string path = std::string(kResponses) + "/" + made["id"].get<std::string>();
  EXPECT_EQ(door.send("GET", path)->json(), made);
  EXPECT_EQ(door.send("GET", path, "", "others")->status, 404);
  EXPECT_EQ(door.send("DELETE", path, "", "others")->status, 404);
  const Json body = {{"input", "x"}, {"previous_response_id", made["id"]}};
  EXPECT_EQ(door.send("POST", kResponses, json_to_string(body), "others")->status, 404);
  EXPECT_TRUE(door.send("DELETE", path)->json()["deleted"].get<bool>());
  EXPECT_THAT(door.send("GET", path)->body, testing::HasSubstr("Response with id '"));
  EXPECT_EQ(door.post(kResponses, body)->json()["error"]["param"], "previous_response_id");

  const Json secret = door.post(kResponses, std::string(R"({"input": "one", "store": false})"))->json();
  EXPECT_EQ(door.send("GET", std::string(kResponses) + "/" + secret["id"].get<std::string>())->status, 404);
}

TEST(ResponsesTest, EventsFollowTheProtocolsOrder) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    Answer answer = make_answer("Hello");
    answer.reasoning = "hmm";
    answer.tool_calls = {{"c1", "f", "{}"}};
    listener.begin("tiny", 30, fake_tokenizer());
    listener.reasoning(0, "hmm");
    listener.content(0, "He");
    listener.content(0, "llo");
    listener.answer(0, answer);
    listener.end({});
  };
  const auto exchange = door.post(kResponses, std::string(R"({"input": "hi", "stream": true})"));
  EXPECT_THAT(
      exchange->event_names(),
      ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                  "response.content_part.added", "response.reasoning_text.delta", "response.reasoning_text.done",
                  "response.content_part.done", "response.output_item.done", "response.output_item.added",
                  "response.content_part.added", "response.output_text.delta", "response.output_text.delta",
                  "response.output_text.done", "response.content_part.done", "response.output_item.done",
                  "response.output_item.added", "response.function_call_arguments.delta",
                  "response.function_call_arguments.done", "response.output_item.done", "response.completed"));
  const auto events = exchange->events();
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], i);
  const Json& response = events.back()["response"];
  ASSERT_EQ(response["output"].size(), 3u);
  EXPECT_EQ(response["output"][0], events[7]["item"]);
  EXPECT_EQ(response["output"][1], events[14]["item"]);
  EXPECT_EQ(response["output"][2]["call_id"], "c1");
  EXPECT_EQ(events[8]["output_index"], 1);
  EXPECT_EQ(events[10]["item_id"], response["output"][1]["id"]);
  door.post(kResponses, Json({{"input", "next"}, {"previous_response_id", response["id"]}}));
  EXPECT_EQ(door.last().messages[1]["tool_calls"][0]["id"], "c1");
}

std::string tokens_of(const Json& logprobs) {
  std::string all;
  for (const Json& one : logprobs) all += one["token"].get<std::string>();
  return all;
}

// An answer with reasoning: a, a marker, the content "ab" in two parts, and one token that comes only with answer().
void think_and_say(const AnswerRequest&, AnswerListener& listener) {
  const FakeTokenizer tokenizer;
  Answer answer = make_answer("ab");
  answer.reasoning = "a";
  for (const TokenId id : tokenizer.sampled({"a", "</think>", "a", "b", "lo"})) {
    answer.logprobs.push_back({.id = id, .logprob = -0.5, .top = {{id, -0.5}}});
  }
  const auto some = [&answer](size_t first, size_t n) { return std::span(answer.logprobs).subspan(first, n); };
  listener.begin("tiny", 3, fake_tokenizer());
  listener.logprobs(0, some(0, 1));
  listener.reasoning(0, "a");
  listener.logprobs(0, some(1, 1));
  listener.logprobs(0, some(2, 1));
  listener.content(0, "a");
  listener.logprobs(0, some(3, 1));
  listener.content(0, "b");
  listener.answer(0, answer);
  listener.end({});
}

TEST(ResponsesTest, LogprobsCoverOnlyTokensOfTheContent) {
  FakeDoor door;
  door.backend->script = think_and_say;
  const std::string asked = R"("input": "hi", "include": ["message.output_text.logprobs"], "top_logprobs": 1)";
  const Json whole = door.post(kResponses, "{" + asked + "}")->json();
  EXPECT_EQ(door.last().options.n_logprobs, 1u);
  const Json& expected = whole["output"][1]["content"][0]["logprobs"];
  EXPECT_EQ(tokens_of(expected), "</think>ablo");
  EXPECT_EQ(expected[1]["top_logprobs"][0]["token"], "a");

  const auto streamed = door.post(kResponses, "{" + asked + R"(, "stream": true})");
  std::string deltas;
  Json all = Json::array();
  for (const Json& event : streamed->events()) {
    if (event["type"] == "response.output_text.delta") {
      deltas += event["delta"].get<std::string>() + ":" + tokens_of(event["logprobs"]) + "|";
      for (const Json& one : event["logprobs"]) all.push_back(one);
    } else if (event["type"] == "response.output_text.done") {
      EXPECT_EQ(event["logprobs"], expected);
    } else if (event["type"] == "response.content_part.done" && event["part"]["type"] == "output_text") {
      EXPECT_EQ(event["part"]["logprobs"], expected);
    }
  }
  EXPECT_EQ(deltas, "a:</think>a|b:b|");
  EXPECT_EQ(streamed->events().back()["response"]["output"][1]["content"][0]["logprobs"], expected);
  EXPECT_EQ(all.size() + 1, expected.size()) << "the last token's text was in no delta";
}

TEST(ResponsesTest, LogprobsAreSentOnlyOnRequest) {
  FakeDoor door;
  for (const char* fields : {R"("top_logprobs": 3)", R"("include": [])"}) {
    door.post(kResponses, std::string(R"({"input": "hi", )") + fields + "}");
    EXPECT_EQ(door.last().options.n_logprobs, std::nullopt) << fields;
  }
}

TEST(ResponsesTest, TruncatedResponseIsIncompleteAndFailureHasError) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("He");
    answer.finish_reason = FinishReason::kLength;
    FakeBackend::say(request, listener, answer);
  };
  const Json cut = door.post(kResponses, std::string(R"({"input": "hi"})"))->json();
  EXPECT_EQ(cut["status"], "incomplete");
  EXPECT_EQ(cut["incomplete_details"]["reason"], "max_output_tokens");
  EXPECT_EQ(cut["output"][0]["status"], "incomplete");
  const auto cut_stream = door.post(kResponses, std::string(R"({"input": "hi", "stream": true})"));
  EXPECT_EQ(cut_stream->event_names().back(), "response.incomplete");
  EXPECT_EQ(cut_stream->events().back()["response"]["output"][0]["status"], "incomplete");
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.content(0, "He");
    listener.end(Status(ErrorCode::kOutOfMemory, "no pages"));
  };
  const auto failed = door.post(kResponses, std::string(R"({"input": "hi", "stream": true})"));
  EXPECT_EQ(failed->event_names().back(), "response.failed");
  EXPECT_EQ(failed->events().back()["response"]["error"]["message"], "no pages");
}

TEST(ResponsesTest, ProgressAndTimingsAreSentOnRequest) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest& request, AnswerListener& listener) {
    Answer answer = make_answer("a");
    answer.logprobs = {{.id = 5, .logprob = -1}};
    listener.begin("tiny", 30, fake_tokenizer());
    listener.prefill(20, 30);
    if (request.options.n_logprobs) listener.logprobs(0, answer.logprobs);
    listener.content(0, "a");
    listener.answer(0, answer);
    listener.end({});
  };
  const auto events = door.post(kResponses, std::string(R"({"input": "hi", "stream": true, "return_progress": true,
    "timings_per_token": true})"))
                          ->events();
  EXPECT_EQ(events[2]["type"], "response.in_progress");
  EXPECT_EQ(events[2]["prompt_progress"]["cache"], 20);
  const auto delta =
      std::ranges::find(events, "response.output_text.delta", [](const Json& one) { return one["type"]; });
  ASSERT_NE(delta, events.end());
  EXPECT_EQ((*delta)["timings"]["predicted_n"], 1);
  EXPECT_EQ((*delta)["logprobs"], Json::array()) << "they were not requested";
  EXPECT_EQ(events.back()["timings"]["predicted_n"], 5);
  const auto plain = door.post(kResponses, std::string(R"({"input": "hi", "stream": true})"))->events();
  EXPECT_EQ(plain.size(), events.size() - 1);
  EXPECT_FALSE(plain.back().contains("timings"));
}

TEST(ResponsesTest, EmptyAnswerIsStreamedAsAMessage) {
  FakeDoor door;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.answer(0, make_answer(""));
    listener.end({});
  };
  const auto exchange = door.post(kResponses, std::string(R"({"input": "hi", "stream": true})"));
  EXPECT_THAT(exchange->event_names(),
              ElementsAre("response.created", "response.in_progress", "response.output_item.added",
                          "response.content_part.added", "response.output_text.done", "response.content_part.done",
                          "response.output_item.done", "response.completed"));
  EXPECT_EQ(exchange->events().back()["response"]["output"][0], exchange->events()[6]["item"]);
}

TEST(ResponsesTest, InputItemsAreListedInPages) {
  FakeDoor door;
  const std::string first = door.post(kResponses, std::string(R"({"input": "one"})"))->json()["id"];
  const Json second = door.post(kResponses, Json({{"input", "two"}, {"previous_response_id", first}}))->json();
  const std::string path = std::string(kResponses) + "/" + second["id"].get<std::string>() + "/input_items";
  const Json all = door.send("GET", path + "?order=asc")->json();
  ASSERT_EQ(all["data"].size(), 3u);
  EXPECT_EQ(all["data"][0]["content"][0]["text"], "one");
  EXPECT_EQ(all["data"][1]["role"], "assistant");
  EXPECT_EQ(all["data"][2]["content"][0]["text"], "two");
  EXPECT_EQ(all["first_id"], all["data"][0]["id"]);
  EXPECT_FALSE(all["has_more"].get<bool>());
  const Json page = door.send("GET", path + "?limit=2")->json();
  EXPECT_EQ(page["data"][0], all["data"][2]);
  EXPECT_TRUE(page["has_more"].get<bool>());
  const Json rest = door.send("GET", path + "?after=" + page["last_id"].get<std::string>())->json();
  ASSERT_EQ(rest["data"].size(), 1u);
  EXPECT_EQ(rest["data"][0], all["data"][0]);
  for (const char* query : {"?limit=0", "?limit=101", "?limit=x", "?limit=", "?order=up", "?after=nothing"}) {
    EXPECT_EQ(door.send("GET", path + query)->status, 400) << query;
  }
  EXPECT_EQ(door.send("GET", path, "", "others")->status, 404);
  EXPECT_EQ(door.post(std::string(kResponses) + "/" + first + "/cancel", std::string())->status, 400);
  EXPECT_EQ(door.post(std::string(kResponses) + "/nothing/cancel", std::string())->status, 404);
}

TEST(ResponsesTest, ItemReferenceIsResolvedById) {
  FakeDoor door;
  const Json first = door.post(kResponses, std::string(R"({"input": "one"})"))->json();
  const Json said = {{"type", "item_reference"}, {"id", first["output"][0]["id"]}};
  const Json input =
      Json::array({{{"role", "user"}, {"content", "one"}}, said, {{"role", "user"}, {"content", "two"}}});
  ASSERT_EQ(door.post(kResponses, Json({{"input", input}}))->status, 200);
  EXPECT_EQ(
      json_to_string(door.last().messages),
      R"([{"role":"user","content":"one"},{"role":"assistant","content":"Hello"},{"role":"user","content":"two"}])");
  const auto others = door.send("POST", kResponses, json_to_string(Json({{"input", input}})), "others");
  EXPECT_EQ(others->status, 404);
  EXPECT_EQ(others->json()["error"]["param"], "input[1].id");
}

// Stored responses outlive the process: another door with the same store finds them.
TEST(ResponsesTest, StoredResponseIsContinuedAfterRestart) {
  const TempDir dir;
  const auto open = [&] { return ConversationStore::open({.directory = dir.file("cache")}).value(); };
  std::string id;
  Json made;
  {
    FakeDoor door(open());
    made = door.post(kResponses, std::string(R"({"input": "one"})"))->json();
    id = made["id"];
  }
  FakeDoor door(open());
  EXPECT_EQ(door.send("GET", std::string(kResponses) + "/" + id)->json(), made);
  door.new_ids_from(100);
  EXPECT_EQ(door.post(kResponses, Json({{"input", "two"}, {"previous_response_id", id}}))->status, 200);
  EXPECT_EQ(door.last().messages.size(), 3u);
}

// An error of the disk fails the request; the message does not contain the path.
TEST(ResponsesTest, StorageErrorFailsTheRequest) {
  const TempDir dir;
  FakeDoor door(ConversationStore::open({.directory = dir.file("cache")}).value());
  const Json before = door.post(kResponses, std::string(R"({"input": "one"})"))->json();
  {
    const auto other = Database::open(dir.file("cache/conversations.sqlite3")).value();
    ASSERT_TRUE(other->execute("drop table kept").ok());
  }
  const auto failed = door.post(kResponses, std::string(R"({"input": "one"})"));
  EXPECT_EQ(failed->status, 200);
  EXPECT_EQ(failed->json()["status"], "failed");
  EXPECT_EQ(failed->json()["error"]["code"], "server_error");
  EXPECT_EQ(failed->body.find(dir.path()), std::string::npos);
  const auto stream = door.post(kResponses, std::string(R"({"input": "one", "stream": true})"));
  EXPECT_EQ(stream->events().back()["type"], "response.failed");
  const auto lost = door.send("GET", std::string(kResponses) + "/" + before["id"].get<std::string>());
  EXPECT_EQ(lost->status, 500);
  EXPECT_EQ(lost->body.find(dir.path()), std::string::npos);
  EXPECT_EQ(door.post("/v1/conversations", std::string("{}"))->status, 500);
}

}  // namespace
}  // namespace ibid::serve
