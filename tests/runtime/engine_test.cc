#include "runtime/engine/engine_state.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "tests/runtime/chat_fixture.h"
#include "tests/support/failing_new.h"
#include "tests/support/scripted_model.h"
#include "tests/support/temp_dir.h"
#include "tests/support/tiny_model.h"

namespace ibid {
namespace {

TEST(EngineTest, DefaultBudgetIsTwoContextsWithinLimits) {
  constexpr size_t kMega = 1'000'000;
  // 1 MB pages: 8192 positions are 128 pages.
  EXPECT_EQ(default_kv_budget_bytes(10 * kMega, 0, 8192, 100'000 * kMega), 2 * 128 * 10 * kMega);
  EXPECT_EQ(default_kv_budget_bytes(kMega / 10, 0, 8192, 100'000 * kMega), 256 * kMega) << "at least";
  EXPECT_EQ(default_kv_budget_bytes(10 * kMega, 0, 8192, 1000 * kMega), 500 * kMega) << "at most half";
  EXPECT_EQ(default_kv_budget_bytes(kMega, 0, 8192, 0), kMega) << "at least one page";
}

TEST(EngineTest, TokenizerLargerThanModelIsRejected) {
  EngineParts parts;
  parts.model = std::make_unique<FakeModel>(FakeModel::Options{.vocab_size = 100});
  parts.tokenizer = std::make_unique<FakeTokenizer>();
  parts.name = "small";
  const Result<std::shared_ptr<Engine>> engine = make_engine(std::move(parts));
  EXPECT_EQ(engine.status().code(), ErrorCode::kMismatch);
  EXPECT_NE(engine.status().message().find("small"), std::string::npos);
}

TEST(EngineTest, MissingFileErrorNamesTheFile) {
  const Result<std::shared_ptr<Engine>> engine = Engine::load("/nowhere/model.gguf");
  ASSERT_FALSE(engine.ok());
  EXPECT_NE(engine.status().message().find("/nowhere/model.gguf"), std::string::npos);
}

TEST(EngineTest, OutOfRangeOptionErrorsNameOptionAndRange) {
  const TempDir dir;
  write_scripted_model(dir.file("m.gguf"), {{.when = "", .says = "Yes."}});
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  const std::vector<std::pair<EngineOptions, const char*>> bad = {
      {{.n_threads = -1}, "n_threads: -1, allowed: 1 to 1024, or 0 for one per core"},
      {{.n_threads = 1025}, "n_threads: 1025, allowed: 1 to 1024"},
      {{.max_seq_len = 16'777'217}, "max_seq_len: 16777217, allowed: 1 to 16777216, or 0"},
      {{.max_seq_len = SIZE_MAX}, "max_seq_len: "},
      {{.max_chunk = 0}, "max_chunk: 0, allowed: 1 to 16777216"},
      {{.max_chunk = SIZE_MAX}, "max_chunk: "},
      {{.numerics = static_cast<Numerics>(9)}, "numerics: 9"},
      {{.kv_dtype = static_cast<KvDType>(9)}, "kv_dtype: 9"},
      {{.scheduling = {.latency_target_ms = 0}}, "latency_target_ms: 0, allowed: above 0, to 3600000"},
      {{.scheduling = {.latency_target_ms = -1}}, "latency_target_ms: -1"},
      {{.scheduling = {.latency_target_ms = nan}}, "latency_target_ms: nan"},
      {{.scheduling = {.latency_target_ms = infinity}}, "latency_target_ms: inf"},
      {{.cache_directory_bytes = UINT64_MAX}, "cache_directory_bytes: 18446744073709551615, allowed: 0 to"},
      {{.kv_budget_bytes = SIZE_MAX}, "kv_budget_bytes: 18446744073709551615, allowed: 0 to"},
      {{.kv_budget_bytes = 1}, "kv_budget_bytes: 1, allowed:"},
  };
  for (const auto& [options, words] : bad) {
    const Result<std::shared_ptr<Engine>> engine = Engine::load(dir.file("m.gguf"), options);
    EXPECT_EQ(engine.status().code(), ErrorCode::kInvalidArgument) << words;
    EXPECT_EQ(engine.status().message().substr(0, std::string(words).size()), words);
  }
}

TEST(EngineTest, PartsWithOutOfRangeSizesAreRejected) {
  const auto create = [](FakeModel::Options model, EngineParts parts) {
    parts.model = std::make_unique<FakeModel>(model);
    parts.tokenizer = std::make_unique<FakeTokenizer>();
    return make_engine(std::move(parts)).status().code();
  };
  EXPECT_EQ(create({}, {}), ErrorCode::kOk);
  EXPECT_EQ(create({.max_chunk = 0}, {}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.max_seq_len = 0}, {}), ErrorCode::kInvalidArgument);
  EngineParts slow, large;
  slow.scheduling.latency_target_ms = std::nan("");
  large.kv_budget_bytes = SIZE_MAX;
  EXPECT_EQ(create({}, std::move(slow)), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({}, std::move(large)), ErrorCode::kInvalidArgument);
}

TEST(EngineTest, TooSmallBudgetErrorNamesBudgetAndMinimum) {
  for (const bool recurrent : {false, true}) {
    const auto status = [&](size_t bytes) {
      EngineParts parts;
      parts.model = std::make_unique<FakeModel>(FakeModel::Options{.recurrent = recurrent});
      parts.tokenizer = std::make_unique<FakeTokenizer>();
      parts.kv_budget_bytes = bytes;
      return make_engine(std::move(parts)).status();
    };
    const KvLayout layout = FakeModel({.recurrent = recurrent}).kv_layout();
    const size_t least = layout.page_bytes() + 3 * layout.state_bytes();
    EXPECT_TRUE(status(least).ok());
    EXPECT_EQ(status(least - 1).code(), ErrorCode::kInvalidArgument);
    EXPECT_EQ(status(least - 1).message(),
              "kv_budget_bytes: " + std::to_string(least - 1) + ", allowed: " + std::to_string(least) +
                  (recurrent ? " (a page and three recurrent states of this model) and more"
                             : " (a page of this model) and more"));
  }
}

TEST(EngineTest, OptionsOfSessionsAndTurnsAreChecked) {
  ChatFixture f;
  const auto create = [&](SessionOptions options) {
    return ChatSession::create(f.engine, std::move(options)).status().code();
  };
  EXPECT_EQ(create({.system = "\xff"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.variables = "7"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.variables = "{\"a\": \"\xff\"}"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SessionState::create(f.engine, {.variables = 7}).status().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(SessionState::create(f.engine, {.variables = {{"a", "\xff"}}}).status().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.now = "\xff"}), ErrorCode::kInvalidArgument);
  EXPECT_EQ(create({.when_full = static_cast<WhenFull>(3)}), ErrorCode::kInvalidArgument);
  ChatSession chat = f.session();
  TurnOptions priority = greedy(), stop_mode = greedy(), logprobs = greedy(), temperature = greedy();
  priority.priority = static_cast<Priority>(3);
  stop_mode.stop_mode = static_cast<StopMode>(2);
  logprobs.n_logprobs = SIZE_MAX;
  temperature.sampler.temperature = std::nan("");
  for (const TurnOptions& options : {priority, stop_mode, logprobs, temperature}) {
    EXPECT_EQ(chat.send("x", options).status().code(), ErrorCode::kInvalidArgument);
  }
}

// The tokenizer is loaded while the weights are packed; which of the two fails first must not matter.
TEST(EngineTest, ErrorsOfTheTokenizerPrecedeThoseOfTheWeights) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  for (const float norm : {1.0f, std::nanf("")}) {
    TinyModel tiny;
    tiny.norm_mean = norm;
    write_tiny_model(tiny, path);  // without a tokenizer
    // Keys in sixteen bits, because the plan for eight bits reads weights first.
    const Status status = Engine::load(path, {.kv_dtype = KvDType::kF16}).status();
    EXPECT_EQ(status.message(), path + ": tokenizer.ggml.model is missing");
  }
}

TEST(EngineTest, LoadReturnsAnErrorWhenMemoryRunsOut) {
  const TempDir dir;
  const std::string path = dir.file("m.gguf");
  write_scripted_model(path, {{.when = "", .says = "Yes."}});
  const EngineOptions options{.n_threads = 1};
  for (const bool lasting : {false, true}) {
    size_t n_failed = 0;
    for (size_t n = 0;; n += n < 100 ? 1 : n / 20) {
      FailingNew failing(n, lasting, FailingNew::Threads::kAll);
      const Result<std::shared_ptr<Engine>> engine = Engine::load(path, options);
      failing.stop();
      if (!failing.has_failed()) {
        EXPECT_TRUE(engine.ok()) << engine.status().to_string();
        break;
      }
      n_failed += !engine.ok();
      if (!engine.ok()) {
        EXPECT_EQ(engine.status().code(), ErrorCode::kOutOfMemory) << n << ": " << engine.status().to_string();
      }
    }
    EXPECT_GT(n_failed, 100u);
  }
}

TEST(EngineTest, SessionsKeepTheirEngineAlive) {
  ChatFixture f;
  ChatSession chat = f.session();
  f.say({f.tokenizer->sampled({"ab"})});
  f.engine.reset();
  EXPECT_EQ(must(chat.send("x", greedy())).text, "ab");
}

}  // namespace
}  // namespace ibid
