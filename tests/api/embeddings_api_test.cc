// Engine::embed() returns what the runtime computes.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/embedding/embeddings.h"
#include "runtime/session/session_state.h"
#include "tests/server/talking_model.h"
#include "tests/support/temp_dir.h"

namespace ibid {
namespace {

TEST(EmbeddingsApiTest, EngineEmbedReturnsTheVectorsOfTheRuntime) {
  const TempDir dir;
  write_embedding_model(dir.file("embed.gguf"));
  const auto engine = Engine::load(dir.file("embed.gguf"), {.n_threads = 1});
  ASSERT_TRUE(engine.ok()) << engine.status().to_string();
  EXPECT_EQ((*engine)->embedding_dim(), 128u);
  const auto got = (*engine)->embed({"one", "another text"}, 64);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EngineState& inside = (*engine)->state();
  const Tokenizer& tokenizer = inside.tokenizer();
  const auto wanted =
      embed(inside, {ids_to_embed(tokenizer, "one"), ids_to_embed(tokenizer, "another text")}, {.n_dims = 64});
  ASSERT_TRUE(wanted.ok());
  EXPECT_EQ(*got, *wanted);
  EXPECT_EQ((*engine)->embed({"one"}, 129).status().code(), ErrorCode::kInvalidArgument);
}

TEST(EmbeddingsApiTest, ChatModelMakesEmbeddingsIfPoolingIsSet) {
  const TempDir dir;
  write_talking_model(dir.file("talk.gguf"));
  const auto plain = Engine::load(dir.file("talk.gguf"), {.n_threads = 1});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ((*plain)->embedding_dim(), 0u);
  EXPECT_EQ((*plain)->embed({"one"}).status().code(), ErrorCode::kUnsupported);
  EngineOptions options{.n_threads = 1};
  options.pooling = Pooling::kMean;
  const auto asked = Engine::load(dir.file("talk.gguf"), options);
  ASSERT_TRUE(asked.ok());
  EXPECT_TRUE((*asked)->embed({"one"}).ok());
  options.pooling = static_cast<Pooling>(7);
  EXPECT_EQ(Engine::load(dir.file("talk.gguf"), options).status().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace ibid
