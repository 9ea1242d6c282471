#include "runtime/session/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

using ::testing::HasSubstr;

TEST(ChatSessionTest, EachTurnPrefillsOnlyItsNewText) {
  ChatFixture f;
  ChatSession chat = f.session();
  // The second reply has other tokens than tokenizing its text gives.
  const Tokens first = f.tokenizer->sampled({"Hello", " world"}), second = f.tokenizer->sampled({"a", "b", "c"});
  f.say({first, second, first});

  Turn turn = must(chat.send("the", greedy()));
  EXPECT_EQ(turn.text, "Hello world");
  EXPECT_EQ(turn.finish_reason, FinishReason::kStop);
  EXPECT_EQ(f.model->take_fed(), joined({f.prompt("the"), first}));
  EXPECT_EQ(turn.usage.n_cached, 0u);
  EXPECT_EQ(turn.usage.n_prefilled, f.prompt("the").size());
  EXPECT_EQ(turn.usage.n_decoded, 3u);

  const size_t held = chat.state().kv().length();
  turn = must(chat.send("abcd", greedy()));
  EXPECT_EQ(turn.text, "abc");
  const Tokens new_text = joined({{f.tokenizer->im_end}, f.next_prompt("abcd")});
  EXPECT_EQ(f.model->take_fed(), joined({new_text, second}));
  EXPECT_EQ(turn.usage.n_cached, held);
  EXPECT_EQ(turn.usage.n_prefilled, new_text.size());
  EXPECT_FALSE(turn.lost_prefix.has_value());

  turn = must(chat.send("x", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({{f.tokenizer->im_end}, f.next_prompt("x"), first}));
  EXPECT_EQ(turn.usage.n_prompt, turn.usage.n_cached + turn.usage.n_prefilled);
  EXPECT_EQ(chat.state().messages().size(), 6u);
  EXPECT_EQ(chat.state().messages()[3]["content"], "abc");
  EXPECT_EQ(f.tokenizer->decode(chat.ids()), chat.state().transcript().bytes());
  expect_replays(chat);
}

TEST(ChatSessionTest, WorkOfATurnDoesNotGrowWithConversation) {
  ChatFixture f;
  ChatSession chat = f.session({.system = "be the best"});
  f.say(std::vector<Tokens>(60, f.tokenizer->sampled({"ab", "c", " wor", "th"})));
  std::optional<Turn> third;
  for (int k = 0; k < 50; ++k) {
    const PrefixTree::Work stored_before = f.engine->state().store().work();
    // The number of passes that drafts save depends on page boundaries.
    TurnOptions options = greedy();
    options.speculate = false;
    const Turn turn = must(chat.send("Hello there", options));
    const PrefixTree::Work stored = f.engine->state().store().work();
    EXPECT_LE(stored.pages_touched - stored_before.pages_touched, 8u) << k;
    EXPECT_LE(stored.tokens_compared - stored_before.tokens_compared, 4 * kPagePositions) << k;
    EXPECT_LE(turn.work.pages_touched, 3u) << k;
    EXPECT_LE(turn.work.kv_bytes_copied, chat.state().kv().layout().page_bytes()) << k;
    if (k < 2) continue;
    if (!third) third = turn;
    EXPECT_EQ(turn.usage.n_prefilled, third->usage.n_prefilled) << k;
    EXPECT_EQ(turn.work.messages_rendered, third->work.messages_rendered) << k;
    EXPECT_EQ(turn.work.bytes_rendered, third->work.bytes_rendered) << k;
    EXPECT_EQ(turn.work.bytes_compared, third->work.bytes_compared) << k;
    EXPECT_EQ(turn.work.bytes_tokenized, third->work.bytes_tokenized) << k;
    EXPECT_EQ(turn.work.tokens_compared, third->work.tokens_compared) << k;
    EXPECT_EQ(turn.work.n_forward, third->work.n_forward) << k;
    EXPECT_EQ(turn.work.n_rows, third->work.n_rows) << k;
  }
  EXPECT_EQ(third->work.messages_rendered, 2u) << "the answer and the question";
  expect_replays(chat);
}

TEST(ChatSessionTest, RegenerateDoesNotPrefillThePrompt) {
  ChatFixture f;
  ChatSession chat = f.session();
  const Tokens first = f.tokenizer->sampled({"Hello", "ing"}), second = f.tokenizer->sampled({"Hello", "lo"});
  f.say({first});
  must(chat.send("abc", greedy()));
  f.model->take_fed();
  f.say({second});  // the logits after the prompt are the cached ones
  const Turn turn = must(chat.regenerate(greedy()));
  EXPECT_EQ(turn.usage.n_prefilled, 0u);
  EXPECT_EQ(turn.usage.n_cached, turn.usage.n_prompt);
  EXPECT_EQ(f.model->take_fed(), second) << "the logits after the prompt are still cached";
  EXPECT_EQ(turn.text, "Hellolo");
  EXPECT_FALSE(turn.lost_prefix.has_value()) << "no message that stays was lost";
  EXPECT_EQ(chat.state().messages().size(), 2u);
  EXPECT_EQ(chat.state().messages()[1]["content"], "Hellolo");
  expect_replays(chat);
  EXPECT_EQ(ChatFixture().session().regenerate().status().code(), ErrorCode::kInvalidArgument);
}

TEST(ChatSessionTest, RegenerateWithTheReportedSeedGivesTheSameAnswer) {
  ChatFixture f;
  ChatSession chat = f.session();
  TurnOptions options{.sampler = {.temperature = 1.0, .min_p = 0}, .max_tokens = 30};
  const Turn first = must(chat.send("Hello", options));
  const Turn other = must(chat.regenerate(options));
  EXPECT_NE(first.seed, other.seed);
  EXPECT_NE(first.text, other.text);
  options.sampler.seed = first.seed;
  const Turn again = must(chat.regenerate(options));
  EXPECT_EQ(again.text, first.text);
  EXPECT_EQ(again.seed, first.seed);
  expect_replays(chat);
}

TEST(ChatSessionTest, RewindReusesCommonPrefix) {
  ChatFixture f;
  ChatSession chat = f.session({.system = "the"});
  const Tokens reply = f.tokenizer->sampled({"ab"});
  f.say({reply, reply, reply});
  must(chat.send("one", greedy()));
  const size_t first_turn = chat.state().kv().length();
  must(chat.send("two abc", greedy()));
  must(chat.send("three", greedy()));
  EXPECT_TRUE(chat.rewind_to(3).ok());
  EXPECT_EQ(chat.state().messages().size(), 3u);
  f.model->take_fed();
  const Turn turn = must(chat.send("two abd", greedy()));
  // The questions share "two ab", then "d" replaces "c": "abc" was one token, so "ab" is new.
  const Tokens same = joined({{f.tokenizer->im_end}, f.ids("\n<|im_start|>user\ntwo ")});
  EXPECT_EQ(turn.usage.n_cached, first_turn + same.size());
  EXPECT_EQ(f.model->take_fed(), joined({f.ids("abd<|im_end|>\n<|im_start|>assistant\n"), reply}));
  EXPECT_FALSE(turn.lost_prefix.has_value());
  EXPECT_EQ(chat.state().messages().size(), 5u);
  expect_replays(chat);
}

TEST(ChatSessionTest, InvalidRewindsAreRejected) {
  ChatFixture f;
  ChatSession chat = f.session({.system = "the"});
  f.say({f.tokenizer->sampled({"ab"})});
  must(chat.send("one", greedy()));
  EXPECT_EQ(chat.rewind_to(4).code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.rewind_to(2).code(), ErrorCode::kInvalidArgument) << "a question without its answer";
  EXPECT_EQ(chat.rewind_to(0).code(), ErrorCode::kInvalidArgument) << "without the system message";
  EXPECT_TRUE(chat.rewind_to(3).ok());
  EXPECT_TRUE(chat.rewind_to(1).ok());
  EXPECT_EQ(chat.state().messages().size(), 1u);
}

TEST(ChatSessionTest, ForksSharePagesAndContinueIndependently) {
  ChatFixture f;
  ChatSession chat = f.session();
  const Tokens reply = f.tokenizer->sampled({"abc", "the"});
  f.say({reply, reply, reply});
  must(chat.send(std::string(200, 'x'), greedy()));
  const size_t pages = f.engine->state().pool().pages_in_use();
  Result<ChatSession> forked = chat.fork();
  ASSERT_TRUE(forked.ok());
  EXPECT_EQ(f.engine->state().pool().pages_in_use(), pages);
  EXPECT_EQ(SessionSnapshot(*forked), SessionSnapshot(chat));
  f.model->take_fed();
  must(chat.send("one", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({{f.tokenizer->im_end}, f.next_prompt("one"), reply}));
  must(forked->send("two", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.ids("two<|im_end|>\n<|im_start|>assistant\n"), reply}))
      << "the other fork has prefilled the tokens before the question";
  EXPECT_EQ(chat.state().messages()[2]["content"], "one");
  EXPECT_EQ(forked->state().messages()[2]["content"], "two");
  expect_replays(chat);
  expect_replays(*forked);
}

TEST(ChatSessionTest, ResetAndSetSystemClearTheConversation) {
  ChatFixture f;
  ChatSession chat = f.session({.system = "be the best"});
  f.say({f.tokenizer->sampled({"ab"})});
  must(chat.send("one", greedy()));
  ASSERT_TRUE(chat.reset().ok());
  EXPECT_EQ(chat.state().messages().size(), 1u);
  EXPECT_EQ(chat.ids().size(), 0u);
  EXPECT_EQ(chat.usage().n_prompt, 0u);
  const Turn again = must(chat.send("two", greedy()));
  const size_t system = f.ids("<|im_start|>system\nbe the best<|im_end|>\n<|im_start|>user\n").size();
  EXPECT_EQ(again.usage.n_cached, system) << "the store still has the beginning";
  expect_replays(chat);
  ASSERT_TRUE(chat.set_system("").ok());
  EXPECT_EQ(chat.state().messages().size(), 0u);
  ASSERT_TRUE(chat.set_system("Hello").ok());
  EXPECT_EQ(chat.state().messages()[0]["content"], "Hello");
}

TEST(ChatSessionTest, SecondSessionReusesCachedPrefixOfTheFirstSession) {
  ChatFixture f;
  f.say({f.tokenizer->sampled({"ab"})});
  const std::string system = "be " + std::string(150, 'z');
  ChatSession one = f.session({.system = system});
  must(one.send("Hello", greedy()));
  f.model->take_fed();
  ChatSession two = f.session({.system = system});
  const Turn turn = must(two.send("the end", greedy()));
  const size_t shared = f.ids("<|im_start|>system\n" + system + "<|im_end|>\n<|im_start|>user\n").size();
  EXPECT_EQ(turn.usage.n_cached, shared);
  EXPECT_EQ(f.model->take_fed().size(), turn.usage.n_prefilled + 1);
  expect_replays(two);

  ChatSession same = f.session({.system = system});
  EXPECT_EQ(must(same.send("Hello", greedy())).usage.n_prefilled, 0u) << "the whole prompt is cached, with its logits";
  expect_replays(same);

  ChatSession stranger = f.session({.system = system, .cache_namespace = "another"});
  EXPECT_EQ(must(stranger.send("Hello", greedy())).usage.n_cached, 0u);
}

TEST(ChatSessionTest, TemplateEndsTheTurnOfACutAnswer) {
  ChatFixture f;
  ChatSession chat = f.session();
  const Tokens reply = f.tokenizer->sampled({"Hello", " world", "abc", "the"});
  f.say({reply, f.tokenizer->sampled({"ab"})});
  const Turn cut = must(chat.send("x", greedy(3)));
  EXPECT_EQ(cut.finish_reason, FinishReason::kLength);
  EXPECT_EQ(cut.text, "Hello worldabc");
  EXPECT_EQ(f.model->take_fed(), joined({f.prompt("x"), f.tokenizer->sampled({"Hello", " world"})}));
  const Turn next = must(chat.send("y", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.tokenizer->sampled({"abc"}), f.ids("<|im_end|>"), f.next_prompt("y"),
                                         f.tokenizer->sampled({"ab"})}));
  EXPECT_FALSE(next.lost_prefix.has_value());
  expect_replays(chat);
}

