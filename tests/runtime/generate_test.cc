// The generation loop on FakeModel: the tokens that are fed, the ends of an answer, and the entry after failures in any
// layer of any pass.
#include "runtime/generate/answer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "base/utf8.h"
#include "tests/runtime/generating.h"
#include "tests/support/fake_model.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/manual_clock.h"

namespace ibid {
namespace {

// One model, one entry, and the arguments of a call.
struct Generating {
  explicit Generating(const FakeModel::Options& options = {}) : model(options) {}

  Result<Generated> run(TokenSpan prompt, GenerateRequest request = {.max_tokens = 16}) {
    request.prompt.assign(prompt.begin(), prompt.end());
    request.prompt_begin = entry.length();
    if (request.stop_ids.empty()) request.stop_ids = tokenizer.end_of_turn();
    Result<Sampler> sampler = Sampler::create({.temperature = 0});
    Result<StopDetector> stops = StopDetector::create(stop_strings);
    Ran ran = run_answer(*scheduler, tokenizer, entry, std::move(request), *std::move(sampler), *std::move(stops),
                         clock, told);
    timings += ran.progress.timings;
    work += ran.progress.work;
    return std::move(ran.result);
  }

  // From now on the model samples `reply` and then ends its turn.
  void say(Tokens reply) {
    const size_t begin = entry.length();
    model.script = [this, begin, reply = std::move(reply)](TokenSpan prefix) -> std::optional<TokenId> {
      const size_t said = prefix.size() - begin - n_prompt;
      return said < reply.size() ? reply[said] : tokenizer.im_end;
    };
  }

  // Checks that the entry has `ids`, and that its rows are those of a cold pass over them.
  void expect_holds(const Tokens& ids) {
    ASSERT_EQ(Tokens(entry.tokens().begin(), entry.tokens().end()), ids);
    if (ids.empty()) return;
    FakeModel cold({.max_chunk = ids.size()});
    KvCacheEntry replayed(pool);
    Logits unused;
    const SequenceChunk all{&replayed, ids, WantLogits::kNone};
    ASSERT_TRUE(cold.forward({&all, 1}, {}, unused).ok());
    EXPECT_EQ(FakeModel::rows_of(entry), FakeModel::rows_of(replayed));
  }

