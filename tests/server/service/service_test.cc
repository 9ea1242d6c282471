#include "server/service/service.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "cache/store/lru_kv_cache_store.h"
#include "tests/server/service/service_fixture.h"

namespace ibid::serve {
namespace {

// Prefilled after an answer that max_tokens ended: its last token, and the template's end of turn.
constexpr size_t kBehindCut = 2;

std::string question(size_t i) { return "question " + std::to_string(i) + " about the abcd"; }

// Every turn sends the whole history, as clients do, but prefills only as much as a session would.
TEST(ServiceTest, WholeHistoryPrefillsOnlyItsNewMessage) {
  ServiceFixture f;
  ChatFixture lone;
  ChatSession session = lone.session();
  Json messages = Json::array();
  for (size_t i = 0; i < 20; ++i) {
    messages.push_back(user(question(i)));
    const Answer answer = f.answer(ask(messages));
    const Turn expected = must(session.send(question(i), parsing(greedy(12))));
    EXPECT_EQ(answer.content, expected.content);
    EXPECT_EQ(answer.usage.n_prompt, expected.usage.n_prompt);
    EXPECT_EQ(answer.usage.n_cached, expected.usage.n_cached);
    EXPECT_EQ(answer.usage.n_prefilled, expected.usage.n_prefilled);
    EXPECT_EQ(answer.work.messages_rendered, expected.work.messages_rendered);
    EXPECT_EQ(answer.work.bytes_tokenized, expected.work.bytes_tokenized);
    EXPECT_EQ(f.chat.model->take_fed(), lone.model->take_fed()) << "the model evaluated the same tokens";
    messages.push_back(make_message(Role::kAssistant, answer.content));
  }
  ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(60)));  // requests are counted after their end
  const ServiceStats stats = f.service->stats();
  EXPECT_EQ(stats.n_answers, 20u);
  EXPECT_EQ(stats.conversations.n_continued, 19u);
  EXPECT_EQ(stats.conversations.n_unknown, 1u);
  EXPECT_EQ(stats.conversations.n_known, 1u);
}

// Recurrent layers can resume only at checkpoints.
TEST(ServiceTest, RecurrentModelPrefillsOnlyTheNewMessage) {
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, {.recurrent = true});
  const Json system = make_message(Role::kSystem, std::string(700, 's'));
  Json messages = Json::array({system});
  std::vector<size_t> ends;  // positions after each answer
  for (size_t i = 0; i < 10; ++i) {
    messages.push_back(user(question(i)));
    const Answer answer = f.answer(ask(messages));
    EXPECT_EQ(answer.usage.n_cached, ends.empty() ? 0 : ends.back()) << i;
    EXPECT_EQ(answer.usage.n_reprefilled, 0u) << i;
    EXPECT_FALSE(answer.lost_prefix.has_value()) << i;
    ends.push_back(answer.usage.n_prompt + answer.usage.n_decoded - 1);
    messages.push_back(make_message(Role::kAssistant, answer.content));
  }
  const auto first = [&](size_t n) {
    return Json(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n)));
  };
  const Answer again = f.answer(ask(first(messages.size() - 1)));
  EXPECT_EQ(messages.back()["content"], again.content);
  EXPECT_EQ(again.usage.n_prefilled, 0u);
  for (size_t turn = 9; turn > 0; --turn) {
    Json edited = first(2 * turn + 2);
    edited[2 * turn + 1]["content"] = "something else";
    EXPECT_GE(f.answer(ask(edited)).usage.n_cached, ends[turn - 1]) << turn;
  }
  // Another user of the namespace reuses the system message.
  EXPECT_GE(f.answer(ask(Json::array({system, user("hello")}))).usage.n_cached, 700u);
}