TEST(ChatSessionTest, NextPromptReplacesAnotherEndTokenByThatOfTheTemplate) {
  ChatFixture f;
  ChatSession chat = f.session();
  const Tokens reply = f.tokenizer->sampled({"Hello", "<|endoftext|>"});
  f.say({reply, f.tokenizer->sampled({"ab"})});
  EXPECT_EQ(must(chat.send("x", greedy())).text, "Hello");
  f.model->take_fed();
  const Turn next = must(chat.send("y", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.ids("<|im_end|>"), f.next_prompt("y"), f.tokenizer->sampled({"ab"})}));
  EXPECT_FALSE(next.lost_prefix.has_value()) << "it never had keys and values";
  expect_replays(chat);
}

// A special token gives no text in which a stop string could be found.
TEST(ChatSessionTest, StopStringThatIsASpecialTokenEndsTheAnswer) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"Hello", "<|im_start|>", "the"}), f.tokenizer->sampled({"ab"})});
  TurnOptions options = greedy();
  options.stop_strings = {"zz", "<|im_start|>"};
  const Turn turn = must(chat.send("x", options));
  EXPECT_EQ(turn.text, "Hello");
  EXPECT_EQ(turn.finish_reason, FinishReason::kStopString);
  EXPECT_EQ(turn.stop_string, "<|im_start|>");
  EXPECT_EQ(turn.usage.n_decoded, 2u);
  EXPECT_EQ(must(chat.send("y", greedy())).text, "ab");
}

