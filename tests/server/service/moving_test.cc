// Conversations that move between nodes with one shared store: each node has the tokens that the others have sampled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/model_fingerprint.h"
#include "net/shared_server.h"
#include "server/store/conversation_store.h"
#include "tests/server/service/service_fixture.h"
#include "tests/support/resp_server.h"

namespace ibid::serve {
namespace {

EngineParts with_fingerprint(const char* model) {
  EngineParts parts;
  parts.fingerprint = FingerprintBuilder().add("model", model).finish();
  return parts;
}

// The answers of each node, by their number in the conversation. No encoding of their texts gives these tokens.
std::vector<Tokens> odd_answers() {
  const FakeTokenizer tokenizer;
  return {tokenizer.sampled({"a", "b"}),      tokenizer.sampled({"th", "e", "l", "o"}),
          tokenizer.sampled({"H", "e", "l"}), tokenizer.sampled({"b", "c"}),
          tokenizer.sampled({"l", "o"}),      tokenizer.sampled({"a", "b"})};
}

// A node without a directory. server: null: its store is in memory.
struct Node : ServiceFixture {
  explicit Node(const RespServer* server, const char* model = "one")
      : ServiceFixture(options(server), kChatMl, {}, 64u << 20, with_fingerprint(model)) {
    chat.say(odd_answers());
  }
  static AdmissionOptions options(const RespServer* server) {
    AdmissionOptions all = quiet();
    if (server == nullptr) return all;
    all.conversations.store =
        ConversationStore::open({.server = net::SharedServer::open(server->url(), "").value()}).value();
    return all;
  }
  // Answers a question after the history, which it extends. Returns the tokens of the prompt.
  Tokens talk(Json& messages, const std::string& question, const std::string& space = "a") {
    messages.push_back(user(question));
    AnswerRequest request = ask(messages, space);
    request.returns_prompt_ids = true;
    const auto heard = start(std::move(request));
    EXPECT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    messages.push_back(make_message(Role::kAssistant, heard->answer_of().content));
    service->forget_namespace("nobody");  // returns after all writes
    return heard->prompt_ids();
  }
  ConversationStats stats() const { return service->stats().conversations; }
};

TEST(MovingTest, EachTurnOnAnotherNodeHasTheTokensOfAllEarlierAnswers) {
  const RespServer server;
  Node first(&server), second(&server), alone(nullptr), stranger(nullptr);
  Json moved = Json::array(), stayed = Json::array();
  for (size_t i = 0; i < 5; ++i) {
    Node& node = i % 2 == 0 ? first : second;
    const std::string question = "question " + std::to_string(i);
    const Tokens ids = node.talk(moved, question);
    EXPECT_EQ(ids, alone.talk(stayed, question)) << i;
    ASSERT_EQ(moved, stayed);
  }
  EXPECT_EQ(first.stats().n_restored, 2u);
  EXPECT_EQ(second.stats().n_restored, 2u);
  EXPECT_EQ(first.stats().n_known, 1u) << "the state before the other node's turn is replaced";
  EXPECT_EQ(first.stats().n_unknown, 1u);
  const Tokens with = second.talk(moved, "x"), without = stranger.talk(stayed, "x");
  EXPECT_NE(with, without) << "without the sampled tokens the prompt has others";
}

TEST(MovingTest, OtherNamespacesAndModelsFindNothing) {
  const RespServer server;
  Node first(&server), second(&server), other(&server, "two");
  Json messages = Json::array();
  first.talk(messages, "one");
  Json theirs = messages, of_model = messages;
  second.talk(theirs, "two", "b");
  other.talk(of_model, "two");
  EXPECT_EQ(second.stats().n_restored, 0u);
  EXPECT_EQ(other.stats().n_restored, 0u);
}

// Both nodes continue one history with different messages. The last turn is stored whole, in place of the other one,
// which the other node still has in memory.
TEST(MovingTest, LastOfTwoTurnsAtOnceIsStored) {
  const RespServer server;
  Node first(&server), second(&server), third(&server);
  Json messages = Json::array();
  first.talk(messages, "one");
  Json lost = messages, last = messages;
  second.talk(lost, "two");
  EXPECT_EQ(second.stats().n_continued, 1u);
  first.talk(last, "else");
  EXPECT_EQ(first.stats().n_continued, 1u);
  EXPECT_EQ(first.stats().kept.n_kept, 1u);
  Json of_third = last, of_second = lost;
  third.talk(of_third, "three");
  EXPECT_EQ(third.stats().n_restored, 1u);
  EXPECT_EQ(third.stats().n_continued, 1u) << "at the end of the last turn";
  second.talk(of_second, "three");
  EXPECT_EQ(second.stats().n_continued, 2u) << "from its memory";
}

// An edited message, and an answer that is asked for again, on the other node.
TEST(MovingTest, OtherNodeContinuesFromAnEarlierMessage) {
  const RespServer server;
  Node first(&server), second(&server);
  Json messages = Json::array();
  first.talk(messages, "one");
  first.talk(messages, "two");
  Json edited = messages;
  edited.erase(3);
  edited.erase(2);
  second.talk(edited, "else");
  EXPECT_EQ(second.stats().n_restored, 1u);
  EXPECT_EQ(second.stats().n_forked, 1u);
  first.talk(messages, "three");
  EXPECT_EQ(first.stats().n_continued, 2u);
}

TEST(MovingTest, ServerThatIsDownCostsNoAnswer) {
  RespServer server;
  Node first(&server), second(&server);
  Json messages = Json::array();
  first.talk(messages, "one");
  server.set_down(true);
  Json here = messages;
  first.talk(here, "two");
  EXPECT_EQ(first.stats().n_continued, 1u) << "from its memory";
  second.talk(messages, "two");
  EXPECT_EQ(second.stats().n_unknown, 1u);
  EXPECT_EQ(messages[3], here[3]);
  EXPECT_GE(first.stats().kept.n_failed, 1u);
}

TEST(MovingTest, ForgottenNamespaceIsNotRestoredOnAnotherNode) {
  const RespServer server;
  Node first(&server), second(&server);
  Json messages = Json::array();
  first.talk(messages, "one");
  first.service->forget_namespace("a");
  second.talk(messages, "two");
  EXPECT_EQ(second.stats().n_restored, 0u);
}

}  // namespace
}  // namespace ibid::serve
