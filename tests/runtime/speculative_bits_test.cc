// Drafts on real forward passes: tokens, stored keys and values and the next logits have the bits of decoding token by
// token, for all types of weights and of keys and values, instruction sets and numbers of threads.
#include <gtest/gtest.h>

#include "kernels/ops/dispatch.h"
#include "runtime/session/session_state.h"
#include "tests/runtime/generating.h"
#include "tests/runtime/tiny_chat.h"
#include "tests/support/fake_tokenizer.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

struct BitsOutcome {
  Generated generation;
  Row rows;
  Row next;
  Row states;
  WorkCounters work;
};

// An answer of 80 tokens, across a page boundary. With drafts, the answer without drafts is indexed before the prompt,
// so that drafts are good; every 14th token of it is changed, so that some are rejected.
BitsOutcome say_with_drafts(LanguageModel& model, const FakeTokenizer& tokenizer, const SamplerOptions& options,
                            const Tokens* said, size_t n_prompt = 40) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool);
  const std::unique_ptr<Scheduler> scheduler = Scheduler::create(model, system_clock()).value();
  const Tokens prompt = random_tokens(n_prompt, tokenizer.vocab_size(), 11);
  Drafter drafter;
  if (said != nullptr) {
    drafter.append(*said);
    drafter.append(prompt);
  }
  GenerateRequest request;
  request.prompt = prompt;
  request.max_tokens = 80;
  if (said != nullptr) request.drafter = &drafter;
  Sampler sampler = *Sampler::create(options);
  TokenHistory history;
  history.append(prompt);
  sampler.begin_answer(std::move(history));
  BitsOutcome out;
  Ran ran =
      run_answer(*scheduler, tokenizer, entry, std::move(request), std::move(sampler), StopDetector(), system_clock());
  CHECK(ran.result.ok()) << ran.result.status().to_string();
  out.generation = *std::move(ran.result);
  out.work = ran.progress.work;
  out.rows = stored_rows(entry);
  const SequenceChunk chunk{&entry, TokenSpan(prompt).first(1), WantLogits::kLast};
  Logits logits;
  CHECK(model.forward({&chunk, 1}, {}, logits).ok());
  out.next.assign(logits.row(0).begin(), logits.row(0).end());
  out.states = stored_states(entry);
  return out;
}

void expect_same_with_drafts(LanguageModel& model, const FakeTokenizer& tokenizer, const SamplerOptions& options,
                             const BitsOutcome& plain, size_t n_prompt = 40) {
  Tokens said = plain.generation.ids;
  const auto n_tokens = static_cast<TokenId>(tokenizer.vocab_size());
  for (size_t i = 6; i < said.size(); i += 14) said[i] = (said[i] + 1) % n_tokens;
  const BitsOutcome drafted = say_with_drafts(model, tokenizer, options, &said, n_prompt);
  EXPECT_EQ(drafted.generation.ids, plain.generation.ids);
  EXPECT_EQ(drafted.generation.text, plain.generation.text);
  EXPECT_TRUE(same_bits(drafted.rows, plain.rows)) << "stored rows differ";
  EXPECT_TRUE(same_bits(drafted.next, plain.next)) << "logits differ";
  EXPECT_TRUE(same_bits(drafted.states, plain.states)) << "states differ";
  EXPECT_GT(drafted.generation.n_accepted, 20u);
  EXPECT_GT(drafted.generation.n_drafted, drafted.generation.n_accepted) << "no draft was rejected";
  EXPECT_LT(drafted.work.n_forward, plain.work.n_forward);
}

class SpeculativeBits : public testing::TestWithParam<WeightsAndKv> {
 protected:
  static constexpr size_t kVocabSize = 276;  // FakeTokenizer's

  std::unique_ptr<TransformerModel> make(int n_threads, std::optional<Isa> isa = {}) const {
    TinyModel tiny;
    tiny.vocab_size = kVocabSize;
    tiny.n_layers = 2;
    GetParam().apply_to(tiny);
    // Types with blocks of 64 or 256 values need rows of 256.
    if (dtype_block(tiny.matrix_dtype).values > 32) {
      tiny.n_layers = 1, tiny.dim = 256, tiny.ffn_dim = 256, tiny.head_dim = 64;
    }
    ModelOptions options;
    options.kv_dtype = GetParam().kv_dtype;
    options.n_threads = n_threads;
    options.isa = isa;
    return load_tiny_model(tiny, options);
  }

