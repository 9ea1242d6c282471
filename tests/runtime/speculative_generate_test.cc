// Speculation changes only the number of passes: the same tokens, text, events, random draws and rows, wherever a turn
// ends and whichever pass fails.
#include "runtime/generate/answer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "tests/runtime/generating.h"
#include "tests/support/fake_model.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/manual_clock.h"
#include "tests/support/same_bits.h"

namespace ibid {
namespace {

// Outcome of a run.
struct Outcome {
  Status status;
  Generated generation;
  std::vector<std::string> pieces;  // as emitted
  Tokens fed;                       // the entry's tokens
  std::vector<float> rows;          // and keys and values
  std::vector<float> next;          // logits after them
  uint64_t n_draws = 0;
  Tokens counted;  // tokens in the sampler's history
  size_t n_pages = 0;
  size_t peak_bytes = 0;
  size_t n_failed = 0;  // passes
  size_t end = 0;       // end of the fed positions, drafts included
  WorkCounters work;
};

// Recited repeatedly with mistakes, as speculation meets in a copy. The second text contains the stop token.
constexpr const char* kText = "abc the world is Hello ing the abcd user.\n And the lo world: ";
constexpr const char* kTextWithEnd = "abc the world is Hello ing the abcd <|im_end|>user.\n And the lo world: ";

struct Options {
  bool speculate = false;
  SamplerOptions sampler = {.temperature = 0};
  size_t max_tokens = 60;
  size_t min_tokens = 0;
  std::vector<std::string> stop_strings = {};
  size_t max_seq_len = 4096;
  size_t max_chunk = 32;
  size_t kv_budget_bytes = 1u << 20;
  const char* text = kText;
  float pull = 9;  // of the recited token; the others' logits are in -4 to 4
  size_t cancel_after_piece = SIZE_MAX;
  std::optional<size_t> fails_at;  // a pass, counted from the first one after the prompt
  bool cancels = false;            // ... is cancelled instead
  size_t layer = 0;                // the layer of that
  std::function<void(TokenSpan, std::span<float>)> change_logits = {};
  const TokenConstraint* constraint = nullptr;
  std::optional<size_t> n_logprobs = {};
};

class Story {
 public:
  explicit Story(const Options& options)
      : options_(options),
        model_({.max_seq_len = options.max_seq_len, .max_chunk = options.max_chunk}),
        pool_(model_.kv_layout(), options.kv_budget_bytes),
        prompt_(tokenizer_.template_ids(options.text)) {
    model_.change_logits = [this](TokenSpan prefix, std::span<float> row) {
      row[static_cast<size_t>(prompt_[prefix.size() % prompt_.size()])] += options_.pull;
      if (options_.change_logits) options_.change_logits(prefix, row);
    };
  }

  Outcome run() {
    Outcome out;
    KvCacheEntry entry(pool_);
    const std::unique_ptr<Scheduler> scheduler = Scheduler::create(model_, system_clock()).value();
    Drafter drafter;
    drafter.append(prompt_);
    std::stop_source source;
    fail_passes(source);
    GenerateRequest request;
    request.prompt = prompt_;
    request.max_tokens = options_.max_tokens;
    request.min_tokens = options_.min_tokens;
    request.stop_ids = {tokenizer_.im_end};
    request.stop = source.get_token();
    if (options_.speculate) request.drafter = &drafter;
    Told told;
    // Without a listener, an answer that is cancelled during a pass ends at its current token.
    if (!options_.cancels)
      told.on_text = [&](std::string_view text) {
        if (out.pieces.size() == options_.cancel_after_piece) source.request_stop();
        out.pieces.emplace_back(text);
      };
    request.constraint = options_.constraint;
    request.n_logprobs = options_.n_logprobs;
    Sampler sampler = *Sampler::create(options_.sampler);
    TokenHistory history;
    history.append(prompt_);
    sampler.begin_answer(std::move(history));
    ManualClock clock;
    Ran ran = run_answer(*scheduler, tokenizer_, entry, std::move(request), std::move(sampler),
                         *StopDetector::create(options_.stop_strings), clock, told);
    out.work = ran.progress.work;
    out.status = ran.result.status();
    if (ran.result.ok()) out.generation = *std::move(ran.result);
    out.fed.assign(entry.tokens().begin(), entry.tokens().end());
    out.rows = FakeModel::rows_of(entry);
    out.n_draws = ran.progress.n_draws;
    out.counted.assign(ran.history.ids().begin(), ran.history.ids().end());
    out.n_pages = entry.pages().size();
    out.peak_bytes = pool_.peak_bytes();
    out.n_failed = model_.n_calls() - model_.fed().size();
    // Pages and passes of an answer that ran ahead of its listener were rolled back.
    if (options_.cancel_after_piece != SIZE_MAX) out.peak_bytes = out.n_failed = 0;
    for (const FakeModel::Fed& fed : model_.fed()) {
      out.end = std::max(out.end, fed.position + fed.tokens.size());
      if (fed.position < prompt_.size()) continue;
      EXPECT_EQ(fed.position / kPagePositions, (fed.position + fed.tokens.size() - 1) / kPagePositions)
          << "a draft needs a page that the token before it does not";
    }
    model_.before_layer = nullptr;
    if (entry.length() < options_.max_seq_len) out.next = logits_after(entry);
    return out;
  }