TEST(ServiceTest, EventsComeInOrder) {
  ServiceFixture f;
  f.chat.say({f.chat.tokenizer->sampled({"Hello", " wor", "lo"})});
  const auto heard = f.start(ask({user("x")}));
  ASSERT_TRUE(heard->wait().ok());
  EXPECT_EQ(heard->said(), "Hello worlo");
  EXPECT_EQ(heard->model(), "fake");
  EXPECT_EQ(heard->n_prompt(), f.chat.prompt("x").size());
  EXPECT_EQ(heard->events()[0], "queued");
  EXPECT_EQ(heard->events()[1], "begin");
  EXPECT_EQ(heard->events()[heard->events().size() - 2], "answer");
  EXPECT_EQ(heard->events().back(), "end");
  EXPECT_EQ(heard->answer_of().end_of_turn, f.chat.tokenizer->im_end);
}

// A conversation of n turns; returns its history.
Json converse(ServiceFixture& f, size_t n, const std::string& name_space = "a") {
  Json messages = Json::array();
  for (size_t i = 0; i < n; ++i) {
    messages.push_back(user(question(i)));
    messages.push_back(make_message(Role::kAssistant, f.answer(ask(messages, name_space)).content));
  }
  return messages;
}

Json first_messages(const Json& messages, size_t n) {
  return Json(Json::array_t(messages.begin(), messages.begin() + static_cast<std::ptrdiff_t>(n)));
}

TEST(ServiceTest, ProgressBeginsWithTheCachedPart) {
  ServiceFixture f;
  Json messages = Json::array({user(std::string(300, 'q'))});
  const auto first = f.start(ask(messages));
  ASSERT_TRUE(first->wait().ok());
  EXPECT_EQ(first->progress().front(), 0u);
  EXPECT_EQ(first->progress().back(), first->n_prompt());
  messages.push_back(make_message(Role::kAssistant, first->answer_of().content));
  messages.push_back(user("more"));
  for (const bool again : {false, true}) {
    const auto next = f.start(ask(messages));
    ASSERT_TRUE(next->wait().ok());
    EXPECT_GT(next->answer_of().usage.n_cached, 0u);
    EXPECT_EQ(next->progress().front(), next->answer_of().usage.n_cached) << again;
    EXPECT_EQ(next->progress().back(), next->n_prompt()) << again;
  }
}

TEST(ServiceTest, RegeneratingPrefillsNothing) {
  ServiceFixture f;
  const Json messages = converse(f, 3);
  const Answer again = f.answer(ask(first_messages(messages, 5)));
  EXPECT_EQ(messages[5]["content"], again.content);
  EXPECT_EQ(again.usage.n_prefilled, 0u);
  EXPECT_FALSE(again.lost_prefix.has_value()) << "the client removed it";
}

TEST(ServiceTest, EditPrefillsOnlyTheEditedMessage) {
  ServiceFixture f;
  Json messages = converse(f, 4);
  Json edited = first_messages(messages, 5);
  edited[4]["content"] = "something else";
  const Answer answer = f.answer(ask(edited));
  EXPECT_EQ(answer.usage.n_prefilled, f.chat.ids("something else<|im_end|>\n<|im_start|>assistant\n").size());
  // The other branch can also be continued at its end.
  messages.push_back(user("on"));
  const Answer on = f.answer(ask(messages));
  EXPECT_EQ(on.usage.n_prefilled, f.chat.next_prompt("on").size() + kBehindCut);
  EXPECT_EQ(f.service->stats().conversations.n_forked, 1u);
}

TEST(ServiceTest, ShorterHistoryPrefillsItsNewMessage) {
  ServiceFixture f;
  Json messages = first_messages(converse(f, 4), 2);
  messages.push_back(user("shorter"));
  EXPECT_EQ(f.answer(ask(messages)).usage.n_prefilled, f.chat.ids("shorter<|im_end|>\n<|im_start|>assistant\n").size());
}