  static BitsOutcome run(LanguageModel& model, const SamplerOptions& options) {
    return say_with_drafts(model, FakeTokenizer(), options, nullptr);
  }
  static void expect_same(LanguageModel& model, const SamplerOptions& options, const BitsOutcome& plain) {
    expect_same_with_drafts(model, FakeTokenizer(), options, plain);
  }
};

TEST_P(SpeculativeBits, DraftsGiveTheSameBitsForAnySampler) {
  const auto model = make(1);
  for (const uint64_t seed : {1, 2}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const SamplerOptions sampler{.temperature = 1.0, .min_p = 0, .seed = seed};
    expect_same(*model, sampler, run(*model, sampler));
  }
}

// Small penalties: the model mostly continues as before, and each penalty changes some tokens.
TEST_P(SpeculativeBits, DraftsGiveTheSameBitsWithPenalties) {
  const auto model = make(1);
  const SamplerOptions sampler{.temperature = 1.0,
                               .min_p = 0,
                               .seed = 4,
                               .typical_p = 0.99,
                               .xtc_probability = 0.2,
                               .repetition_penalty = 1.05,
                               .repetition_window = 50,
                               .frequency_penalty = 0.05,
                               .presence_penalty = 0.05,
                               .dry_multiplier = 0.1,
                               .dry_allowed_length = 1,
                               .logit_bias = {{65, 1}}};
  expect_same(*model, sampler, run(*model, sampler));
}

