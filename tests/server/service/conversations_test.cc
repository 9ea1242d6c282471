#include "server/service/conversations.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "server/store/cache_namespace.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

Json parsed(const std::string& text) { return parse_json(text, "test").value(); }

Json bot(const std::string& text) { return make_message(Role::kAssistant, text); }

TEST(SeenMessageTest, EquivalentMessagesAreEqual) {
  const Json text = parsed(R"({"role":"user","content":"x"})");
  EXPECT_TRUE(is_seen_as(text, parsed(R"({"content":[{"type":"text","text":"x"}],"role":"user","name":null})")));
  EXPECT_TRUE(is_seen_as(parsed(R"({"role":"assistant","content":"x"})"),
                         parsed(R"({"role":"assistant","content":"x","refusal":null,"annotations":[],"audio":null,
                                    "function_call":null,"tool_calls":[]})")));
  for (const char* other :
       {R"({"role":"user","content":"x "})", R"({"role":"system","content":"x"})", R"({"role":"user","content":""})",
        R"({"role":"user","content":[{"type":"text","text":"x"},{"type":"text","text":""}]})",
        R"({"role":"user","content":[{"type":"image_url","text":"x"}]})",
        R"({"role":"user","content":"x","name":"me"})", R"({"role":"user","content":"x","reasoning":"y"})"}) {
    EXPECT_FALSE(is_seen_as(text, parsed(other))) << other;
    EXPECT_FALSE(is_seen_as(parsed(other), text)) << other;
  }
}

TEST(SeenMessageTest, CallsAreComparedByNameAndArguments) {
  const Json known = parsed(R"({"role":"assistant","content":"","tool_calls":[
      {"id":"1","type":"function","function":{"name":"f","arguments":"{\"b\": 1, \"a\": \"x\"}"}}]})");
  EXPECT_TRUE(is_seen_as(known, parsed(R"({"role":"assistant","content":null,"tool_calls":[
      {"id":"other","function":{"name":"f","arguments":{"b":1,"a":"x"}}}]})")));
  for (const char* calls : {R"([{"function":{"name":"g","arguments":"{\"b\": 1, \"a\": \"x\"}"}}])",
                            R"([{"function":{"name":"f","arguments":"{\"a\": \"x\", \"b\": 1}"}}])",
                            R"([{"function":{"name":"f","arguments":"{}"}}])", R"([])", R"([1])", R"("f")"}) {
    Json other = parsed(R"({"role":"assistant","content":""})");
    other["tool_calls"] = parsed(calls);
    EXPECT_FALSE(is_seen_as(known, other)) << calls;
  }
}