  FakeTokenizer tokenizer;
  FakeModel model;
  KvPagePool pool{model.kv_layout(), 64u << 20};
  KvCacheEntry entry{pool};
  ManualClock clock;
  std::unique_ptr<Scheduler> scheduler = Scheduler::create(model, clock).value();
  Told told;
  Timings timings;
  WorkCounters work;
  std::vector<std::string> stop_strings;
  size_t n_prompt = 1;  // tokens prefilled before say()'s reply
};

Tokens plain_ids(size_t n) {
  Tokens ids;
  for (size_t i = 0; i < n; ++i) ids.push_back(static_cast<TokenId>('a' + i % 26));
  return ids;
}

Tokens joined(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// All but the last token, which is fed only when another follows.
Tokens fed_of(const Tokens& sampled) { return {sampled.begin(), sampled.empty() ? sampled.end() : sampled.end() - 1}; }

TEST(GenerateTest, PromptIsPrefilledInChunksWithLogitsOfLastRow) {
  Generating g({.max_chunk = 32});
  const Tokens prompt = plain_ids(70);
  g.n_prompt = prompt.size();
  g.say({});
  std::vector<std::pair<size_t, size_t>> progress;
  g.told.on_prefill = [&](size_t done, size_t total) { progress.emplace_back(done, total); };
  const auto out = g.run(prompt, {.max_tokens = 4});
  ASSERT_TRUE(out.ok()) << out.status().to_string();
  EXPECT_EQ(progress, (std::vector<std::pair<size_t, size_t>>{{32, 70}, {64, 70}, {70, 70}}));
  ASSERT_EQ(g.model.fed().size(), 3u);
  EXPECT_EQ(g.model.fed()[1].want, WantLogits::kNone);
  EXPECT_EQ(g.model.fed()[2].want, WantLogits::kLast);
  EXPECT_EQ(g.work.n_rows, 70u);
  g.expect_holds(prompt);
}

TEST(GenerateTest, EndOfTurnIsReportedAndNotPartOfReply) {
  Generating g;
  const Tokens reply = g.tokenizer.sampled({"Hello", " wor", "abc"});
  g.say(reply);
  const Tokens prompt = {'x'};
  const auto out = g.run(prompt);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->ids, reply);
  EXPECT_EQ(out->text, "Hello worabc");
  EXPECT_EQ(out->text_ends, (std::vector<size_t>{5, 9, 12}));
  EXPECT_EQ(out->end_of_turn, g.tokenizer.im_end);
  EXPECT_EQ(out->finish_reason, FinishReason::kStop);
  EXPECT_EQ(out->n_sampled, 4u);
  g.expect_holds(joined(prompt, reply));
}

TEST(GenerateTest, AnswerContinuesAfterTheTokensOfTheEntry) {
  Generating g;
  const Tokens first = {'x'}, second = {'y', 'z'};
  g.say({'a', 'b'});
  ASSERT_TRUE(g.run(first).ok());
  g.n_prompt = second.size();
  g.say({'c'});
  g.model.take_fed();
  const auto out = g.run(second);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->text, "c");
  EXPECT_EQ(g.model.take_fed(), (Tokens{'y', 'z', 'c'}));
  g.expect_holds({'x', 'a', 'b', 'y', 'z', 'c'});
}

TEST(GenerateTest, MaxTokensCountsSampledTokens) {
  for (size_t n = 1; n <= 5; ++n) {
    Generating g;
    const Tokens reply = {'a', 'b', 'c', 'd'};
    g.say(reply);
    const auto out = g.run(Tokens{'x'}, {.max_tokens = n});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->n_sampled, n);
    EXPECT_EQ(out->ids.size(), std::min<size_t>(n, 4));
    EXPECT_EQ(out->finish_reason, n <= 4 ? FinishReason::kLength : FinishReason::kStop);
    EXPECT_EQ(out->end_of_turn.has_value(), n == 5);
    g.expect_holds(joined({'x'}, n <= 4 ? fed_of(out->ids) : reply));
  }
}

TEST(GenerateTest, StopRepetitionEndsRepetitiveAnswer) {
  Tokens reply = {'x', 'y'};
  for (int i = 0; i < 300; ++i) reply.insert(reply.end(), {'a', 'b', 'c'});
  for (const bool wanted : {false, true}) {
    Generating g;
    g.say(reply);
    const auto out = g.run(Tokens{'x'}, {.max_tokens = 2000, .stop_repetition = wanted});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->finish_reason, wanted ? FinishReason::kRepetition : FinishReason::kStop);
    EXPECT_EQ(out->ids.size(), wanted ? 2 + 258 : reply.size()) << "whole spans, at least 256 tokens";
    EXPECT_EQ(out->text.size(), out->ids.size()) << "it keeps its text";
    EXPECT_EQ(out->end_of_turn.has_value(), !wanted);
    g.expect_holds(joined({'x'}, wanted ? fed_of(out->ids) : reply));
  }
  EXPECT_EQ(finish_reason_name(FinishReason::kRepetition), "repetition");
}

// A model that always ends its turn at once.
struct Eager : Generating {
  Eager() { say({}); }
};

TEST(GenerateTest, MinTokensDelaysTheEndOfTheAnswer) {
  for (size_t n = 0; n <= 6; ++n) {
    Eager g;
    const auto out = g.run(Tokens{'x'}, {.max_tokens = 16, .min_tokens = n});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(out->ids.size(), n) << "then it ends, because the end is still the most likely";
    EXPECT_EQ(out->end_of_turn, g.tokenizer.im_end);
    for (const TokenId id : out->ids) {
      EXPECT_EQ(std::count(g.tokenizer.end_of_turn().begin(), g.tokenizer.end_of_turn().end(), id), 0);
    }
  }
}