 private:
  void fail_passes(std::stop_source& source) {
    if (!options_.fails_at) return;
    const size_t n_prefill = (prompt_.size() + options_.max_chunk - 1) / options_.max_chunk;
    model_.before_layer = [this, &source, n_prefill](size_t call, size_t layer) {
      if (call != n_prefill + *options_.fails_at || layer != options_.layer) return Status();
      if (!options_.cancels) return Status(ErrorCode::kOutOfMemory, "injected");
      source.request_stop();
      return Status();
    };
  }

  std::vector<float> logits_after(const KvCacheEntry& entry) {
    FakeModel other({.max_seq_len = options_.max_seq_len});  // sees only the rows
    const TokenId id = 65;
    KvCacheEntry fork = entry.fork().value();
    Logits logits;
    const SequenceChunk chunk{&fork, {&id, 1}, WantLogits::kLast};
    if (!other.forward({&chunk, 1}, {}, logits).ok()) return {};
    return {logits.row(0).begin(), logits.row(0).end()};
  }

  Options options_;
  FakeModel model_;
  KvPagePool pool_;
  FakeTokenizer tokenizer_;
  Tokens prompt_;
};

Outcome run(Options options, bool speculate) {
  options.speculate = speculate;
  return Story(options).run();
}

void expect_same(const Outcome& on, const Outcome& off) {
  EXPECT_EQ(on.status.code(), off.status.code()) << on.status.to_string() << " / " << off.status.to_string();
  const Generated &a = on.generation, &b = off.generation;
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.text_ends, b.text_ends);
  EXPECT_EQ(a.logprobs, b.logprobs);
  EXPECT_EQ(a.text, b.text);
  EXPECT_EQ(a.end_of_turn, b.end_of_turn);
  EXPECT_EQ(a.stop_string, b.stop_string);
  EXPECT_EQ(a.finish_reason, b.finish_reason);
  EXPECT_EQ(a.n_sampled, b.n_sampled);
  EXPECT_EQ(on.pieces, off.pieces);
  EXPECT_EQ(on.n_draws, off.n_draws);
  EXPECT_EQ(on.fed, off.fed);
  EXPECT_EQ(on.counted, off.counted);
  EXPECT_TRUE(same_bits(on.rows, off.rows));
  EXPECT_TRUE(same_bits(on.next, off.next));
  EXPECT_EQ(on.n_pages, off.n_pages);
  EXPECT_EQ(on.peak_bytes, off.peak_bytes) << "a draft took a page";
  EXPECT_EQ(b.n_drafted, 0u);
  EXPECT_LE(a.n_accepted, a.n_drafted);
}

// Runs both sides and returns the one with drafts.
Outcome compared(const Options& options) {
  Outcome on = run(options, true);
  const Outcome off = run(options, false);
  expect_same(on, off);
  // If the token itself finds no memory, it was tried once with its draft.
  EXPECT_LE(on.n_failed, off.n_failed + (off.status.ok() ? 0 : 1)) << "a draft needed more memory than its token";
  return on;
}

SamplerOptions sampled(uint64_t seed) { return {.temperature = 1.0, .top_p = 0.95, .min_p = 0.01, .seed = seed}; }

TEST(SpeculativeGenerateTest, DraftsGiveTheSameGreedyAnswerInFewerPasses) {
  const Outcome on = compared({.max_tokens = 200, .pull = 20});
  const Outcome off = run({.max_tokens = 200, .pull = 20}, false);
  EXPECT_EQ(on.generation.ids.size(), off.generation.ids.size());
  EXPECT_EQ(on.work.n_forward + on.generation.n_accepted, off.work.n_forward) << "one pass less per accepted draft";
  EXPECT_EQ(on.work.n_rows, off.work.n_rows + on.generation.n_drafted - on.generation.n_accepted);
}

TEST(SpeculativeGenerateTest, CopyingATextTakesAtMostAQuarterOfThePasses) {
  const Outcome on = compared({.max_tokens = 300, .pull = 20});
  EXPECT_EQ(on.generation.n_sampled, 300u);
  EXPECT_GE(300.0 / static_cast<double>(on.work.n_forward), 4.0);
}

TEST(SpeculativeGenerateTest, DraftsGiveTheSameSampledAnswerForEverySeed) {
  size_t n_accepted = 0, n_rejected = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome on = compared({.sampler = sampled(seed), .max_tokens = 150});
    n_accepted += on.generation.n_accepted;
    n_rejected += on.generation.n_drafted - on.generation.n_accepted;
  }
  EXPECT_GT(n_accepted, 200u);
  EXPECT_GT(n_rejected, 100u);
}