TEST(ServiceTest, SystemPromptIsCachedForItsNamespaceOnly) {
  ServiceFixture f;
  const Json system = make_message(Role::kSystem, std::string(300, 's'));
  const auto first = [&](const char* text, const char* name) {
    return f.answer(ask(Json::array({system, user(text)}), name)).usage;
  };
  EXPECT_EQ(first("one", "a").n_cached, 0u);
  EXPECT_EQ(first("two", "a").n_prefilled, f.chat.ids("two<|im_end|>\n<|im_start|>assistant\n").size());
  EXPECT_EQ(first("one", "b").n_cached, 0u);
  EXPECT_EQ(f.service->stats().conversations.n_unknown, 3u);
}

TEST(ServiceTest, SampledTokensAreKeptIfTheTextEncodesDifferently) {
  // Encoding the text gives different tokens.
  ServiceFixture f;
  f.chat.say({f.chat.tokenizer->sampled({"a", "b", "c", "H", "e"})});
  Json messages = Json::array({user("x")});
  messages.push_back(make_message(Role::kAssistant, f.answer(ask(messages)).content));
  ASSERT_EQ(messages[1]["content"], "abcHe");
  messages.push_back(user("y"));
  EXPECT_EQ(f.answer(ask(messages)).usage.n_prefilled, f.chat.next_prompt("y").size() + 1);
}

// The tokens received so far are always a prefix of those of the whole answer, even if a stop string is removed
// (Heard::answer()).
TEST(ServiceTest, LogprobsAreEmittedWithTheirText) {
  for (const char* stop : {"", "lo", "wor"}) {
    ServiceFixture f;
    f.chat.say({f.chat.tokenizer->sampled({"H", "e", "l", "lo", " wor", "\xc3", "\xa4", "lo"})});
    AnswerRequest request = ask({user("x")});
    request.options.n_logprobs = 2;
    if (*stop != 0) request.options.stop_strings = {stop};
    const auto heard = f.start(request);
    ASSERT_TRUE(heard->wait().ok());
    EXPECT_EQ(heard->answer_of().logprobs.size(), *stop == 0 ? 8u : *stop == 'l' ? 3u : 4u);
    EXPECT_GE(heard->n_logprobs() + 1, heard->answer_of().logprobs.size());
    EXPECT_EQ(std::find(heard->events().begin(), heard->events().end(), "logprobs") - heard->events().begin() + 1,
              std::find(heard->events().begin(), heard->events().end(), "content") - heard->events().begin());
  }
}

// Clients whose numbers are doubles send it back unchanged.
// The prompt is read once, scored or not, and its answers are the same.
TEST(ServiceTest, PromptIsScoredBeforeItsAnswers) {
  for (const size_t n : {0u, 1u, 3u}) {
    ServiceFixture plain, f;
    AnswerRequest request = ask(Json::array({user("Tell me about bridges, in many words, and then of rivers.")}));
    request.n = std::max<size_t>(n, 1);
    const auto wanted = plain.start(request);
    ASSERT_TRUE(wanted->wait().ok());
    request.n = n;
    request.n_prompt_logprobs = 2;
    const auto heard = f.start(request);
    ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
    ASSERT_NE(heard->prompt_scores(), nullptr);
    const auto& [ids, scored] = *heard->prompt_scores();
    EXPECT_EQ(heard->events()[2], "prompt_scores") << "after queued and begin";
    EXPECT_EQ(ids.size(), heard->n_prompt());
    const auto direct = plain.chat.engine->score(ids, {.n_top = 2});
    EXPECT_EQ(scored.tokens, direct->tokens);
    EXPECT_EQ(scored.ranks, direct->ranks);
    const Usage& usage = heard->answer_of().usage;
    EXPECT_EQ(usage.n_prefilled, ids.size()) << n;
    EXPECT_EQ(usage.n_cached, 0u) << n;
    ASSERT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(60)));  // counted after the end was sent
    EXPECT_EQ(f.service->stats().n_prefilled, ids.size() + (n > 1 ? n - 1 : 0)) << n;
    for (size_t i = 0; i < n; ++i) EXPECT_EQ(heard->said(i), wanted->said(i));
    // Scoring again computes all rows again, since none are kept.
    EXPECT_TRUE(f.start(request)->wait().ok());
  }
}

