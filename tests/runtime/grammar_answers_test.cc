// Answers under grammars: they are texts of the grammar, the same with drafts and without, and what the grammar leaves
// no choice of takes fewer passes.
#include <gtest/gtest.h>

#include "runtime/answer/constraint_cache.h"
#include "tests/runtime/chat_fixture.h"

namespace ibid {
namespace {

template <typename T>
T took(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().to_string();
  return *std::move(result);
}

std::shared_ptr<const TokenConstraint> made(ChatFixture& f, ConstraintKind kind, std::string_view text) {
  return took(f.engine->constraints().make(kind, text));
}

TEST(GrammarAnswersTest, AnAnswerIsATextOfTheGrammar) {
  ChatFixture f;
  const std::string schema =
      R"({"type":"object","properties":{"a":{"enum":["x","yy"]},"b":{"type":"array","items":{"type":"boolean"},
          "minItems":1,"maxItems":3}},"required":["a","b"],"additionalProperties":false})";
  const Grammar grammar = took(compile_json_schema(schema));
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    ChatSession chat = f.session();
    TurnOptions options{.sampler = {.temperature = 1, .min_p = 0, .seed = seed}, .max_tokens = 400};
    options.constraint = made(f, ConstraintKind::kJsonSchema, schema);
    options.speculate = seed % 2 == 0;
    const Turn turn = must(chat.send("x", options));
    EXPECT_EQ(turn.finish_reason, FinishReason::kStop);
    EXPECT_TRUE(took(grammar_accepts(grammar, turn.text))) << turn.text;
    expect_replays(chat);
  }
  EXPECT_EQ(f.engine->constraints().n_compiled(), 1u);
}

// Every byte is forced, and no token spells two of these: so every mask has one id.
TEST(GrammarAnswersTest, WhatIsForcedIsReadInFewPasses) {
  const std::string text = "zqzqzqzqzqzqzqzqzqzqzqzqzqzqzqzq";  // 32 ids
  Turn turns[2];
  for (const bool speculate : {false, true}) {
    ChatFixture f;  // which has not read the prompt
    ChatSession chat = f.session();
    TurnOptions options{.sampler = {.temperature = 1, .min_p = 0, .seed = 7}, .max_tokens = 100};
    options.constraint = made(f, ConstraintKind::kRegex, text);
    options.speculate = speculate;
    Turn& turn = turns[speculate] = must(chat.send("x", options));
    EXPECT_EQ(turn.text, text);
    expect_replays(chat);
  }
  EXPECT_EQ(turns[0].usage.n_drafted, 0u);
  EXPECT_EQ(turns[1].usage.n_drafted, turns[1].usage.n_accepted) << "what is forced is sampled";
  EXPECT_GE(turns[1].usage.n_accepted, 25u);
  EXPECT_EQ(turns[0].work.n_forward - turns[1].work.n_forward, turns[1].usage.n_accepted) << "a pass less for each";
}

// Long choices differ at one place: drafts that were wrong change nothing.
TEST(GrammarAnswersTest, DraftsChangeNoAnswer) {
  ChatFixture f;
  const std::string pattern = "(the world is Hello [a-z]{3}, and ){2}(abcd|abce)+\\.";
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::string texts[2];
    for (const bool speculate : {false, true}) {
      ChatSession chat = f.session();
      TurnOptions options{.sampler = {.temperature = 1, .min_p = 0, .seed = seed}, .max_tokens = 150};
      options.constraint = made(f, ConstraintKind::kRegex, pattern);
      options.speculate = speculate;
      const Turn turn = must(chat.send("x", options));
      texts[speculate] = turn.text;
      const Turn again = must(chat.regenerate(options));
      EXPECT_EQ(again.text, turn.text) << "a clone each";
    }
    EXPECT_EQ(texts[0], texts[1]);
  }
}

TEST(GrammarAnswersTest, TheLastConstraintsAreKept) {
  ChatFixture f;
  ConstraintCache& cache = f.engine->constraints();
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 8; ++i) took(cache.make(ConstraintKind::kRegex, "a{" + std::to_string(i + 1) + "}"));
  }
  EXPECT_EQ(cache.n_compiled(), 8u);
  took(cache.make(ConstraintKind::kGbnf, "root ::= \"a\""));
  took(cache.make(ConstraintKind::kRegex, "a{1}"));
  EXPECT_EQ(cache.n_compiled(), 10u) << "the oldest went";
  EXPECT_EQ(cache.make(ConstraintKind::kChoices, "[1]").status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(took(cache.make(ConstraintKind::kChoices, R"(["a","b"])"))->may_end(), false);
  EXPECT_EQ(cache.make(ConstraintKind::kJsonSchema, "{").status().code(), ErrorCode::kBadHeader);
}