TEST(ChatSessionTest, StopStringAcrossTokensEndsTheAnswer) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"Hello", " world", ".\n", "ing", "the"}), f.tokenizer->sampled({"ab"})});
  TurnOptions options = greedy();
  options.stop_strings = {"ld.\ni"};
  std::string streamed;
  const Turn turn = must(chat.send("x", options, [&](const TurnEvent& e) { streamed += e.text; }));
  EXPECT_EQ(turn.text, "Hello wor");
  EXPECT_EQ(streamed, "Hello wor");
  EXPECT_EQ(turn.finish_reason, FinishReason::kStopString);
  EXPECT_EQ(turn.stop_string, "ld.\ni");
  EXPECT_EQ(turn.usage.n_decoded, 4u);
  // " world" overlaps the stop string, so only the token "Hello" stays.
  EXPECT_EQ(chat.ids(), joined({f.prompt("x"), f.tokenizer->sampled({"Hello"})}));
  EXPECT_EQ(chat.state().kv().length(), chat.ids().size());
  expect_replays(chat);
  f.model->take_fed();
  const Turn next = must(chat.send("y", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.ids(" wor<|im_end|>"), f.next_prompt("y"), f.tokenizer->sampled({"ab"})}));
  EXPECT_FALSE(next.lost_prefix.has_value());
  expect_replays(chat);
}