// The guard of answers: what it leaves alone, and when it ends an answer.
TEST(ServiceTest, RepetitionGuardEndsOnlyAnswersWithoutALengthLimit) {
  constexpr size_t kContext = 2048;
  struct Case {
    const char* name;
    std::function<void(AnswerRequest&)> ask;
    bool repeats;  // the answer repeats itself, or else never ends
    bool server_guards;
    size_t n_decoded;  // 0: until the context is full
    FinishReason end;
  };
  using Kind = ResponseFormat::Kind;
  const auto nothing = [](AnswerRequest&) {};
  const auto names_length = [](AnswerRequest& r) { r.options.max_tokens = 1000; };
  const Case cases[] = {
      {"by default", nothing, false, true, kContext / 4, FinishReason::kLength},
      {"repetition", nothing, true, true, 256, FinishReason::kRepetition},
      {"the request switches it off", [](AnswerRequest& r) { r.guard = false; }, true, true, 0, FinishReason::kLength},
      {"the server has none", nothing, true, false, 0, FinishReason::kLength},
      {"the request switches it on", [](AnswerRequest& r) { r.guard = true; }, true, false, 256,
       FinishReason::kRepetition},
      {"a maximum", names_length, true, true, 1000, FinishReason::kLength},
      {"no maximum, by name", [](AnswerRequest& r) { r.chooses_length = true; }, false, true, 0, FinishReason::kLength},
      {"repetition is wanted", [](AnswerRequest& r) { r.chooses_repetition = true; }, true, true, kContext / 4,
       FinishReason::kLength},
      {"a maximum, and the guard by name",
       [](AnswerRequest& r) {
         r.options.max_tokens = 1000;
         r.guard = true;
       },
       true, true, 256, FinishReason::kRepetition},
      {"JSON with a maximum",
       [](AnswerRequest& r) {
         r.options.max_tokens = 1000;
         r.form = {.kind = Kind::kJsonSchema, .text = R"({"type":"string"})"};
       },
       true, true, 257, FinishReason::kRepetition},
  };
  for (const Case& one : cases) {
    AdmissionOptions options = ServiceFixture::quiet();
    options.guards_answers = one.server_guards;
    ServiceFixture f(options, kChatMl, {.max_seq_len = kContext});
    f.chat.model->script = [&](TokenSpan prefix) -> std::optional<TokenId> {
      if (one.repeats) return prefix.back() == 'x' || prefix.back() == '"' ? 'x' : '"';
      // Digits of a number that never repeats: 1, 2, 3 ...
      return static_cast<TokenId>('0' + prefix.size() * prefix.size() / 7 % 10);
    };
    AnswerRequest request = ask({user("Name a river.")});
    request.options.max_tokens = 0;
    one.ask(request);
    const Answer answer = f.answer(request);
    EXPECT_EQ(answer.finish_reason, one.end) << one.name;
    const size_t wanted = one.n_decoded == 0 ? kContext - answer.usage.n_prompt : one.n_decoded;
    EXPECT_NEAR(static_cast<double>(answer.usage.n_decoded), static_cast<double>(wanted), 2) << one.name;
    EXPECT_EQ(answer.is_guarded, answer.max_tokens == kContext / 4) << one.name;
  }
}

