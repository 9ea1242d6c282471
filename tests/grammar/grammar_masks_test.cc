// Masks found by walking the vocabulary's trie equal those of the reference, which reads every token byte by byte, and
// do not depend on earlier calls.
#include <gtest/gtest.h>

#include <optional>
#include <random>

#include "grammar/byte_automaton.h"
#include "grammar/grammar_constraint.h"
#include "tests/grammar/grammar_twin.h"
#include "tests/grammar/random_grammar.h"

namespace ibid {
namespace {

std::vector<TokenId> ids_of(const TokenMask& mask) {
  std::vector<TokenId> out;
  for (size_t i = 0; i < mask.vocab_size(); ++i) {
    if (mask.has(static_cast<TokenId>(i))) out.push_back(static_cast<TokenId>(i));
  }
  return out;
}

std::vector<TokenId> allowed_by(const TokenConstraint& constraint, size_t vocab_size) {
  TokenMask mask(vocab_size);
  constraint.allowed(mask);
  EXPECT_TRUE(constraint.status().ok()) << constraint.status().to_string();
  return ids_of(mask);
}

std::vector<TokenId> allowed_by_twin(const ReferenceMatcher& twin, const TokenTexts& vocabulary, bool in_front) {
  std::vector<TokenId> out;
  for (size_t i = 0; i < vocabulary.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view bytes = in_front ? vocabulary.first_bytes(id) : vocabulary.bytes(id);
    if (bytes.empty() ||
        vocabulary.special_tokens().tokens.end() != std::ranges::find(vocabulary.special_tokens().tokens, id)) {
      continue;
    }
    ReferenceMatcher one = twin;
    if (one.read(bytes)) out.push_back(id);
  }
  return out;
}

// Compiles a grammar even if no text matches it, because the reference accepts such grammars too.
std::optional<Grammar> compiled(const GrammarRules& rules) {
  Result<Grammar> grammar = make_grammar(rules, "random");
  if (!grammar.ok()) return std::nullopt;
  return *grammar;
}

TEST(GrammarMasksTest, MasksOfRandomGrammarsMatchTheReference) {
  size_t n_compared = 0, n_grammars = 0;
  for (uint64_t seed = 0; seed < 120; ++seed) {
    SCOPED_TRACE(seed);
    RandomGrammar random(seed);
    const std::optional<Grammar> grammar = compiled(random.rules());
    if (!grammar) continue;  // left-recursive, because a rule before it may be empty
    ++n_grammars;
    const auto vocabulary = std::make_shared<const TokenTexts>(random.vocabulary());
    const auto prototype = make_constraint(*grammar, vocabulary);
    for (int run = 0; run < 3; ++run) {
      const auto constraint = prototype->clone();
      ReferenceMatcher twin(random.rules());
      for (int length = 0; length < 10 && twin.n_stacks() < 300; ++length) {
        const auto allowed = allowed_by(*constraint, vocabulary->size());
        ASSERT_EQ(allowed, allowed_by_twin(twin, *vocabulary, length == 0));
        ASSERT_EQ(constraint->may_end(), twin.may_end());
        ++n_compared;
        if (allowed.empty()) break;
        const TokenId id = allowed[random.pick(allowed.size())];
        constraint->push(id);
        ASSERT_TRUE(twin.read(length == 0 ? vocabulary->first_bytes(id) : vocabulary->bytes(id)));
      }
    }
  }
  EXPECT_GT(n_grammars, 60u);
  EXPECT_GT(n_compared, 900u);
}

// The reference enumerates characters, so large sets are compared with masks of Configurations, byte by byte.
TEST(GrammarMasksTest, MasksOfLargeCharacterSetsMatchTheReferenceByteByByte) {
  size_t n_compared = 0, n_walked = 0, n_nodes = 0;
  for (uint64_t seed = 5000; seed < 5150; ++seed) {
    SCOPED_TRACE(seed);
    RandomGrammar random(seed, true);
    const std::optional<Grammar> grammar = compiled(random.rules());
    if (!grammar) continue;
    const auto vocabulary = std::make_shared<const TokenTexts>(random.wide_vocabulary());
    const auto prototype = make_constraint(*grammar, vocabulary);
    for (int run = 0; run < 2; ++run) {
      const auto constraint = prototype->clone();
      Configurations configs(grammar->parts().automaton, {});
      const auto after = [&](ConfigId config, TokenId id) {
        for (const char c : vocabulary->bytes(id)) config = configs.step(config, static_cast<uint8_t>(c));
        return config;
      };
      ConfigId config = configs.start();
      for (int length = 0; length < 25; ++length) {
        const auto allowed = allowed_by(*constraint, vocabulary->size());
        std::vector<TokenId> expected;
        for (TokenId id = 0; id < static_cast<TokenId>(vocabulary->size()); ++id) {
          if (after(config, id) != Configurations::kDead) expected.push_back(id);
        }
        ASSERT_EQ(allowed, expected) << length;
        ASSERT_EQ(constraint->may_end(), configs.may_end(config));
        ++n_compared;
        n_nodes += vocabulary->short_tokens().n_nodes() + vocabulary->long_tokens().n_nodes();
        if (allowed.empty()) break;
        const TokenId id = allowed[random.pick(allowed.size())];
        constraint->push(id);
        config = after(config, id);
      }
    }
    n_walked += static_cast<const GrammarConstraint&>(*prototype).matcher()->counters().n_nodes_walked;
  }
  EXPECT_GT(n_compared, 1000u);
  EXPECT_LT(n_walked, n_nodes / 2);
}

TEST(GrammarMasksTest, EveryReachableStateAllowsATokenOrTheEnd) {
  for (uint64_t seed = 1000; seed < 1200; ++seed) {
    SCOPED_TRACE(seed);
    RandomGrammar random(seed);
    const std::optional<Grammar> grammar = compiled(random.rules());
    if (!grammar) continue;
    const auto vocabulary = std::make_shared<const TokenTexts>(random.vocabulary());
    const auto constraint = make_constraint(*grammar, vocabulary)->clone();
    for (int length = 0; length < 20; ++length) {
      const auto allowed = allowed_by(*constraint, vocabulary->size());
      ASSERT_TRUE(!allowed.empty() || constraint->may_end());
      if (allowed.empty()) break;
      constraint->push(allowed[random.pick(allowed.size())]);
    }
  }
}

// With little memory all configurations are dropped again and again; the masks must stay the same.
TEST(GrammarMasksTest, LowMemoryDoesNotChangeMasks) {
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    RandomGrammar random(seed);
    const std::optional<Grammar> grammar = compiled(random.rules());
    if (!grammar) continue;
    const auto vocabulary = std::make_shared<const TokenTexts>(random.vocabulary());
    const auto roomy = make_constraint(*grammar, vocabulary)->clone();
    const auto tight = make_constraint(*grammar, vocabulary, {.max_bytes = 400'000})->clone();
    auto fork = tight->clone();
    for (int length = 0; length < 30; ++length) {
      const auto allowed = allowed_by(*roomy, vocabulary->size());
      ASSERT_EQ(allowed, allowed_by(*tight, vocabulary->size()));
      ASSERT_EQ(roomy->may_end(), tight->may_end());
      if (length % 3 == 0) fork = tight->clone();
      if (allowed.empty()) break;
      const TokenId id = allowed[random.pick(allowed.size())];
      for (TokenConstraint* constraint : {roomy.get(), tight.get()}) constraint->push(id);
      if (length % 3 == 0) {
        fork->push(id);
        ASSERT_EQ(allowed_by(*fork, vocabulary->size()), allowed_by(*roomy, vocabulary->size()));
      }
    }
  }
}

std::shared_ptr<const TokenTexts> bytes_and(const std::vector<std::string>& words,
                                            const std::vector<std::string>& special = {}) {
  std::vector<TokenTexts::Token> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back({std::string(1, static_cast<char>(byte)), "", false});
  for (const std::string& word : words) tokens.push_back({word, "", false});
  for (const std::string& word : special) tokens.push_back({word, "", true});
  return std::make_shared<const TokenTexts>(std::move(tokens));
}

// When the memory is used up, the current configuration is kept: the text is not read again.
TEST(GrammarMasksTest, FullCacheDoesNotCauseTheTextToBeParsedAgain) {
  const std::string text(20'000, 'x');
  const auto vocabulary = bytes_and({});
  const auto constraint = make_constraint(*compile_choices({text}), vocabulary, {.max_bytes = 400'000})->clone();
  for (const char c : text) {
    ASSERT_EQ(allowed_by(*constraint, 256), std::vector<TokenId>{c});
    constraint->push(static_cast<TokenId>(c));
  }
  EXPECT_TRUE(constraint->may_end());
  const auto counters = static_cast<const GrammarConstraint&>(*constraint).matcher()->counters();
  EXPECT_GT(counters.n_generations, 5u);
  EXPECT_LT(counters.n_steps_computed, 5 * text.size());
}

TEST(GrammarMasksTest, DeepNestingIsAnError) {
  const Grammar json = *compile_any_json(AnyJson::kValue);
  const auto constraint = make_constraint(json, bytes_and({}), {.max_bytes = 1'000'000})->clone();
  Status status;
  for (int depth = 0; depth < 100'000 && status.ok(); ++depth) {
    constraint->push('[');
    if (depth % 1000 != 0) continue;
    TokenMask mask(256);
    constraint->allowed(mask);
    status = constraint->status();
    EXPECT_EQ(status.ok(), mask.has(']'));
  }
  EXPECT_EQ(status.code(), ErrorCode::kLimitExceeded);
}

TEST(GrammarMasksTest, NoTokenIsAllowedAfterAForbiddenToken) {
  const auto constraint = make_constraint(*compile_choices({"yes", "no"}), bytes_and({}))->clone();
  constraint->push('x');
  EXPECT_TRUE(allowed_by(*constraint, 256).empty());
  EXPECT_FALSE(constraint->may_end());
}

// Parts of the trie that stay inside of a string are not walked, whether or not its length is limited. A rule's part of
// a mask is cached for all callers, so a second string costs only the tokens that extend beyond it.
TEST(GrammarMasksTest, TrieNodesInsideStringsAreNotVisited) {
  std::vector<std::string> words;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) {
      words.push_back({a, b});
      words.push_back({a, b, 'x', 'y', 'z'});
    }
  }
  const Grammar json = *compile_any_json(AnyJson::kValue);
  const auto constraint = make_constraint(json, bytes_and(words))->clone();
  const auto& matcher = static_cast<const GrammarConstraint&>(*constraint).matcher();
  const auto cost_behind = [&](const std::string& text) {
    for (const char c : text) constraint->push(static_cast<TokenId>(static_cast<uint8_t>(c)));
    const size_t before = matcher->counters().n_nodes_walked;
    allowed_by(*constraint, 256 + words.size());
    return matcher->counters().n_nodes_walked - before;
  };
  const size_t first = cost_behind("{\"a\":\"");
  EXPECT_LE(first, 2u * 256) << "the first bytes of tokens, for two items";
  EXPECT_LT(cost_behind("b"), first / 4);
  EXPECT_LT(cost_behind("b\",\"c\":[{\"d\":[\""), first / 4) << "another stack below";
}

TEST(GrammarMasksTest, TrieIsVisitedOnceForAStringOfLimitedLength) {
  std::vector<std::string> words;
  for (char a = 'a'; a <= 'z'; ++a) {
    for (char b = 'a'; b <= 'z'; ++b) words.push_back({a, b, 'x', 'y', 'z'});
  }
  const auto vocabulary = bytes_and(words);
  const Grammar grammar =
      *compile_json_schema(R"({"properties": {"a": {"type": "string", "minLength": 3, "maxLength": 200}},
                               "required": ["a"], "additionalProperties": false, "type": "object"})");
  const auto constraint = make_constraint(grammar, vocabulary)->clone();
  for (const char c : std::string("{\"a\":\"")) constraint->push(static_cast<TokenId>(static_cast<uint8_t>(c)));
  const auto& matcher = static_cast<const GrammarConstraint&>(*constraint).matcher();
  const size_t before = matcher->counters().n_nodes_walked;
  for (int i = 0; i < 180; ++i) {
    allowed_by(*constraint, vocabulary->size());
    constraint->push('a');
  }
  const size_t n_nodes = vocabulary->short_tokens().n_nodes();
  EXPECT_LT(matcher->counters().n_nodes_walked - before, 6 * n_nodes) << "of 180 masks";
}

// References to tokens as llama.cpp reads them: a token as a whole, and any other token, special ones included.
TEST(GrammarMasksTest, ReferencesToTokensAllowTheseTokens) {
  const auto vocabulary = bytes_and({"ab", "<b>"}, {"<think>", "</think>"});
  constexpr TokenId kAb = 256, kBold = 257, kThink = 258, kEnd = 259;
  const auto after = [&](const std::string& gbnf, const Tokens& ids) {
    const auto constraint = make_constraint(*compile_gbnf(gbnf), vocabulary)->clone();
    for (const TokenId id : ids) constraint->push(id);
    auto out = allowed_by(*constraint, vocabulary->size());
    if (constraint->may_end()) out.push_back(-1);
    return out;
  };
  using Ids = std::vector<TokenId>;
  const std::string thoughts = "root ::= <think> (!</think>)* </think> \"a\" .*";
  EXPECT_EQ(after(thoughts, {}), Ids{kThink});
  EXPECT_EQ(after(thoughts, {kThink}).size(), vocabulary->size());
  EXPECT_EQ(after(thoughts, {kThink, 'x', kThink, kEnd}), (Ids{'a', kAb}));
  const Ids in_text = after(thoughts, {kThink, kEnd, 'a'});
  EXPECT_EQ(std::ranges::count(in_text, kThink) + std::ranges::count(in_text, kEnd), 0) << "special tokens in .*";
  EXPECT_EQ(std::ranges::count(in_text, -1), 1);
  EXPECT_EQ(after("root ::= <[97]> \"b\" | <[256]>", {}), (Ids{'a', kAb}));
  EXPECT_EQ(after("root ::= <[97]> \"b\" | <[256]>", {'a'}), Ids{'b'});
  EXPECT_EQ(after("root ::= <b>{2}", {kBold}), Ids{kBold});
  EXPECT_EQ(after("root ::= \"a\" (<b> | \"b\")", {'a'}), (Ids{'b', kBold}));
  EXPECT_EQ(after("root ::= \"a\" <b>", {kAb}), Ids{}) << "a reference is not the text of the token";
  EXPECT_EQ(match_text(*compile_gbnf("root ::= <[97]>"), "a").status().code(), ErrorCode::kUnsupported);
}

TEST(GrammarMasksTest, ReferencesToMissingTokensAreErrors) {
  const auto vocabulary = bytes_and({});
  for (const std::string reference : {"<[256]>", "<[99999999999999999999]>", "<[]>", "<none>", "<>"}) {
    const Grammar grammar = *compile_gbnf("root ::= !" + reference + " \"a\"");
    const Status status = check_references(grammar, *vocabulary);
    EXPECT_EQ(status.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(status.message().find(reference), std::string::npos) << status.message();
    const auto constraint = make_constraint(grammar, vocabulary)->clone();
    TokenMask mask(256);
    constraint->allowed(mask);
    EXPECT_EQ(constraint->status().message(), status.message());
    EXPECT_TRUE(ids_of(mask).empty());
  }
}

}  // namespace
}  // namespace ibid