TEST(GrammarAnswersTest, SpecialTokensStandInFreeTextOnly) {
  ChatFixture f;
  ConstraintCache& cache = f.engine->constraints();
  const auto allows = [&](const TokenConstraint& constraint, TokenId id) {
    TokenMask mask(f.tokenizer->vocab_size());
    constraint.allowed(mask);
    return mask.has(id);
  };
  EXPECT_FALSE(allows(*made(f, ConstraintKind::kRegex, "[^a]*"), f.tokenizer->im_start));
  const LeadIn lead{.begin = "<|im_start|>", .end = "<|tool|>"};
  const auto free = cache.make(took(compile_behind(lead, took(compile_regex("[0-9]+")))))->clone();
  EXPECT_TRUE(allows(*free, f.tokenizer->im_start));
  EXPECT_TRUE(allows(*free, '7'));
  EXPECT_FALSE(allows(*free, 'a'));
  free->push(f.tokenizer->im_start);
  EXPECT_TRUE(allows(*free, 'a')) << "up to the end text is free";
  EXPECT_TRUE(allows(*free, f.tokenizer->im_start));
  const TokenId end = f.tokenizer->find_token("<|tool|>").value();
  ASSERT_TRUE(allows(*free, end));
  free->push(end);
  EXPECT_FALSE(allows(*free, 'a'));
  EXPECT_TRUE(allows(*free, '7'));
  free->push('7');
  EXPECT_FALSE(allows(*free, f.tokenizer->im_start));
}

// Where the form itself could spell them: it is called last, so nothing is left to return to.
TEST(GrammarAnswersTest, AFormThatAllowsAnyTextHasNoSpecialTokens) {
  ChatFixture f;
  const TokenId start = f.tokenizer->im_start, end = f.tokenizer->find_token("<|tool|>").value();
  const auto allows = [&](const TokenConstraint& constraint, TokenId id) {
    TokenMask mask(f.tokenizer->vocab_size());
    constraint.allowed(mask);
    return mask.has(id);
  };
  const LeadIn lead{.begin = "<|im_start|>", .end = "<|tool|>"};
  for (const auto& [kind, text] : {std::pair(ConstraintKind::kRegex, ".{12,40}"),
                                   std::pair(ConstraintKind::kJsonSchema, R"({"type":"string"})")}) {
    const auto form = took(f.engine->constraints().make(kind, text, lead))->clone();
    form->push(start);
    ASSERT_TRUE(allows(*form, end));
    form->push(end);
    EXPECT_FALSE(allows(*form, start)) << text;
    form->push(kind == ConstraintKind::kRegex ? 'a' : '"');
    EXPECT_TRUE(allows(*form, '<')) << "the text can be spelled";
    EXPECT_FALSE(allows(*form, start)) << text;
    EXPECT_FALSE(allows(*form, end)) << text;
  }
}

// The words between two calls are words of the first rule, in a repetition of it.
TEST(GrammarAnswersTest, WordsBetweenCallsMayBeSpecialTokens) {
  ChatFixture f;
  const Grammar digits = took(compile_regex("[0-9<>|a-z_]+"));
  const DemandedCalls demanded{.calls = {{{.words = "<|im_start|>", .grammar = digits}}}, .several = true,
                               .separator = ","};
  const auto calls = f.engine->constraints().make(took(compile_calls(demanded)))->clone();
  const auto allowed = [&](TokenId id) {
    TokenMask mask(f.tokenizer->vocab_size());
    calls->allowed(mask);
    return mask.has(id);
  };
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(allowed(f.tokenizer->im_start)) << call;
    calls->push(f.tokenizer->im_start);
    ASSERT_TRUE(allowed('7'));
    calls->push('7');
    EXPECT_FALSE(allowed(f.tokenizer->im_start)) << "within what the call has";
    calls->push(',');
  }
}

}  // namespace
}  // namespace ibid