// A client that adds each answer to its last message reads nothing again, and gets the answer of one long request.
TEST(ServiceTest, ContinuedAnswerEqualsTheUncutAnswer) {
  for (const size_t n : {1u, 2u}) {
    ServiceFixture plain, f;
    AnswerRequest request = ask({user("Tell me about bridges.")});
    request.options = greedy(30);
    const Answer whole = plain.answer(request);
    request.options = greedy(10);
    const Answer first = f.answer(request);
    std::string said = first.content;
    for (int part = 0; part < 2; ++part) {
      AnswerRequest next = ask({user("Tell me about bridges."), make_message(Role::kAssistant, said)});
      next.options = greedy(10);
      next.continues = true;
      next.n = n;
      const auto heard = f.start(next);
      ASSERT_TRUE(heard->wait().ok()) << heard->wait().to_string();
      for (size_t i = 0; i < n; ++i) EXPECT_LE(heard->answer_of(i).usage.n_prefilled, 1u) << part;
      EXPECT_EQ(heard->answer_of().usage.n_prompt, first.usage.n_prompt + 10 * (1 + static_cast<size_t>(part)));
      said += heard->said();
    }
    EXPECT_EQ(said, whole.content);
    // The conversation goes on at the end.
    const Answer last =
        f.answer(ask({user("Tell me about bridges."), make_message(Role::kAssistant, said), user("x")}));
    EXPECT_LE(last.usage.n_prefilled, 60u);
    EXPECT_GE(last.usage.n_cached, first.usage.n_prompt + 29);
    // The count and the text of the prompt are those of the answer.
    AnswerRequest cold = ask({user("Q"), make_message(Role::kAssistant, "The answer ")});
    cold.continues = true;
    EXPECT_EQ(f.render_prompt(cold), "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nThe answer ");
    EXPECT_EQ(f.count_prompt(cold), f.answer(cold).usage.n_prompt);
  }
}

