// /v1/sessions: what is new is sent, the rest is the server's; two at once, removed while it answers, full.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/server/protocol/fake_door.h"

namespace ibid::serve {
namespace {

class SessionsTest : public testing::Test {
 protected:
  std::string create(const std::string& body = R"({"messages": [{"role": "system", "content": "s"}], "temperature": 0})") {
    const auto exchange = door.post("/v1/sessions", body);
    EXPECT_EQ(exchange->status, 200) << exchange->body;
    return "/v1/sessions/" + exchange->json()["id"].get<std::string>();
  }
  // The contents of the session's messages.
  std::string said(const std::string& path) {
    std::string all;
    const Json session = door.send("GET", path)->json();
    for (const Json& message : session["messages"]) all += message["content"].get<std::string>() + "|";
    return all;
  }

  FakeDoor door;
};

TEST_F(SessionsTest, AMessageIsAnsweredAndBothAreKept) {
  const std::string path = create();
  const auto exchange = door.post(path + "/messages", std::string(R"({"content": "hi", "max_tokens": 4})"));
  ASSERT_EQ(exchange->status, 200) << exchange->body;
  EXPECT_EQ(exchange->json()["choices"][0]["message"]["content"], "Hello");
  EXPECT_EQ(door.last().options.sampler.temperature, 0);
  EXPECT_EQ(door.last().options.max_tokens, 4u);
  EXPECT_EQ(door.last().messages.size(), 2u);
  EXPECT_EQ(said(path), "s|hi|Hello|");
  const auto events = door.post(path + "/messages", std::string(R"({"content": "and?", "stream": true})"))->events();
  EXPECT_EQ(events.back(), "[DONE]");
  EXPECT_EQ(said(path), "s|hi|Hello|and?|Hello|");
}

TEST_F(SessionsTest, AnEmptyMessageIsOneAndNoMessageIsNone) {
  const std::string path = create("{}");
  const auto nothing = door.post(path + "/messages", std::string("{}"));
  EXPECT_EQ(nothing->status, 400);
  EXPECT_EQ(nothing->json()["error"]["param"], "content");
  EXPECT_EQ(door.post(path + "/messages", std::string(R"({"content": ""})"))->status, 200);
  EXPECT_EQ(said(path), "|Hello|");
}

TEST_F(SessionsTest, EditRegenerateRewindAndFork) {
  const std::string path = create();
  door.post(path + "/messages", std::string(R"({"content": "one"})"));
  door.post(path + "/messages", std::string(R"({"content": "two"})"));
  const std::string fork = "/v1/sessions/" + door.post(path + "/fork", std::string())->json()["id"].get<std::string>();
  EXPECT_EQ(door.post(path + "/edit", std::string(R"({"message": 1, "content": "uno"})"))->status, 200);
  EXPECT_EQ(said(path), "s|uno|Hello|");
  EXPECT_EQ(door.post(path + "/regenerate", std::string())->status, 200);
  EXPECT_EQ(said(path), "s|uno|Hello|");
  EXPECT_EQ(door.post(path + "/rewind", std::string(R"({"n_messages": 1})"))->status, 200);
  EXPECT_EQ(said(path), "s|");
  EXPECT_EQ(said(fork), "s|one|Hello|two|Hello|");
  const auto shorter = door.post(fork + "/fork", std::string(R"({"n_messages": 3})"));
  EXPECT_EQ(said("/v1/sessions/" + shorter->json()["id"].get<std::string>()), "s|one|Hello|");
  EXPECT_EQ(door.post(fork + "/fork", std::string(R"({"n_messages": 6})"))->json()["error"]["param"], "n_messages");
  EXPECT_EQ(door.post(path + "/edit", std::string(R"({"message": 0, "content": "x"})"))->status, 400);
  EXPECT_EQ(door.post(path + "/rewind", std::string(R"({"n_messages": 9})"))->status, 400);
  EXPECT_EQ(door.post(path + "/regenerate", std::string())->status, 400);
  // After each refusal the session is free.
  EXPECT_EQ(door.post(path + "/messages", std::string(R"({"content": "again"})"))->status, 200);
}

TEST_F(SessionsTest, WhatIsSavedCanBeRestored) {
  const std::string path = create();
  door.post(path + "/messages", std::string(R"({"content": "hi"})"));
  const std::string saved = door.post(path + "/save", std::string())->body;
  EXPECT_EQ(door.send("DELETE", path)->json()["deleted"], true);
  const auto restored = door.post("/v1/sessions/restore", saved);
  ASSERT_EQ(restored->status, 200) << restored->body;
  const std::string again = "/v1/sessions/" + restored->json()["id"].get<std::string>();
  EXPECT_EQ(said(again), "s|hi|Hello|");
  EXPECT_EQ(restored->json()["settings"]["temperature"], 0);
  const auto changed = door.post("/v1/sessions/restore", std::string(R"({"settings": {"temperature": 0, "top_k": 3},
    "temperature": 1})"));
  EXPECT_EQ(json_to_string(changed->json()["settings"]), R"({"temperature":1,"top_k":3})");
  const auto wrong = door.post("/v1/sessions/restore", std::string(R"({"settings": {}, "temperature": -1})"));
  EXPECT_EQ(wrong->json()["error"]["param"], "temperature") << "beside settings, too";
}

TEST_F(SessionsTest, OneAnswerAtATimeAndNoneOfAnotherNamespace) {
  const std::string path = create();
  door.backend->keep_listeners = true;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) { listener.begin("tiny", 3, fake_tokenizer()); };
  const auto first = door.post(path + "/messages", std::string(R"({"content": "hi"})"));
  const auto second = door.post(path + "/messages", std::string(R"({"content": "ho"})"));
  EXPECT_EQ(second->status, 409);
  door.backend->listeners[0]->answer(0, make_answer("late"));
  door.backend->listeners[0]->end({});
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(said(path), "s|hi|late|");
  for (const char* what : {"", "/messages", "/fork"}) {
    EXPECT_EQ(door.send(*what == 0 ? "GET" : "POST", path + what, *what == 0 ? "" : "{}", "others")->status, 404);
  }
  EXPECT_TRUE(door.send("GET", "/v1/sessions", "", "others")->json()["data"].empty());
  EXPECT_EQ(door.send("GET", "/v1/sessions")->json()["data"].size(), 1u);
}

TEST_F(SessionsTest, WhatFailsLeavesTheSessionAsItWas) {
  const std::string path = create();
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) {
    listener.begin("tiny", 3, fake_tokenizer());
    listener.content(0, "so far");
    listener.end(Status(ErrorCode::kOutOfMemory, "no pages"));
  };
  EXPECT_EQ(door.post(path + "/messages", std::string(R"({"content": "hi"})"))->status, 503);
  EXPECT_EQ(said(path), "s|");
  door.backend->script = nullptr;
  EXPECT_EQ(door.post(path + "/messages", std::string(R"({"content": "hi"})"))->status, 200);
}