// A JavaScript client reads 1.0 and writes 1.
TEST(SeenMessageTest, WholeNumbersAreEqualWithAndWithoutAPoint) {
  const auto call = [](const char* arguments) {
    Json message = parsed(R"({"role":"assistant","content":"","tool_calls":[{"function":{"name":"f"}}]})");
    message["tool_calls"][0]["function"]["arguments"] = parsed(arguments);
    return message;
  };
  const Json known = call(R"("{\"a\": 1.0, \"b\": [-2.50, 1e3, {\"c\": -0.0}]}")");
  EXPECT_TRUE(is_seen_as(known, call(R"({"a":1,"b":[-2.5,1000,{"c":0}]})")));
  EXPECT_EQ(seen_form(known), seen_form(call(R"({"a":1,"b":[-2.5,1000,{"c":0}]})")));
  EXPECT_FALSE(is_seen_as(known, call(R"({"a":1.5,"b":[-2.5,1000,{"c":0}]})")));
  EXPECT_FALSE(is_seen_as(known, call(R"({"a":"1","b":[-2.5,1000,{"c":0}]})")));
  EXPECT_FALSE(is_seen_as(call(R"({"a":9007199254740993})"), call(R"({"a":9007199254740992})")));
}

TEST(SeenMessageTest, ReasoningMayBeOmittedButNotChanged) {
  const Json known = parsed(R"({"role":"assistant","content":"x","reasoning_content":"why"})");
  EXPECT_TRUE(is_seen_as(known, parsed(R"({"role":"assistant","content":"x"})")));
  EXPECT_TRUE(is_seen_as(known, parsed(R"({"role":"assistant","content":"x","thinking":"why"})")));
  EXPECT_FALSE(is_seen_as(known, parsed(R"({"role":"assistant","content":"x","reasoning":"other"})")));
  EXPECT_FALSE(is_seen_as(parsed(R"({"role":"assistant","content":"x"})"), known));
}

TEST(SeenMessageTest, AnyJsonValueIsEqualToItself) {
  for (const char* text : {"null", "1", "[]", "{}", R"({"role":1})", R"({"role":"user","content":{"a":[1]}})",
                           R"({"role":"assistant","tool_calls":[{"function":{"name":1}},{"function":[]},null]})"}) {
    const Json value = parsed(text);
    EXPECT_TRUE(is_seen_as(value, value)) << text;
  }
}

struct ConversationsFixture {
  explicit ConversationsFixture(size_t budget = 64u << 20)
      : known({.budget_bytes = budget, .repair_when_idle = false}) {}

  Conversation take(const Json& messages, const std::string& name = "a") {
    Result<Conversation> taken = known.take(chat.engine, name, messages, Json::object(), WhenFull::kError);
    EXPECT_TRUE(taken.ok()) << taken.status().message();
    return *std::move(taken);
  }
  // Answers the history and puts the conversation back. Returns the turn, and appends the answer to `messages`.
  Turn answer(Json& messages, const std::string& name = "a") {
    Conversation conversation = take(messages, name);
    const Turn turn = must(conversation.session().answer(greedy(6)));
    messages.push_back(bot(turn.text));
    conversation.answered(messages.back(), nullptr);
    known.put(std::move(conversation));
    return turn;
  }

  ChatFixture chat;
  Conversations known;
};

TEST(ConversationsTest, HistoryThatContinuesAKnownConversationUsesItsSession) {
  ConversationsFixture f;
  Json messages = Json::array({user("x")});
  f.answer(messages);
  messages.push_back(user("y"));
  const Conversation taken = f.take(messages);
  EXPECT_EQ(f.known.stats().n_known, 1u) << "other requests find it too";
  EXPECT_EQ(f.known.stats().n_continued, 1u);
  EXPECT_EQ(taken.session().state().messages(), messages);
  EXPECT_FALSE(taken.session().ids().empty());
}

TEST(ConversationsTest, HistoryThatBranchesEarlierUsesAForkOfTheConversation) {
  ConversationsFixture f;
  Json messages = Json::array({user("x")});
  f.answer(messages);
  Json edited = messages;
  messages.push_back(user("y"));
  f.answer(messages);
  edited.push_back(user("other"));
  f.chat.model->take_fed();
  EXPECT_EQ(f.known.stats().n_known, 1u) << "the longer one has replaced the shorter one";
  Json again = messages;
  again.push_back(user("z"));
  f.answer(again);
  f.chat.model->take_fed();
  const Turn turn = f.answer(edited);
  EXPECT_EQ(f.known.stats().n_forked, 1u);
  EXPECT_EQ(f.known.stats().n_known, 2u) << "both branches are known";
  EXPECT_EQ(turn.usage.n_prefilled, f.chat.ids("other<|im_end|>\n<|im_start|>assistant\n").size());
}

TEST(ConversationsTest, ConversationsOfOtherNamespacesAreNotFound) {
  ConversationsFixture f;
  Json messages = Json::array({user("x")});
  f.answer(messages, "a");
  messages.push_back(user("y"));
  const Conversation other = f.take(messages, "b");
  EXPECT_TRUE(other.session().ids().empty());
  EXPECT_EQ(f.known.stats().n_continued, 0u);
  EXPECT_EQ(f.known.stats().n_known, 1u);
}

TEST(ConversationsTest, BudgetHoldsAndTheLargestNamespaceIsEvictedFirst) {
  ConversationsFixture f(100'000);
  Json small = Json::array({user("small")});
  f.answer(small, "small");
  for (int i = 0; i < 20; ++i) {
    Json messages = Json::array({user(std::string(3000, 'x') + std::to_string(i))});
    f.answer(messages, "large");
    EXPECT_LE(f.known.stats().n_bytes, 100'000u);
  }
  EXPECT_GT(f.known.stats().n_forgotten, 0u);
  small.push_back(user("y"));
  EXPECT_FALSE(f.take(small, "small").session().ids().empty()) << "it is still known";
}

// A client that invents salts gets no larger share.
TEST(ConversationsTest, NamespacesOfOneOwnerShareItsBudget) {
  ConversationsFixture f(1'000'000);
  Json first = Json::array({user(std::string(3000, 'a'))}), second = Json::array({user(std::string(3000, 'b'))});
  f.answer(first, "small");
  f.answer(second, "small");
  for (int i = 0; i < 40; ++i) {
    Json messages = Json::array({user(std::string(3000, 'x') + std::to_string(i))});
    f.answer(messages, salted_namespace("large", std::to_string(i)));
  }
  EXPECT_GT(f.known.stats().n_forgotten, 0u);
  for (Json* messages : {&first, &second}) {
    messages->push_back(user("y"));
    EXPECT_FALSE(f.take(*messages, "small").session().ids().empty()) << "it is still known";
  }
}

TEST(ConversationsTest, ForgottenConversationsAreRemoved) {
  ConversationsFixture f;
  Json a = Json::array({user("x")}), b = a;
  f.answer(a, "a");
  f.answer(b, "b");
  f.known.forget_namespace("a");
  EXPECT_EQ(f.known.stats().n_known, 1u);
  f.known.forget_engine(*f.chat.engine);
  EXPECT_EQ(f.known.stats().n_known, 0u);
  EXPECT_EQ(f.known.stats().n_bytes, 0u);
  EXPECT_EQ(f.chat.engine.use_count(), 1) << "no conversation keeps the engine";
}

TEST(ConversationsTest, DroppedRequestDoesNotChangeKnownConversations) {
  ConversationsFixture f;
  Json messages = Json::array({user("x")});
  f.answer(messages);
  Json more = messages;
  more.push_back(user("y"));
  {
    Conversation taken = f.take(more);
    must(taken.session().answer(greedy(6)));
  }
  EXPECT_EQ(f.take(more).session().state().messages(), more);
  EXPECT_EQ(f.known.stats().n_continued, 2u);
}

// No encoding of the answer's text gives its tokens.
TEST(ConversationsTest, ConcurrentContinuationsPrefillOnlyTheirMessages) {
  ConversationsFixture f;
  const Tokens said = f.chat.tokenizer->sampled({"a", "b", "H", "e", "l", "l", "o"});
  f.chat.say({said});
  Json messages = Json::array({user("x")});
  {
    Conversation first = f.take(messages);
    messages.push_back(bot(must(first.session().answer(greedy(12))).text));
    first.answered(messages.back(), nullptr);
    f.known.put(std::move(first));
  }
  f.chat.model->script = nullptr;
  Json one = messages, other = messages;
  one.push_back(user("one"));
  other.push_back(user("another one"));
  Conversation a = f.take(one), b = f.take(other), same = f.take(one);
  // Tokens that the first one prefilled are found in the store by the others.
  const size_t n_one = f.chat.next_prompt("one").size() + 1;
  const size_t n_other = f.chat.ids("another one<|im_end|>\n<|im_start|>assistant\n").size();
  for (const auto& [taken, n_new] : {std::pair(&a, n_one), {&b, n_other}, {&same, size_t{0}}}) {
    const Turn turn = must(taken->session().answer(greedy(6)));
    EXPECT_EQ(turn.usage.n_prefilled, n_new);
    taken->answered(bot(turn.text), nullptr);
  }
  EXPECT_EQ(f.known.stats().n_continued, 3u);
  for (Conversation* taken : {&a, &b, &same}) f.known.put(std::move(*taken));
  EXPECT_EQ(f.known.stats().n_known, 3u) << "the continued conversation was replaced";
}

// Its first pass after the turn waits until it is cancelled, and then until `may_end`.
struct SlowIdleModel : FakeModel {
  std::atomic<bool> turn_has_ended{false}, has_begun{false}, is_cancelled{false}, may_end{false};

  Status forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) override {
    if (turn_has_ended && !may_end) {
      has_begun = true;
      while (!stop.stop_requested()) std::this_thread::yield();
      is_cancelled = true;
      while (!may_end) std::this_thread::yield();
    }
    return FakeModel::forward(batch, std::move(stop), logits);
  }
};

// If a fork waited under the lock of all conversations, this test would not end.
TEST(ConversationsTest, EndOfIdleWorkDelaysOnlyRequestsThatContinueTheConversation) {
  EngineParts parts;
  parts.model = std::make_unique<SlowIdleModel>();
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.chat_template = *ChatTemplate::compile(kStripsThinking);
  parts.kv_budget_bytes = 64u << 20;
  auto& model = static_cast<SlowIdleModel&>(*parts.model);
  auto& tokenizer = static_cast<FakeTokenizer&>(*parts.tokenizer);
  model.script = chat_script(tokenizer, {tokenizer.sampled({"<think>", "ing", "</think>", "Hello"})});
  const std::shared_ptr<Engine> engine = *make_engine(std::move(parts));
  Conversations known({.budget_bytes = 64u << 20});
  const auto take = [&](const Json& messages) {
    return known.take(engine, "a", messages, Json::object(), WhenFull::kError);
  };
  Json messages = Json::array({user("x")});
  Conversation first = *take(messages);
  const auto note_end = [&](const TurnEvent& event) {
    if (event.kind == TurnEvent::Kind::kFinish) model.turn_has_ended = true;
  };
  messages.push_back(bot(must(first.session().answer(greedy(), note_end)).text));
  first.answered(messages.back(), nullptr);
  known.put(std::move(first));
  messages.push_back(user("y"));
  while (!model.has_begun) std::this_thread::yield();
  std::future<Result<Conversation>> one = std::async(std::launch::async, take, messages);
  std::future<Result<Conversation>> other = std::async(std::launch::async, take, messages);
  while (!model.is_cancelled) std::this_thread::yield();
  EXPECT_TRUE(take(Json::array({user("another conversation")})).ok());
  EXPECT_EQ(known.stats().n_continued, 0u) << "both requests wait for the idle work to end";
  model.may_end = true;
  EXPECT_FALSE(one.get()->session().ids().empty());
  EXPECT_FALSE(other.get()->session().ids().empty());
  EXPECT_EQ(known.stats().n_continued, 2u);
}

TEST(ConversationsTest, HistoryWithoutMessagesIsRefused) {
  ConversationsFixture f;
  for (const Json& messages : {Json::array(), Json::object(), Json()}) {
    EXPECT_EQ(f.known.take(f.chat.engine, "a", messages, Json::object(), WhenFull::kError).status().code(),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(f.known.take(f.chat.engine, "a", Json::array({1}), Json::object(), WhenFull::kError).status().code(),
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ibid::serve