// The tokens of the prompt are known before the answer begins, unless the context was too small for all messages.
TEST(ServiceTest, TokensOfThePromptAreReturned) {
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, {.max_seq_len = 128});
  const auto place = [](const Heard& heard, const char* event) {
    return std::ranges::find(heard.events(), event) - heard.events().begin();
  };
  AnswerRequest request = ask({user("Q")});
  request.options.max_tokens = 4;
  request.returns_prompt_ids = true;
  const auto all = f.start(request);
  ASSERT_TRUE(all->wait().ok()) << all->wait().to_string();
  EXPECT_EQ(f.chat.tokenizer->decode(all->prompt_ids()), "<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_LT(place(*all, "prompt_tokens"), place(*all, "begin"));
  EXPECT_EQ(std::ranges::count(all->events(), "prompt_tokens"), 1);
  request.messages = Json::array({user(std::string(120, 'a')), make_message(Role::kAssistant, "b"), user("c")});
  request.when_full = WhenFull::kDropOldestTurns;
  const auto fewer = f.start(request);
  ASSERT_TRUE(fewer->wait().ok()) << fewer->wait().to_string();
  ASSERT_TRUE(fewer->answer_of().left_out.any());
  EXPECT_EQ(f.chat.tokenizer->decode(fewer->prompt_ids()), "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(std::ranges::count(fewer->events(), "prompt_tokens"), 1);
}

TEST(ServiceTest, ChosenSeedIsExactlyRepresentableAsADouble) {
  ServiceFixture f;
  for (int i = 0; i < 10; ++i) {
    AnswerRequest request = ask({user("x")});
    request.options.sampler.temperature = 1;
    const Answer answer = f.answer(request);
    EXPECT_LT(answer.seed, uint64_t{1} << 53);
    request.options.sampler.seed = answer.seed;
    EXPECT_EQ(f.answer(request).text, answer.text);
  }
}

TEST(ServiceTest, SeveralAnswersPrefillTheQuestionOnce) {
  ServiceFixture f;
  ChatFixture lone;
  ChatSession session = lone.session();
  AnswerRequest request = ask({user(question(0))});
  request.n = 3;
  request.options.sampler = {.temperature = 1, .seed = 7};
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok());
  const std::vector<Turn> expected = session.send_for_answers(question(0), 3, parsing(request.options)).value();
  ASSERT_EQ(heard->n_answers(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(heard->answer_of(i).content, expected[i].content);
    EXPECT_EQ(heard->answer_of(i).usage.n_prefilled, expected[i].usage.n_prefilled);
    EXPECT_EQ(heard->answer_of(i).usage.n_cached, expected[i].usage.n_cached);
    Json messages =
        Json::array({user(question(0)), make_message(Role::kAssistant, expected[i].content), user("go on")});
    EXPECT_EQ(f.answer(ask(messages)).usage.n_prefilled, f.chat.next_prompt("go on").size() + kBehindCut);
  }
  EXPECT_EQ(f.service->stats().conversations.n_continued, 3u) << "each of them can be continued";
}

TEST(ServiceTest, PlainPromptIsContinuedWithoutATemplate) {
  ServiceFixture f(ServiceFixture::quiet(), nullptr);
  AnswerRequest request = ask(Json());
  request.prompt = std::string("<|im_start|>Hello");
  const Answer answer = f.answer(request);
  EXPECT_EQ(answer.usage.n_prompt, 2u) << "special tokens are recognised";
  EXPECT_EQ(f.chat.model->fed().front().tokens, f.chat.ids("<|im_start|>Hello"));

  AnswerRequest by_ids = ask(Json());
  by_ids.prompt = f.chat.ids("<|im_start|>Hello");
  f.chat.model->take_fed();
  const Answer same = f.answer(by_ids);
  EXPECT_EQ(same.content, answer.content);
  EXPECT_EQ(same.usage.n_prefilled, 0u) << "the store has its keys and values, and its logits";

  by_ids.prompt = Tokens{f.chat.tokenizer->im_start, 100'000};
  const auto heard = f.start(by_ids);
  EXPECT_EQ(heard->wait().code(), ErrorCode::kInvalidArgument);
  EXPECT_FALSE(heard->has_begun());
}

TEST(ServiceTest, PromptIsEncodedIndependentlyOfEarlierAnswers) {
  ServiceFixture f(ServiceFixture::quiet(), nullptr);
  const Tokens said = f.chat.tokenizer->sampled({"H", "e", "l", "lo"});  // tokens that no encoding gives
  f.chat.model->script = [&f, said](TokenSpan prefix) -> std::optional<TokenId> {
    return prefix.size() < 2 || prefix.size() - 2 >= said.size() ? f.chat.tokenizer->im_end : said[prefix.size() - 2];
  };
  AnswerRequest request = ask(Json());
  request.prompt = std::string("<|im_start|>the");
  ASSERT_EQ(f.answer(request).content, "Hello");
  const std::string more = "<|im_start|>theHello and on";
  request.prompt = more;
  const Answer known = f.answer(request);
  EXPECT_EQ(known.usage.n_prompt, f.chat.ids(more).size());
  EXPECT_EQ(known.usage.n_cached, 2u) << "no token of the answer is in the text's encoding";
  request.cache_namespace = "b";
  const Answer fresh = f.answer(request);
  EXPECT_EQ(fresh.usage.n_cached, 0u);
  EXPECT_EQ(fresh.usage.n_prompt, known.usage.n_prompt);
  EXPECT_EQ(fresh.content, known.content);

  Tokens ids = f.chat.ids("<|im_start|>the");
  AnswerRequest by_ids = ask(Json(), "c");
  by_ids.prompt = ids;
  ASSERT_EQ(f.answer(by_ids).content, "Hello");
  ids.insert(ids.end(), said.begin(), said.end());
  ids.push_back(f.chat.tokenizer->im_end);
  ids.push_back(65);
  by_ids.prompt = ids;
  EXPECT_EQ(f.answer(by_ids).usage.n_prefilled, 2u) << "the token that ended the answer, and the new one";
}

TEST(ServiceTest, PromptReusesAnAnswerWithTheSameTokens) {
  ServiceFixture f(ServiceFixture::quiet(), nullptr);
  const Tokens whole = f.chat.ids("<|im_start|>theHello and on");
  f.chat.model->script = [&f, whole](TokenSpan prefix) -> std::optional<TokenId> {
    return prefix.size() < whole.size() ? whole[prefix.size()] : f.chat.tokenizer->im_end;
  };
  AnswerRequest request = ask(Json());
  request.prompt = std::string("<|im_start|>the");
  request.options.max_tokens = whole.size() - 2;
  ASSERT_EQ(f.answer(request).content, "Hello and on");
  request.prompt = std::string("<|im_start|>theHello and on");
  request.options.max_tokens = 1;
  EXPECT_EQ(f.answer(request).usage.n_prefilled, 1u) << "the last token, which was not evaluated before";
}

TEST(ServiceTest, ToolsAndVariablesApplyOnlyToTheirRequest) {
  constexpr const char* kWithTools =
      "{% if tools %}{{ '<|im_start|>tools\n' + tools[0]['name'] + '<|im_end|>\n' }}{% endif %}"
      "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
      "{% endfor %}{{ '<|im_start|>assistant\n' }}{% if brief %}{{ 'brief' }}{% endif %}";
  ServiceFixture f(ServiceFixture::quiet(), kWithTools);
  Json messages = Json::array({user("x")});
  AnswerRequest request = ask(messages);
  const Answer plain = f.answer(request);
  request.variables["brief"] = true;
  EXPECT_EQ(f.answer(request).usage.n_prompt, plain.usage.n_prompt + f.chat.ids("brief").size());
  request.variables = Json::object();
  request.tools = Json::array({Json{{"name", "abcd"}}});
  EXPECT_EQ(f.answer(request).usage.n_prompt,
            plain.usage.n_prompt + f.chat.ids("<|im_start|>tools\nabcd<|im_end|>\n").size());
  request.tools = Json();
  const Answer again = f.answer(request);
  EXPECT_EQ(again.content, plain.content);
  EXPECT_EQ(f.count_prompt(request), plain.usage.n_prompt);
  EXPECT_EQ(f.render_prompt(request), "<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
  EXPECT_EQ(f.encode_prompt(request), f.chat.ids(f.render_prompt(request)));
}

TEST(ServiceTest, RenderedPromptHasTheDateOfAnAnswersPrompt) {
  ManualClock engine_clock(1'794'095'999'000'000'000);
  EngineParts parts;
  parts.clock = &engine_clock;
  const std::string source = std::string("{{ strftime_now('%Y') }} {{ date_string }}\n") + kChatMl;
  ServiceFixture f(ServiceFixture::quiet(), source.c_str(), {}, 64u << 20, std::move(parts));
  AnswerRequest request = ask({user("x")});
  request.returns_prompt_ids = true;
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok());
  EXPECT_EQ(f.render_prompt(request), f.chat.tokenizer->decode(heard->prompt_ids()));
  EXPECT_EQ(f.render_prompt(request), "2026 07 Nov 2026\n<|im_start|>user\nx<|im_end|>\n<|im_start|>assistant\n");
}

void expect_refused(ServiceFixture& f, AnswerRequest request, ErrorCode code) {
  const auto heard = f.start(std::move(request));
  EXPECT_EQ(heard->wait().code(), code) << heard->wait().to_string();
  EXPECT_LE(heard->events().size(), 2u);
  EXPECT_TRUE(heard->events()[0] == "end" || heard->events()[0] == "queued") << "no event before the error";
}

// The question is prefilled once, and counted for the first answer.
TEST(ServiceTest, FirstOfSeveralAnswersHasThePrefillTime) {
  ManualClock engine_clock;
  EngineParts parts;
  parts.clock = &engine_clock;
  ServiceFixture f(ServiceFixture::quiet(), kChatMl, {}, 64u << 20, std::move(parts));
  f.chat.model->before_layer = [&](size_t, size_t layer) {
    if (layer == 0) engine_clock.advance(1'000'000);
    return Status();
  };
  AnswerRequest request = ask({user(std::string(300, 'x'))});
  request.n = 2;
  const auto heard = f.start(request);
  ASSERT_TRUE(heard->wait().ok());
  const Turn& first = heard->answer_of(0);
  EXPECT_EQ(first.usage.n_prefilled, first.usage.n_prompt);
  EXPECT_GE(first.timings.prefill_ms, 1.0);
  EXPECT_GE(first.timings.ttft_ms, first.timings.prefill_ms);
  EXPECT_GE(first.timings.total_ms, first.timings.ttft_ms);
  EXPECT_LT(heard->answer_of(1).timings.prefill_ms, first.timings.prefill_ms);
}

// The prefix may be evicted between the prefill and the answers.
TEST(ServiceTest, UsageCountsAPrefixOnceIfItIsPrefilledAgain) {
  ServiceFixture f;
  AnswerRequest request = ask({user(std::string(300, 'x'))});
  request.n = 2;
  const auto heard = std::make_shared<Heard>();
  heard->on_event = [&](const std::string& event) {
    // This event comes between the prefill and the answers, on the thread that starts the answers.
    if (event == "begin") f.chat.engine->state().store().clear("a");
  };
  f.service->start(request, heard, {});
  ASSERT_TRUE(heard->wait().ok());
  for (size_t i = 0; i < 2; ++i) {
    const Usage& usage = heard->answer_of(i).usage;
    EXPECT_EQ(usage.n_cached + usage.n_prefilled, usage.n_prompt) << i;
    EXPECT_LE(usage.n_cached, usage.n_prompt) << i;
    EXPECT_LE(usage.n_reprefilled, usage.n_prefilled) << i;
  }
}

TEST(ServiceTest, RequestForNoAnswersPrefillsThePrompt) {
  ServiceFixture f;
  AnswerRequest request;
  request.cache_namespace = "a";
  request.prompt = std::string(300, 'x');
  request.options = greedy();
  request.n = 0;
  const Answer read = f.answer(request);
  EXPECT_EQ(read.usage.n_prompt, 300u);
  EXPECT_EQ(read.usage.n_prefilled, 300u);
  EXPECT_EQ(read.usage.n_decoded, 0u);
  EXPECT_EQ(read.content, "");
  EXPECT_EQ(f.answer(request).usage.n_prompt, 300u) << "and again";
  request.n = 1;
  EXPECT_GE(f.answer(request).usage.n_cached, 299u);
}

TEST(ServiceTest, ErrorsAreReportedBeforeAnyEvent) {
  constexpr const char* kRefuses =
      "{% for message in messages %}{% if message['role'] == 'bad' %}"
      "{{ raise_exception('no such role') }}{% endif %}{{ message['content'] }}{% endfor %}";
  ServiceFixture f(ServiceFixture::quiet(), kRefuses, {.max_seq_len = 64});
  AnswerRequest request = ask({user("x")});
  request.model = "other";
  expect_refused(f, request, ErrorCode::kNotFound);
  expect_refused(f, ask({user(std::string(100, 'x'))}), ErrorCode::kContextFull);
  expect_refused(f, ask({Json{{"role", "bad"}, {"content", "x"}}}), ErrorCode::kTemplateRaise);
  expect_refused(f, ask(Json::array()), ErrorCode::kInvalidArgument);
  expect_refused(f, ask({Json{{"content", "x"}}}), ErrorCode::kInvalidArgument);
  expect_refused(f, ask({user("x"), make_message(Role::kAssistant, "y")}), ErrorCode::kInvalidArgument);
  expect_refused(f, ask({user("\xff")}), ErrorCode::kInvalidArgument);
  request = ask({user("x")});
  request.n = 17;
  expect_refused(f, request, ErrorCode::kInvalidArgument);
  request.n = 1;
  request.options.sampler.top_p = -1;
  expect_refused(f, request, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(f.service->wait_until_quiet(std::chrono::seconds(10)));
  EXPECT_EQ(f.service->stats().n_running, 0u);
  EXPECT_EQ(f.answer(ask({user("x")})).usage.n_prompt, 1u) << "and the server continues";
}

}  // namespace
}  // namespace ibid::serve
