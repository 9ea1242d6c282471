// Embeddings of an engine: the same bits in any passes, and rejected input.
#include "runtime/embedding/embeddings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "runtime/session/session_state.h"
#include "tests/server/talking_model.h"
#include "tests/support/same_bits.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

using testing::HasSubstr;
using Vectors = std::vector<std::vector<float>>;

constexpr uint32_t kMean = 1, kLast = 3;

std::shared_ptr<Engine> load(const std::string& path, const EngineOptions& options = {.n_threads = 1}) {
  auto engine = Engine::load(path, options);
  CHECK(engine.ok()) << engine.status().to_string();
  return *std::move(engine);
}

// Texts of one token, of less than a page, of more, and of several passes.
std::vector<Tokens> some_texts() {
  std::vector<Tokens> texts;
  for (const size_t n : {1u, 2u, 7u, 40u, 64u, 65u, 200u, 333u}) {
    texts.push_back(random_tokens(n, 256, static_cast<uint32_t>(n)));
  }
  return texts;
}

Vectors embedded(const std::shared_ptr<Engine>& engine, const std::vector<Tokens>& texts,
                 const EmbeddingOptions& options = {}) {
  auto vectors = embed(engine->state(), texts, options);
  CHECK(vectors.ok()) << vectors.status().to_string();
  return *std::move(vectors);
}

struct KvAndPooling {
  const char* name;
  KvDType kv;
  uint32_t pooling;
};

class EmbeddingBits : public testing::TestWithParam<KvAndPooling> {
 protected:
  void SetUp() override { write_embedding_model(path_, GetParam().pooling); }
  std::shared_ptr<Engine> engine(int n_threads, size_t max_chunk, size_t kv_budget_bytes = 0) const {
    EngineOptions options;
    options.kv_dtype = GetParam().kv;
    options.n_threads = n_threads;
    options.max_chunk = max_chunk;
    options.kv_budget_bytes = kv_budget_bytes;
    return load(path_, options);
  }
  TempDir dir_;
  const std::string path_ = dir_.file("embed.gguf");
};

TEST_P(EmbeddingBits, EmbeddingsHaveTheSameBitsForAllChunksThreadsAndBatches) {
  const std::vector<Tokens> texts = some_texts();
  Vectors wanted;
  const auto alone = engine(1, 512);
  for (const Tokens& text : texts) wanted.push_back(embedded(alone, {text}).front());
  for (const int n_threads : {1, 2, 3}) {
    for (const size_t max_chunk : {1u, 7u, 64u, 512u}) {
      if (n_threads == 3 && max_chunk != 64) continue;
      const auto other = engine(n_threads, max_chunk);
      const Vectors got = embedded(other, texts);
      ASSERT_EQ(got.size(), wanted.size());
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_TRUE(same_bits(got[i], wanted[i]))
            << texts[i].size() << " tokens, " << n_threads << " threads, chunk " << max_chunk;
      }
      EXPECT_EQ(other->state().pool().bytes_in_use(), 0u) << "no KV of a text is kept";
    }
  }
}

TEST_P(EmbeddingBits, EmbeddingsHaveTheSameBitsIfMemoryFitsOneTextAtATime) {
  const std::vector<Tokens> texts = some_texts();
  const Vectors wanted = embedded(engine(1, 512), texts);
  const auto layout = engine(1, 512)->state().pool().layout();
  const auto small = engine(2, 64, KvLayout::pages_for(333) * layout.page_bytes());
  EXPECT_EQ(embedded(small, texts), wanted);
}

INSTANTIATE_TEST_SUITE_P(
    All, EmbeddingBits,
    testing::Values(KvAndPooling{"MeanF32", KvDType::kF32, kMean}, KvAndPooling{"MeanInt8", KvDType::kInt8, kMean},
                    KvAndPooling{"LastF16", KvDType::kF16, kLast}, KvAndPooling{"LastInt8", KvDType::kInt8, kLast},
                    KvAndPooling{"LastK8V4", KvDType::kK8V4, kLast}, KvAndPooling{"MeanInt4", KvDType::kInt4, kMean}),
    [](const auto& kind) { return std::string(kind.param.name); });

class EmbeddingsTest : public testing::Test {
 protected:
  EmbeddingsTest() { write_embedding_model(path_, kLast); }
  TempDir dir_;
  const std::string path_ = dir_.file("embed.gguf");
};

// A running answer does not change embeddings, nor they the answer.
TEST_F(EmbeddingsTest, EmbeddingsAndARunningAnswerDoNotChangeEachOther) {
  write_talking_model(dir_.file("talk.gguf"));
  EngineOptions options{.n_threads = 2};
  options.pooling = Pooling::kMean;  // set explicitly: this model also answers
  const auto engine = load(dir_.file("talk.gguf"), options);
  const std::vector<Tokens> texts = some_texts();
  const Vectors wanted = embedded(engine, texts);
  const auto answer = [&](auto&& meanwhile) {
    auto chat = ChatSession::create(engine, {});
    CHECK(chat.ok()) << chat.status().to_string();
    TurnOptions turn{.sampler = {.temperature = 0}, .max_tokens = 40};
    size_t n_events = 0;
    auto said = chat->send("hello", turn, [&](const TurnEvent&) {
      if (n_events++ == 0) meanwhile();
    });
    CHECK(said.ok()) << said.status().to_string();
    return said->text;
  };
  const std::string said = answer([] {});
  const size_t n_shared = engine->state().scheduler().stats().n_shared_passes;
  EXPECT_EQ(answer([&] { EXPECT_EQ(embedded(engine, texts), wanted); }), said);
  EXPECT_GT(engine->state().scheduler().stats().n_shared_passes, n_shared);
}