TEST_F(SessionsTest, RemovingItStopsItsAnswer) {
  const std::string path = create();
  door.backend->keep_listeners = true;
  door.backend->script = [](const AnswerRequest&, AnswerListener& listener) { listener.begin("tiny", 3, fake_tokenizer()); };
  const auto exchange = door.post(path + "/messages", std::string(R"({"content": "hi"})"));
  EXPECT_FALSE(door.backend->stops[0].stop_requested());
  EXPECT_EQ(door.send("DELETE", path)->status, 200);
  EXPECT_TRUE(door.backend->stops[0].stop_requested());
  door.backend->listeners[0]->end(Status(ErrorCode::kCancelled, "stopped"));
  EXPECT_TRUE(exchange->ended);
  EXPECT_EQ(door.send("GET", path)->status, 404);
}

TEST_F(SessionsTest, BadRequestsNameTheirField) {
  const std::string path = create();
  EXPECT_EQ(door.post("/v1/sessions", std::string(R"({"temperature": -1})"))->json()["error"]["param"], "temperature");
  EXPECT_EQ(door.post("/v1/sessions", std::string(R"({"messages": [{"role": "king", "content": ""}]})"))
                ->json()["error"]["param"], "messages[0].role");
  EXPECT_EQ(door.post(path + "/messages", std::string(R"({"content": 5})"))->json()["error"]["param"], "content");
  EXPECT_EQ(door.post(path + "/edit", std::string(R"({"content": "x"})"))->json()["error"]["param"], "message");
  EXPECT_EQ(door.post(path + "/rewind", std::string("{}"))->json()["error"]["param"], "n_messages");
  EXPECT_EQ(door.post("/v1/sessions/none/messages", std::string("{}"))->status, 404);
}

TEST(SessionStoreTest, IsBoundedByBytesAndForgetsNothing) {
  SessionStore store(5000);
  SessionState session{.id = "a"};
  session.messages.push_back(Json{{"role", "user"}, {"content", std::string(2000, 'x')}});
  ASSERT_FALSE(store.create("us", session));
  session.id = "b";
  session.messages[0]["content"] = std::string(4000, 'x');
  EXPECT_EQ(store.create("us", session)->status, 503);
  EXPECT_FALSE(store.create("others", session));
  SessionState found;
  std::stop_token stop;
  ASSERT_FALSE(store.take("us", "a", found, stop));
  Json large = session.messages;
  large[0]["content"] = std::string(4900, 'x');
  const MaybeFault full = store.commit("us", "a", large);
  ASSERT_TRUE(full);
  EXPECT_EQ(full->status, 503);
  ASSERT_FALSE(store.find("us", "a", found));
  EXPECT_EQ(found.messages[0]["content"].get<std::string>().size(), 2000u);
  EXPECT_FALSE(store.remove("us", "a"));
  EXPECT_FALSE(store.create("us", session));
}

}  // namespace
}  // namespace ibid::serve