TEST(ChatSessionTest, AnswerThatIsOnlyAStopStringIsEmpty) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"abc"}), f.tokenizer->sampled({"the"})});
  TurnOptions options = greedy();
  options.stop_strings = {"abc"};
  EXPECT_EQ(must(chat.send("x", options)).text, "");
  f.model->take_fed();
  must(chat.send("y", greedy()));
  EXPECT_EQ(f.tokenizer->decode(chat.ids()), chat.state().transcript().bytes());
  EXPECT_EQ(chat.state().transcript().bytes(),
            "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\ny<|im_end|>\n"
            "<|im_start|>assistant\nthe<|im_end|>");
  expect_replays(chat);
}

TEST(ChatSessionTest, RewrittenHistoryIsPrefilledAgainAndExplained) {
  ChatFixture f(kStripsThinking);
  ChatSession chat = f.session();
  const Tokens thinking = f.tokenizer->sampled({"<think>", "ing", "the", "</think>", "Hello", " world"});
  f.say({thinking, f.tokenizer->sampled({"ab"}), f.tokenizer->sampled({"the"})});
  const Turn first = must(chat.send("x", greedy()));
  EXPECT_EQ(first.text, "<think>ingthe</think>Hello world");
  f.model->take_fed();
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.usage.n_cached, f.prompt("x").size());
  EXPECT_EQ(f.model->take_fed(),
            joined({f.ids("Hello world<|im_end|>"), f.next_prompt("y"), f.tokenizer->sampled({"ab"})}));
  ASSERT_TRUE(turn.lost_prefix.has_value());
  EXPECT_EQ(turn.lost_prefix->message, 1u);
  EXPECT_EQ(turn.lost_prefix->n_tokens, thinking.size());
  EXPECT_EQ(turn.lost_prefix->token, f.prompt("x").size());
  EXPECT_EQ(turn.lost_prefix->byte, f.tokenizer->decode(f.prompt("x")).size());
  EXPECT_EQ(turn.lost_prefix->was.substr(0, 10), "<think>ing");
  EXPECT_EQ(turn.lost_prefix->now.substr(0, 10), "Hello worl");
  EXPECT_THAT(turn.lost_prefix->to_string(), HasSubstr("message 1"));
  EXPECT_FALSE(must(chat.send("z", greedy())).lost_prefix.has_value()) << "once rewritten, it stays";
  EXPECT_EQ(f.tokenizer->decode(chat.ids()), chat.state().transcript().bytes());
  expect_replays(chat);
}

