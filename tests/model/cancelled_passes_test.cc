// For every architecture, a cancelled pass stops in all threads at the same layer. Otherwise a thread would wait at a
// barrier forever, and this test would hang.
#include <gtest/gtest.h>

#include <algorithm>

#include "model/architectures/architectures.h"
#include "model/forward/transformer.h"
#include "tests/model/checkpoint_directories.h"
#include "tests/support/paths.h"
#include "tests/support/same_bits.h"
#include "weights/model_file.h"

namespace ibid {
namespace {

constexpr size_t kHistory = 20, kRows = 12;

std::unique_ptr<TransformerModel> load(const ModelFile& file, int n_threads) {
  Result<ModelConfig> config = read_config(file);
  CHECK(config.ok()) << config.status().to_string();
  auto model = TransformerModel::create(file, *std::move(config), {.kv_dtype = KvDType::kF32, .n_threads = n_threads});
  CHECK(model.ok()) << model.status().to_string();
  return *std::move(model);
}

// Cancels passes of one row and of several rows in each layer, repeatedly, because threads with little work are rarely
// in different layers. Afterwards the sequence must continue as if no pass had been cancelled.
void cancel_everywhere(TransformerModel& model, TokenSpan tokens, size_t n_rounds) {
  KvPagePool pool(model.kv_layout(), size_t{64} << 20);
  KvCacheEntry entry(pool), undisturbed(pool);
  Logits logits;
  const auto feed = [&](KvCacheEntry& to, size_t n, std::stop_token stop) {
    const SequenceChunk chunk{&to, tokens.subspan(to.length(), n), WantLogits::kLast};
    return model.forward(std::span(&chunk, 1), std::move(stop), logits).code();
  };
  ASSERT_EQ(feed(entry, kHistory, {}), ErrorCode::kOk);
  for (size_t i = 0; i < n_rounds * model.config().n_layers; ++i) {
    std::stop_source stop;
    model.set_layer_observer([&, layer = i % model.config().n_layers](size_t at) {
      if (at == layer) stop.request_stop();
    });
    ASSERT_EQ(feed(entry, i % 2 == 0 ? 1 : kRows, stop.get_token()), ErrorCode::kCancelled);
    ASSERT_EQ(entry.length(), kHistory);
  }
  model.set_layer_observer({});
  ASSERT_EQ(feed(undisturbed, kHistory, {}), ErrorCode::kOk);
  for (KvCacheEntry* to : {&entry, &undisturbed}) ASSERT_EQ(feed(*to, kRows, {}), ErrorCode::kOk);
  EXPECT_TRUE(same_bits(stored_rows(entry), stored_rows(undisturbed)));
  EXPECT_TRUE(same_bits(stored_states(entry), stored_states(undisturbed)));
}

// Returns the number of models in `parent`.
size_t check_all(const std::string& parent, size_t n_rounds) {
  size_t n_models = 0;
  for (const std::string& path : checkpoint_directories(parent)) {
    SCOPED_TRACE(path);
    const auto file = open_model_file(path);
    if (!file.ok() || !read_config(**file).ok()) continue;
    ++n_models;
    for (const int n_threads : {2, 3}) {
      const std::unique_ptr<TransformerModel> model = load(**file, n_threads);
      cancel_everywhere(*model, random_tokens(kHistory + kRows, model->vocab_size(), 7), n_rounds);
    }
  }
  return n_models;
}

TEST(CancelledPasses, CancelledPassStopsAllThreadsAtTheSameLayer) {
  if (an_isa_is_forced()) GTEST_SKIP() << "the layer at which threads stop does not depend on the instruction set";
  IBID_NEED_SHARED(shared);
  EXPECT_GE(check_all(shared + "/reference/tiny", 100), 62u);
}

TEST(CancelledPasses, CancelledPassStopsAllThreadsAtTheSameLayerInCommittedModels) {
  if (an_isa_is_forced()) GTEST_SKIP() << "the layer at which threads stop does not depend on the instruction set";
  EXPECT_EQ(check_all(golden_dir() + "/families", 100), 29u);
}

}  // namespace
}  // namespace ibid