// All penalties and all truncations.
SamplerOptions everything(uint64_t seed) {
  return {.temperature = 1.0,
          .top_k = 100,
          .top_p = 0.98,
          .min_p = 0.01,
          .seed = seed,
          .typical_p = 0.98,
          .xtc_probability = 0.1,
          .xtc_threshold = 0.1,
          .repetition_penalty = 1.1,
          .repetition_window = 40,
          .frequency_penalty = 0.1,
          .presence_penalty = 0.1,
          .dry_multiplier = 0.1,
          .dry_base = 1.1,
          .dry_window = 100,
          .dry_breakers = {'\n'},
          .logit_bias = {{'a', 2.0}, {'b', -3}}};
}

TEST(SpeculativeGenerateTest, DraftsGiveTheSameAnswerForAllSamplerOptions) {
  size_t n_accepted = 0, n_rejected = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome on = compared({.sampler = everything(seed), .max_tokens = 150, .pull = 13, .n_logprobs = 3});
    EXPECT_EQ(on.generation.logprobs.size(), on.generation.ids.size());
    EXPECT_TRUE(std::equal(on.fed.begin(), on.fed.end(), on.counted.begin())) << "all tokens, in order";
    EXPECT_EQ(on.counted.size(), FakeTokenizer().template_ids(kText).size() + on.generation.n_sampled);
    n_accepted += on.generation.n_accepted;
    n_rejected += on.generation.n_drafted - on.generation.n_accepted;
  }
  EXPECT_GT(n_accepted, 200u);
  EXPECT_GT(n_rejected, 100u);
}

// Single bytes, and never two capitals in a row.
class NoTwoCapitals : public TokenConstraint {
 public:
  void allowed(TokenMask& mask) const override {
    for (TokenId id = 0; id < 256; ++id) {
      if (!was_capital_ || !is_capital(id)) mask.add(id);
    }
  }
  bool may_end() const override { return !was_capital_; }
  void push(TokenId id) override { was_capital_ = is_capital(id); }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<NoTwoCapitals>(*this); }

 private:
  static bool is_capital(TokenId id) { return id >= 'A' && id <= 'Z'; }
  bool was_capital_ = false;
};

TEST(SpeculativeGenerateTest, DraftsGiveTheSameConstrainedAnswerForEverySeed) {
  const NoTwoCapitals constraint;
  size_t n_accepted = 0;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const Outcome on = compared(
        {.sampler = sampled(seed), .max_tokens = 120, .min_tokens = 20, .pull = 14, .constraint = &constraint});
    for (size_t i = 1; i < on.generation.ids.size(); ++i) {
      const TokenId a = on.generation.ids[i - 1], b = on.generation.ids[i];
      EXPECT_LT(b, 256);
      EXPECT_FALSE(a >= 'A' && a <= 'Z' && b >= 'A' && b <= 'Z');
    }
    n_accepted += on.generation.n_accepted;
  }
  EXPECT_GT(n_accepted, 100u);
}