TEST(ChatSessionTest, TrimmedAnswerKeepsTokensBeforeTheCut) {
  ChatFixture f(kTrims);
  // Tokens other than the tokenizer's show that they are kept and not encoded again.
  {
    ChatSession chat = f.session();
    f.say({f.tokenizer->sampled({"a", "b", "\n"}), f.tokenizer->sampled({"the"})});
    must(chat.send("x", greedy()));
    f.model->take_fed();
    const Turn turn = must(chat.send("y", greedy()));
    EXPECT_EQ(turn.usage.n_cached, f.prompt("x").size() + 2);
    EXPECT_EQ(f.model->take_fed(), joined({f.ids("<|im_end|>"), f.next_prompt("y"), f.tokenizer->sampled({"the"})}));
    ASSERT_TRUE(turn.lost_prefix.has_value());
    EXPECT_EQ(turn.lost_prefix->n_tokens, 1u);
    expect_replays(chat);
  }
  // A cut within a token: the answer is encoded as text, and equal tokens stay.
  ChatSession chat = f.session({.cache_namespace = "other"});
  f.say({f.tokenizer->sampled({"Hello", ".\n"}), f.tokenizer->sampled({"the"})});
  must(chat.send("x", greedy()));
  f.model->take_fed();
  const Turn turn = must(chat.send("y", greedy()));
  EXPECT_EQ(turn.usage.n_cached, f.prompt("x").size() + 1);
  EXPECT_EQ(f.model->take_fed(), joined({f.ids(".<|im_end|>"), f.next_prompt("y"), f.tokenizer->sampled({"the"})}));
  expect_replays(chat);
}

TEST(ChatSessionTest, MessageTextIsNeverEncodedAsTemplateText) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"b"}), f.tokenizer->sampled({"ab"})});
  must(chat.send("a", greedy()));
  ASSERT_TRUE(chat.rewind_to(0).ok());
  f.model->take_fed();
  // The bytes of the first prompt, as a message.
  f.model->script = nullptr;
  const Turn turn = must(chat.send("a<|im_end|>\n<|im_start|>assistant\n", greedy(1)));
  EXPECT_EQ(turn.usage.n_cached, f.ids("<|im_start|>user\na").size());
  const Tokens fed = f.model->take_fed();
  EXPECT_EQ(fed[0], TokenId{'<'});
  EXPECT_EQ(std::count(chat.ids().begin(), chat.ids().end(), f.tokenizer->im_end), 1);
  EXPECT_EQ(f.tokenizer->decode(chat.ids()), chat.state().transcript().bytes());
  expect_replays(chat);
}

TEST(ChatSessionTest, StreamEmitsWholeCharactersAndReplacesACutCharacter) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"a", "\xC3", "\xA9", "\xE2", "\x82", "\xAC"}), f.tokenizer->sampled({"the"})});
  std::vector<std::string> pieces;
  Turn turn = must(chat.send("x", greedy(5), [&](const TurnEvent& e) {
    if (e.kind == TurnEvent::Kind::kText) pieces.push_back(std::string(e.text));
  }));
  EXPECT_THAT(pieces, ::testing::ElementsAre("a", "é", "\xEF\xBF\xBD"));
  EXPECT_EQ(turn.text, "aé\xEF\xBF\xBD");
  f.model->take_fed();
  turn = must(chat.send("y", greedy()));
  EXPECT_EQ(f.model->take_fed(), joined({f.tokenizer->sampled({"\x82"}), f.ids("<|im_end|>"), f.next_prompt("y"),
                                         f.tokenizer->sampled({"the"})}))
      << "the sampled tokens stay";
  expect_replays(chat);
}

TEST(ChatSessionTest, RepetitiveAnswerIsKeptInHistory) {
  for (const bool speculate : {false, true}) {
    ChatFixture f;
    f.say({joined({f.tokenizer->sampled({"lo"}), Tokens(400, 'a')}), f.tokenizer->sampled({"ab"})});
    ChatSession chat = f.session();
    TurnOptions options = greedy(1000);
    options.speculate = speculate;
    options.stop_repetition = true;
    const Turn turn = must(chat.send("x", options));
    EXPECT_EQ(turn.finish_reason, FinishReason::kRepetition);
    EXPECT_EQ(turn.text, "lo" + std::string(256, 'a'));
    expect_replays(chat);
    EXPECT_EQ(must(chat.send("y", options)).text, "ab");
    expect_replays(chat);
  }
}