TEST_P(SpeculativeBits, DraftsGiveTheSameBitsForAllInstructionSetsAndThreads) {
  const SamplerOptions greedy{.temperature = 0};
  const BitsOutcome wanted = run(*make(1), greedy);
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    for (const int n_threads : {1, 2, 3}) {
      SCOPED_TRACE(std::string(isa_name(isa)) + ", " + std::to_string(n_threads) + " threads");
      const auto model = make(n_threads, isa);
      const BitsOutcome plain = run(*model, greedy);
      EXPECT_EQ(plain.generation.ids, wanted.generation.ids);
      EXPECT_TRUE(same_bits(plain.rows, wanted.rows)) << "stored rows differ";
      EXPECT_TRUE(same_bits(plain.next, wanted.next)) << "logits differ";
      expect_same(*model, greedy, wanted);
      if (HasFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpeculativeBits, testing::ValuesIn(kEveryPanelType),
                         [](const auto& test) { return test.param.name; });

// Checkpoints with windows and recurrent states: a rejected draft rolls rows and states back. The prompt is longer than
// windows of 16 positions and an attention block.
class SpeculativeFamilyBits : public testing::TestWithParam<const char*> {};

TEST_P(SpeculativeFamilyBits, DraftsGiveTheSameBitsForAllKvTypesAndThreads) {
  IBID_NEED_SHARED(shared);
  const std::string directory = shared + "/reference/tiny/" + GetParam();
  const FakeTokenizer tokenizer = FakeTokenizer::small();
  const SamplerOptions sampler{.temperature = 1.0, .min_p = 0, .seed = 3};
  constexpr size_t kPrompt = 330;
  for (const KvDType kv_dtype : kEveryKvDType) {
    SCOPED_TRACE(kv_dtype_name(kv_dtype));
    const auto one = load_tiny_checkpoint(directory, {.kv_dtype = kv_dtype, .n_threads = 1});
    const BitsOutcome plain = say_with_drafts(*one, tokenizer, sampler, nullptr, kPrompt);
    expect_same_with_drafts(*one, tokenizer, sampler, plain, kPrompt);
    const auto two = load_tiny_checkpoint(directory, {.kv_dtype = kv_dtype, .n_threads = 2, .max_chunk = 48});
    expect_same_with_drafts(*two, tokenizer, sampler, plain, kPrompt);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Checkpoints, SpeculativeFamilyBits,
                         testing::Values("qwen3_5_text", "jamba", "lfm2", "kimi_linear", "mamba2", "falcon_h1",
                                         "minimax", "gemma3_text", "gpt_oss"),
                         [](const auto& test) { return std::string(test.param); });

constexpr const char* kStory =
    "The old lighthouse at Marrow Point was built in 1871 by a company of masons from the north. It stands "
    "ninety feet above the sea, and on a clear night its lamp can be seen from twenty miles away. For more than a "
    "century the keepers climbed its spiral stairs every evening to trim the wick and polish the glass. In 1986 the "
    "last keeper, a quiet man named Thomas Hale, locked the door behind him and walked down the hill.";

struct Answered {
  Turn turn;
  Tokens ids;
  Row rows;
  size_t n_prefill_passes = 0;  // how a prompt is split depends on measured pass times

  size_t n_decode_passes() const { return turn.work.n_forward - n_prefill_passes; }
};

Answered ask(const std::shared_ptr<Engine>& engine, const std::string& question, const SamplerOptions& sampler,
             bool speculate) {
  // Separate namespaces: neither finds the other's KV.
  ChatSession chat =
      *ChatSession::create(engine, {.now = "2026-01-31T12:00:00", .cache_namespace = speculate ? "with" : "without"});
  Answered out;
  out.turn = *chat.send(question, {.sampler = sampler, .max_tokens = 110, .speculate = speculate},
                        [&](const TurnEvent& event) {
                          if (event.kind == TurnEvent::Kind::kPrefill) ++out.n_prefill_passes;
                        });
  out.ids = chat.ids();
  out.rows = stored_rows(chat.state().kv());
  return out;
}

void expect_same(const Answered& on, const Answered& off) {
  EXPECT_EQ(on.turn.text, off.turn.text);
  EXPECT_EQ(on.ids, off.ids);
  EXPECT_TRUE(same_bits(on.rows, off.rows));
  EXPECT_EQ(on.n_decode_passes() + on.turn.usage.n_accepted, off.n_decode_passes());
}

// Tokens per decode pass.
double tokens_per_pass(const Turn& turn) {
  const auto n = static_cast<double>(turn.usage.n_decoded - 1);
  return n / (n - static_cast<double>(turn.usage.n_accepted));
}

TEST(RealModelSpeculation, CopyingATextTakesFarFewerPassesWithDrafts) {
  IBID_NEED_REAL_MODEL(path);
  const auto engine = *Engine::load(path, {.max_seq_len = 1024});
  const std::string question =
      "Repeat the following text exactly, but write \"Edward Hale\" instead of \"Thomas Hale\". Answer with the text "
      "only.\n\n" +
      std::string(kStory);
  const SamplerOptions greedy{.temperature = 0}, sampled{.temperature = 0.5, .seed = 3};
  for (const SamplerOptions& sampler : {greedy, sampled}) {
    const Answered on = ask(engine, question, sampler, true), off = ask(engine, question, sampler, false);
    expect_same(on, off);
    EXPECT_GE(on.turn.usage.n_decoded, 60u) << on.turn.text;
    std::printf("temperature %.1f: %.2f tokens a pass, %zu of %zu drafts accepted\n", sampler.temperature,
                tokens_per_pass(on.turn), on.turn.usage.n_accepted, on.turn.usage.n_drafted);
    EXPECT_GE(tokens_per_pass(on.turn), 1.8);
  }
}

// Text with few repetitions has few drafts, each a small part of a pass.
TEST(RealModelSpeculation, ProseHasFewRejectedDrafts) {
  IBID_NEED_REAL_MODEL(path);
  const auto engine = *Engine::load(path, {.max_seq_len = 1024});
  for (const uint64_t seed : {1, 2}) {
    const SamplerOptions sampler{.temperature = 0.7, .seed = seed};
    const char* question = "Write a story about a girl who finds a map in a library.";
    const Answered on = ask(engine, question, sampler, true), off = ask(engine, question, sampler, false);
    expect_same(on, off);
    const size_t n_rejected = on.turn.usage.n_drafted - on.turn.usage.n_accepted;
    std::printf("seed %zu: %zu of %zu drafts accepted in %zu tokens\n", static_cast<size_t>(seed),
                on.turn.usage.n_accepted, on.turn.usage.n_drafted, on.turn.usage.n_decoded);
    EXPECT_LE(n_rejected, on.turn.usage.n_accepted + on.turn.usage.n_decoded / 12);
  }
}

}  // namespace
}  // namespace ibid