TEST(SpeculativeGenerateTest, DraftsGiveTheSameAnswerForAnyLengthLimit) {
  const size_t n_prompt = FakeTokenizer().template_ids(kText).size();
  size_t cut_drafts = 0;
  for (size_t max_tokens = 1; max_tokens <= 90; ++max_tokens) {
    SCOPED_TRACE(max_tokens);
    const Outcome on = compared({.sampler = sampled(3), .max_tokens = max_tokens, .pull = 14});
    cut_drafts += on.generation.n_accepted > 0 ? 1 : 0;
    EXPECT_LE(on.generation.n_sampled, max_tokens);
    EXPECT_LE(on.end, n_prompt + max_tokens - 1) << "a draft exceeds the tokens that could be fed";
  }
  EXPECT_GT(cut_drafts, 20u);
}

TEST(SpeculativeGenerateTest, DraftsGiveTheSameAnswerForAnyContextLength) {
  for (size_t max_seq_len = 60; max_seq_len <= 150; ++max_seq_len) {
    SCOPED_TRACE(max_seq_len);
    const Outcome on = compared({.max_tokens = SIZE_MAX, .max_seq_len = max_seq_len, .pull = 20});
    if (!on.status.ok()) continue;  // the prompt is longer
    EXPECT_LE(on.fed.size(), max_seq_len);
  }
}

TEST(SpeculativeGenerateTest, DraftsGiveTheSameAnswerForAnyChunkSize) {
  for (const size_t max_chunk : {1, 2, 3, 8}) {
    SCOPED_TRACE(max_chunk);
    const Outcome on = compared({.sampler = sampled(1), .max_tokens = 100, .max_chunk = max_chunk, .pull = 14});
    EXPECT_EQ(on.generation.n_drafted > 0, max_chunk > 1);
  }
}