TEST(GenerateTest, MinTokensSamplesTheMostLikelyTokenExceptEndTokens) {
  Eager held, banned;
  const auto out = held.run(Tokens{'x'}, {.max_tokens = 5, .min_tokens = 5});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->finish_reason, FinishReason::kLength);
  banned.model.change_logits = [&](TokenSpan, std::span<float> row) {
    for (const TokenId id : banned.tokenizer.end_of_turn()) {
      row[static_cast<size_t>(id)] = -std::numeric_limits<float>::infinity();
    }
  };
  const auto expected = banned.run(Tokens{'x'}, {.max_tokens = 5});
  ASSERT_TRUE(expected.ok());
  EXPECT_EQ(out->ids, expected->ids);
}

TEST(GenerateTest, AnswerWithoutEndStopsAtMaxTokens) {
  Eager g;
  const auto out = g.run(Tokens{'x'}, {.max_tokens = 200, .min_tokens = SIZE_MAX});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->ids.size(), 200u);
  EXPECT_EQ(out->finish_reason, FinishReason::kLength);
}

TEST(GenerateTest, MinTokensDoesNotDelayMaxTokensOrStopStrings) {
  Eager long_wait;
  const auto cut = long_wait.run(Tokens{'x'}, {.max_tokens = 3, .min_tokens = 10});
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->n_sampled, 3u);
  EXPECT_EQ(cut->finish_reason, FinishReason::kLength);

  Generating g;
  g.say({'a', 'b', 'c'});
  g.stop_strings = {"bc"};
  const auto stopped = g.run(Tokens{'x'}, {.max_tokens = 16, .min_tokens = 10});
  ASSERT_TRUE(stopped.ok());
  EXPECT_EQ(stopped->finish_reason, FinishReason::kStopString);
  EXPECT_EQ(stopped->text, "a");
}

TEST(GenerateTest, StopStringAcrossTokensKeepsWholeTokensBeforeTheString) {
  Generating g;
  const Tokens reply = g.tokenizer.sampled({"Hello", "abc", "d", " world"});
  g.say(reply);
  g.stop_strings = {"cd"};
  std::string shown;
  g.told.on_text = [&](std::string_view text) { shown += text; };
  const auto out = g.run(Tokens{'x'}, {.max_tokens = 16});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->finish_reason, FinishReason::kStopString);
  EXPECT_EQ(out->stop_string, "cd");
  EXPECT_EQ(out->text, "Helloab");
  EXPECT_EQ(shown, out->text);
  EXPECT_EQ(out->ids, g.tokenizer.sampled({"Hello"})) << "a token that overlaps it is dropped";
  EXPECT_EQ(out->text_ends, std::vector<size_t>{5});
  EXPECT_EQ(out->n_sampled, 3u);
  EXPECT_FALSE(out->end_of_turn.has_value());
}

TEST(GenerateTest, TextIsEmittedInWholeCharactersAndACutCharacterIsReplaced) {
  const std::string text = "a\u00e9\u65e5\U0001F600";
  for (size_t n = 1; n <= text.size(); ++n) {
    Generating g;
    Tokens bytes;
    for (const char c : text) bytes.push_back(static_cast<unsigned char>(c));
    g.say(bytes);
    std::string shown;
    g.told.on_text = [&](std::string_view piece) {
      EXPECT_FALSE(piece.empty());
      EXPECT_TRUE(utf8_is_valid(piece));
      shown += piece;
    };
    const auto out = g.run(Tokens{'x'}, {.max_tokens = n});
    ASSERT_TRUE(out.ok());
    EXPECT_EQ(shown, out->text);
    EXPECT_EQ(out->text, utf8_sanitize(text.substr(0, n)));
    ASSERT_EQ(out->text_ends.size(), n);
    EXPECT_TRUE(std::is_sorted(out->text_ends.begin(), out->text_ends.end()));
    EXPECT_EQ(out->text_ends.back(), out->text.size());
  }
}