TEST_F(EmbeddingsTest, VectorsAreNormalisedAndHaveRequestedLength) {
  const auto engine = load(path_);
  const Tokens text = random_tokens(20, 256, 1);
  const std::vector<float> whole = embedded(engine, {text}).front();
  ASSERT_EQ(whole.size(), 128u);
  for (const size_t n : {1u, 31u, 128u}) {
    const std::vector<float> part = embedded(engine, {text}, {.n_dims = n}).front();
    ASSERT_EQ(part.size(), n);
    double squares = 0, before = 0;
    for (size_t i = 0; i < n; ++i)
      squares += double{part[i]} * double{part[i]}, before += double{whole[i]} * double{whole[i]};
    EXPECT_NEAR(squares, 1, 1e-6);
    for (size_t i = 0; i < n; ++i) EXPECT_NEAR(double{part[i]}, double{whole[i]} / std::sqrt(before), 1e-6);
  }
  EXPECT_EQ(embed(engine->state(), {text}, {.n_dims = 129}).status().code(), ErrorCode::kInvalidArgument);
}

TEST_F(EmbeddingsTest, DifferentTextsGetDifferentEmbeddings) {
  const auto engine = load(path_);
  const Vectors two = embedded(engine, {{1, 2, 3}, {1, 2, 4}});
  EXPECT_NE(two[0], two[1]);
  EXPECT_TRUE(embedded(engine, {}).empty());
}

TEST_F(EmbeddingsTest, InvalidTextsAreRejected) {
  const auto engine = load(path_, {.n_threads = 1, .max_seq_len = 100});
  const auto refused = [&](std::vector<Tokens> texts) { return embed(engine->state(), std::move(texts)).status(); };
  const Status long_text = refused({{1}, Tokens(101, 1)});
  EXPECT_EQ(long_text.code(), ErrorCode::kContextFull);
  EXPECT_THAT(long_text.message(), HasSubstr("text 2 of 2 has 101 tokens, the context has room for 100"));
  EXPECT_TRUE(refused({Tokens(100, 1)}).ok());
  EXPECT_EQ(refused({{}}).code(), ErrorCode::kInvalidArgument);
  for (const TokenId id : {-1, 259, 2147483647}) {
    const Status bad = refused({{1, id}});
    EXPECT_EQ(bad.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(bad.message(), HasSubstr("text 1 of 1: token id " + std::to_string(id)));
  }
}

TEST_F(EmbeddingsTest, OnlyEmbeddingModelsMakeEmbeddings) {
  write_talking_model(dir_.file("talk.gguf"));
  const Status refused = embed(load(dir_.file("talk.gguf"))->state(), {{1, 2}}).status();
  EXPECT_EQ(refused.code(), ErrorCode::kUnsupported);
  EXPECT_TRUE(refused.message().starts_with("talk.gguf cannot make embeddings")) << "has a path: " << refused.message();
  EXPECT_THAT(refused.message(), HasSubstr("--pooling"));
  // Embedding models give no answers.
  const auto chat = ChatSession::create(load(path_), {});
  EXPECT_EQ(chat.status().code(), ErrorCode::kUnsupported);
  EXPECT_THAT(chat.status().message(), HasSubstr("makes embeddings only, no answers"));
  EXPECT_EQ(SessionState::create(load(path_), {.plain = true}).status().code(), ErrorCode::kUnsupported);
}

TEST_F(EmbeddingsTest, StopTokenCancelsEmbeddings) {
  const auto engine = load(path_);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(embed(engine->state(), some_texts(), {.stop = stop.get_token()}).status().code(), ErrorCode::kCancelled);
  {
    const auto waker = std::make_shared<Waker>();
    const auto all = Embeddings::begin(engine->state(), some_texts(), {}, waker);
    EXPECT_TRUE(all.ok());  // destroyed while running
  }
  EXPECT_EQ(engine->state().pool().bytes_in_use(), 0u);
}

TEST_F(EmbeddingsTest, CutTextKeepsItsFirstAndLastSpecialTokens) {
  const auto engine = load(path_);
  const Tokenizer& tokenizer = engine->state().tokenizer();
  EXPECT_EQ(ids_to_embed(tokenizer, "abc").size(), 4u);
  EXPECT_EQ(ids_to_embed(tokenizer, "abc", 4), ids_to_embed(tokenizer, "abc"));
  const Tokens cut = ids_to_embed(tokenizer, "abcdefgh", 4);
  EXPECT_EQ(cut, ids_to_embed(tokenizer, "abc"));
  EXPECT_EQ(ids_to_embed(tokenizer, "abc", 1).size(), 1u);
  // Special tokens in user text are not recognised.
  EXPECT_EQ(ids_to_embed(tokenizer, "<|endoftext|>").size(), 14u);
}

}  // namespace
}  // namespace ibid