// Stop strings end a turn inside an accepted draft, also when a token overlaps them.
TEST(SpeculativeGenerateTest, StopStringInsideADraftEndsTheAnswer) {
  size_t n_inside = 0;
  for (const char* stop : {"is H", "lo world", "e w", "llo", "user.\n A", "d: ab", "abcd u"}) {
    for (uint64_t seed = 0; seed < 8; ++seed) {
      SCOPED_TRACE(std::string(stop) + " seed " + std::to_string(seed));
      const Outcome on = compared({.sampler = sampled(seed), .max_tokens = 120, .stop_strings = {stop}, .pull = 14});
      const bool found = on.generation.finish_reason == FinishReason::kStopString;
      n_inside += found && on.generation.n_accepted > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(n_inside, 10u);
}

// The text contains an end of turn: it is not drafted, and ends the copy when sampled.
TEST(SpeculativeGenerateTest, EndOfTurnIsNotDraftedAndEndsACopiedText) {
  const Outcome on = compared({.max_tokens = 100, .text = kTextWithEnd, .pull = 20});
  EXPECT_EQ(on.generation.finish_reason, FinishReason::kStop);
  EXPECT_GT(on.generation.n_accepted, 0u);
  const Outcome longer = compared({.max_tokens = 100, .min_tokens = 60, .text = kTextWithEnd, .pull = 20});
  EXPECT_GE(longer.generation.n_sampled, 60u);
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const size_t min_tokens = 30 + seed;
    compared({.sampler = sampled(seed), .max_tokens = 100, .min_tokens = min_tokens, .text = kTextWithEnd, .pull = 14});
  }
}

TEST(SpeculativeGenerateTest, CancelAfterAnyPieceGivesTheSameAnswerWithDrafts) {
  for (const bool greedy : {true, false}) {
    for (size_t piece = 0; piece < 70; ++piece) {
      SCOPED_TRACE(piece);
      Options options{.max_tokens = 70, .pull = 16, .cancel_after_piece = piece};
      if (!greedy) options.sampler = sampled(9);
      const Outcome on = compared(options);
      if (piece > 0 && on.pieces.size() == piece + 1 && on.generation.n_sampled < 70 && !on.generation.end_of_turn) {
        EXPECT_EQ(on.generation.finish_reason, FinishReason::kCancelled);
      }
    }
  }
}

// Checks that an interrupted turn is a prefix of the whole one.
void expect_beginning(const Outcome& part, const Outcome& whole) {
  ASSERT_LE(part.fed.size(), whole.fed.size());
  EXPECT_TRUE(std::equal(part.fed.begin(), part.fed.end(), whole.fed.begin()));
  ASSERT_LE(part.rows.size(), whole.rows.size());
  EXPECT_EQ(std::memcmp(part.rows.data(), whole.rows.data(), part.rows.size() * sizeof(float)), 0);
}

TEST(SpeculativeGenerateTest, CancelInAnyLayerGivesABeginningOfTheAnswer) {
  const Options options{.sampler = sampled(5), .max_tokens = 60, .pull = 14};
  const Outcome whole = run(options, true);
  const size_t n_prompt = whole.fed.size() + 1 - whole.generation.n_sampled;
  size_t n_passes = 0;
  for (size_t pass = 0;; ++pass) {
    bool broke_off = false;
    for (size_t layer = 0; layer < 2; ++layer) {
      SCOPED_TRACE("pass " + std::to_string(pass) + " layer " + std::to_string(layer));
      Options cancelled = options;
      cancelled.fails_at = pass;
      cancelled.cancels = true;
      cancelled.layer = layer;
      const Outcome part = run(cancelled, true);
      ASSERT_TRUE(part.status.ok());
      if (part.generation.finish_reason != FinishReason::kCancelled) continue;
      broke_off = true;
      const Tokens& ids = part.generation.ids;
      EXPECT_EQ(ids.size(), part.generation.n_sampled);
      EXPECT_EQ(part.fed.size(), n_prompt + ids.size() - 1) << "all but the last token";
      EXPECT_TRUE(std::equal(ids.begin(), ids.end(), whole.generation.ids.begin()));
      EXPECT_EQ(part.n_draws, ids.size());
      expect_beginning(part, whole);
    }
    if (!broke_off) break;
    ++n_passes;
  }
  EXPECT_EQ(n_passes, whole.generation.n_sampled - 1 - whole.generation.n_accepted);
}

// A pass that fails with drafts is repeated without; one that fails without ends the turn.
TEST(SpeculativeGenerateTest, PassThatFailsWithDraftsIsRepeatedWithoutDrafts) {
  const Options options{.sampler = sampled(5), .max_tokens = 120, .pull = 10};
  const Outcome whole = run(options, false);
  const size_t n_passes = run(options, true).work.n_forward;
  size_t n_repeated = 0, n_failed = 0;
  for (size_t pass = 0; pass < n_passes; ++pass) {
    SCOPED_TRACE(pass);
    Options failing = options;
    failing.fails_at = pass;
    const Outcome outcome = run(failing, true);
    if (outcome.status.ok()) {
      ++n_repeated;
      expect_same(outcome, whole);
    } else {
      ++n_failed;
      EXPECT_EQ(outcome.status.code(), ErrorCode::kOutOfMemory);
      expect_beginning(outcome, whole);
      EXPECT_EQ(outcome.fed.size() + 1 - outcome.n_draws, whole.fed.size() + 1 - whole.n_draws);
    }
  }
  EXPECT_GT(n_repeated, 5u);
  EXPECT_GT(n_failed, 5u);
}

// With memory for n pages both sides get equally far, and fail at the same position.
TEST(SpeculativeGenerateTest, AnswersWithAndWithoutDraftsRunOutOfMemoryAtTheSamePosition) {
  const size_t page = KvLayout::make(2, 1, 4, KvDType::kF32).page_bytes();
  for (size_t n_pages = 1; n_pages <= 4; ++n_pages) {
    SCOPED_TRACE(n_pages);
    const Outcome on = compared({.max_tokens = 400, .kv_budget_bytes = n_pages * page, .pull = 20});
    EXPECT_EQ(on.status.code(), ErrorCode::kOutOfMemory);
    EXPECT_EQ(on.fed.size(), n_pages * kPagePositions);
  }
}

// Non-finite logits fail the turn only if they are sampled from.
TEST(SpeculativeGenerateTest, NonFiniteLogitsFailTheTurnOnlyIfSampledFrom) {
  const Options options{.max_tokens = 60, .pull = 20};
  const size_t end = run(options, false).fed.size() + 8;
  for (size_t position = 60; position < end; ++position) {
    SCOPED_TRACE(position);
    Options broken = options;
    broken.change_logits = [position](TokenSpan prefix, std::span<float> row) {
      if (prefix.size() == position) row[3] = std::nanf("");
    };
    compared(broken);
  }
}

}  // namespace
}  // namespace ibid