TEST(GenerateTest, FullContextEndsAnswerAndTooLongPromptComputesNothing) {
  Generating g({.max_seq_len = 12});
  g.say(plain_ids(50));
  const Tokens prompt = plain_ids(10);
  g.n_prompt = prompt.size();
  const auto out = g.run(prompt, {.max_tokens = 50});
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->finish_reason, FinishReason::kLength);
  EXPECT_EQ(out->n_sampled, 3u) << "two are fed, the third has no position";
  EXPECT_EQ(g.entry.length(), 12u);

  Generating full({.max_seq_len = 12});
  const auto refused = full.run(plain_ids(13), {.max_tokens = 1});
  EXPECT_EQ(refused.status().code(), ErrorCode::kContextFull);
  EXPECT_NE(refused.status().message().find("13"), std::string::npos);
  EXPECT_NE(refused.status().message().find("12"), std::string::npos);
  EXPECT_EQ(full.model.n_calls(), 0u);
}

// Cancelled in every layer of every pass: before the first token an error, later the answer so far.
TEST(GenerateTest, CancelledAnswerLeavesComputedTokensInEntry) {
  const Tokens prompt = plain_ids(70);
  const Tokens reply = {'a', 'b', 'c'};
  const size_t n_prefills = 3;
  for (size_t pass = 0; pass < n_prefills + reply.size(); ++pass) {
    for (size_t layer = 0; layer < 2; ++layer) {
      Generating g({.max_chunk = 32});
      g.n_prompt = prompt.size();
      g.say(reply);
      std::stop_source source;
      g.model.before_layer = [&](size_t call, size_t at) {
        if (call == pass && at == layer) source.request_stop();
        return Status();
      };
      const auto out = g.run(prompt, {.max_tokens = 16, .stop = source.get_token()});
      if (pass < n_prefills) {
        EXPECT_EQ(out.status().code(), ErrorCode::kCancelled);
        g.expect_holds(Tokens(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(32 * pass)));
        continue;
      }
      ASSERT_TRUE(out.ok()) << out.status().to_string();
      EXPECT_EQ(out->finish_reason, FinishReason::kCancelled);
      EXPECT_EQ(out->ids, Tokens(reply.begin(), reply.begin() + static_cast<std::ptrdiff_t>(pass - n_prefills + 1)));
      g.expect_holds(joined(prompt, fed_of(out->ids)));
    }
  }
}

TEST(GenerateTest, CallThatIsStoppedBeforeItBeginsComputesNothing) {
  Generating g;
  std::stop_source source;
  source.request_stop();
  const auto out = g.run(Tokens{'x'}, {.max_tokens = 4, .stop = source.get_token()});
  EXPECT_EQ(out.status().code(), ErrorCode::kCancelled);
  EXPECT_EQ(g.model.n_calls(), 0u);
}

TEST(GenerateTest, ModelAndSamplerErrorsAreReturned) {
  Generating broken;
  broken.say({'a', 'b', 'c'});
  broken.model.before_layer = [](size_t call, size_t layer) {
    return call == 2 && layer == 1 ? Status(ErrorCode::kNonFinite, "broken") : Status();
  };
  EXPECT_EQ(broken.run(Tokens{'x'}).status().message(), "broken");
  broken.expect_holds({'x', 'a'});

  Generating nan;
  nan.model.change_logits = [](TokenSpan prefix, std::span<float> row) {
    if (prefix.size() == 3) row[7] = std::numeric_limits<float>::quiet_NaN();
  };
  nan.say({'a', 'b', 'c'});
  EXPECT_EQ(nan.run(Tokens{'x'}).status().code(), ErrorCode::kNonFinite);
  nan.expect_holds({'x', 'a', 'b'});
}

TEST(GenerateTest, TimeToFirstTokenCountsFromTheCall) {
  Generating g;
  g.say({'a'});
  g.clock.advance(5'000'000);
  g.model.before_layer = [&](size_t call, size_t) {
    g.clock.advance(call == 0 ? 1'000'000 : 10'000'000);
    return Status();
  };
  ASSERT_TRUE(g.run(Tokens{'x'}, {.max_tokens = 16, .start_ns = 2'000'000}).ok());
  EXPECT_DOUBLE_EQ(g.timings.prefill_ms, 2.0);
  EXPECT_DOUBLE_EQ(g.timings.ttft_ms, 5.0) << "three of them before the call to generate";
  EXPECT_DOUBLE_EQ(g.timings.decode_ms, 20.0);
}

}  // namespace
}  // namespace ibid