// An answer of special tokens only has tokens and no text; when regenerated, it is not part of the prompt.
TEST(ChatSessionTest, RegenerateReplacesAnswerWithoutText) {
  for (const bool ends : {false, true}) {
    for (const bool regenerates : {false, true}) {
      ChatFixture f;
      const TokenId tool = *f.tokenizer->find_token("<|tool|>");
      f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
        return prefix.back() == tool ? f.tokenizer->im_end : tool;
      };
      ChatSession chat = f.session();
      must(chat.send("x", greedy(ends ? 5 : 1)));
      ASSERT_EQ(chat.state().messages().back()["content"], "");
      const Tokens with_tool = joined({f.prompt("x"), {tool}});
      ASSERT_TRUE(std::equal(with_tool.begin(), with_tool.end(), chat.ids().begin()));
      if (!regenerates) {
        ASSERT_TRUE(chat.rewind_to(0).ok());
      }
      const Turn turn = must(regenerates ? chat.regenerate(greedy()) : chat.send("x", greedy()));
      EXPECT_EQ(turn.usage.n_prompt, f.prompt("x").size());
      EXPECT_EQ(chat.ids(), joined({f.prompt("x"), {tool, f.tokenizer->im_end}})) << "the same answer, once";
      expect_replays(chat);
    }
  }
}

TEST(ChatSessionTest, AnswerWithoutTextStaysInLaterPrompts) {
  ChatFixture f;
  const TokenId tool = *f.tokenizer->find_token("<|tool|>");
  f.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
    return prefix.back() == tool ? f.tokenizer->im_end : tool;
  };
  ChatSession chat = f.session();
  must(chat.send("x", greedy(5)));
  const Tokens before = chat.ids();
  must(chat.send("y", greedy(5)));
  EXPECT_TRUE(std::equal(before.begin(), before.end(), chat.ids().begin()));
  expect_replays(chat);
}

TEST(ChatSessionTest, EventsAreEmittedInOrder) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"Hello", "ing"})});
  std::string story;
  const Turn turn = must(chat.send(std::string(70, 'q'), greedy(), [&](const TurnEvent& e) {
    if (e.kind == TurnEvent::Kind::kPrefill)
      story += "p" + std::to_string(e.n_done) + "/" + std::to_string(e.n_total) + " ";
    if (e.kind == TurnEvent::Kind::kText) story += "'" + std::string(e.text) + "' ";
    if (e.kind == TurnEvent::Kind::kFinish) story += std::string(finish_reason_name(e.turn->finish_reason));
  }));
  const std::string n = std::to_string(turn.usage.n_prompt);
  EXPECT_EQ(story, "p32/" + n + " p64/" + n + " p" + n + "/" + n + " 'Hello' 'ing' stop");
}

TEST(ChatSessionTest, PaddingOfTheVocabularyIsNeverSampled) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.model->change_logits = [](TokenSpan, std::span<float> row) { row[row.size() - 1] = 1000.0f; };
  must(chat.send("x", greedy(8)));
  for (const TokenId id : chat.ids()) EXPECT_LT(static_cast<size_t>(id), f.tokenizer->vocab_size());
}

TEST(ChatSessionTest, ModelsWithoutTemplateAndInvalidTextAreRejected) {
  ChatFixture none(nullptr);
  const Result<ChatSession> session = ChatSession::create(none.engine);
  EXPECT_EQ(session.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(session.status().message(), HasSubstr("chat template"));

  ChatFixture f;
  EXPECT_EQ(ChatSession::create(f.engine, {.system = "\xFF"}).status().code(), ErrorCode::kInvalidArgument);
  ChatSession chat = f.session();
  EXPECT_EQ(chat.send("\xC3(", greedy()).status().code(), ErrorCode::kInvalidArgument);
  TurnOptions hot = greedy();
  hot.sampler.temperature = -1;
  EXPECT_EQ(chat.send("x", hot).status().code(), ErrorCode::kInvalidArgument);
  TurnOptions stops = greedy();
  stops.stop_strings = {""};
  EXPECT_EQ(chat.send("x", stops).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(chat.state().messages().size(), 0u);
  EXPECT_EQ(chat.count_tokens("Hello world<|im_end|>"), 12u) << "control tokens are not recognised in text";
}

}  // namespace
}  // namespace ibid
