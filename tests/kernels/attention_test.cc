#include "kernels/ops/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/kernels/stored_pages.h"
#include "tests/oracle/softmax_attention.h"

namespace ibid {
namespace {

// Parameters of attention in one layer.
struct Layer {
  AttentionShape plain;
  std::vector<float> sinks;

  Layer(size_t n_heads, size_t n_kv_heads, size_t head_dim) {
    plain.n_heads = n_heads;
    plain.n_kv_heads = n_kv_heads;
    plain.head_dim = head_dim;
    plain.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  }
  Layer with_sinks() const {
    Layer layer = *this;
    for (size_t h = 0; h < plain.n_heads; ++h) layer.sinks.push_back(0.5f * static_cast<float>(h) - 1.0f);
    return layer;
  }
  AttentionShape shape() const {
    AttentionShape shape = plain;
    shape.sinks = sinks.empty() ? nullptr : sinks.data();
    return shape;
  }
  size_t stride() const { return (plain.n_heads * plain.head_dim + 15) / 16 * 16; }
};

// The new rows of one sequence in a call of attention().
struct Rows {
  const StoredPages* pages;
  size_t first_position;
  size_t n_rows;
};

// Returns the query at a position. It differs by position and sequence, so that chunks can be compared.
std::vector<float> query(const Layer& layer, const StoredPages& pages, size_t position) {
  FloatSequence sequence(position * 131 + pages.n_positions());
  return sequence.vector(layer.stride(), -2, 2);
}

// Returns `out` for all rows, in the order of `batch`.
std::vector<float> run(const Kernels& kernels, const Layer& layer, const std::vector<Rows>& batch, int n_threads) {
  size_t n_rows = 0, max_positions = 0;
  std::vector<AttentionSequence> sequences;
  std::vector<float> q;
  for (const Rows& rows : batch) {
    sequences.push_back({rows.pages->pages.data(), n_rows, rows.n_rows, rows.first_position});
    n_rows += rows.n_rows;
    max_positions = std::max(max_positions, rows.first_position + rows.n_rows);
    for (size_t i = 0; i < rows.n_rows; ++i) {
      const auto row = query(layer, *rows.pages, rows.first_position + i);
      q.insert(q.end(), row.begin(), row.end());
    }
  }
  const size_t scratch_bytes = attention_scratch_bytes(layer.shape(), n_rows, max_positions, n_threads);
  AlignedBytes scratch(scratch_bytes), in(q.size() * 4 + 64), out(q.size() * 4 + 64);
  fill_with_nan(scratch.get(), scratch_bytes);
  std::memcpy(in.get(), q.data(), q.size() * 4);
  const AttentionShape shape = layer.shape();
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
  team->run([&](Worker& worker) {
    attention(worker, kernels, shape, batch[0].pages->block, 0, sequences, in.floats(), out.floats(), layer.stride(),
              scratch.get());
  });
  return {out.floats(), out.floats() + q.size()};
}

const Kernels& best() { return kernels_for(*active_isa()); }
// True for the scalar reference kernels. They take a thousand times as long, so they get shorter sequences.
bool slow() { return *active_isa() == Isa::kRef; }

class AttentionTest : public ::testing::TestWithParam<KvRowFormat> {
 protected:
  StoredPages pages(const Layer& layer, size_t n_positions, uint64_t seed = 1) const {
    return StoredPages(best(), GetParam(), layer.plain.n_kv_heads, layer.plain.head_dim, n_positions, seed);
  }
};

std::vector<Layer> layers() {
  std::vector<Layer> all = {Layer(9, 3, 64), Layer(4, 4, 40), Layer(7, 1, 16)};
  all.push_back(Layer(4, 2, 24).with_sinks());
  all.back().plain.softcap = 3.0f;
  all.push_back(Layer(6, 2, 32).with_sinks());
  all.back().plain.window = 100;
  return all;
}

TEST_P(AttentionTest, ChunksOfAnySizeGiveTheSameBits) {
  for (const Layer& layer : layers()) {
    const size_t length = slow() ? 70 : 560;
    const StoredPages stored = pages(layer, length);
    const auto whole = run(best(), layer, {{&stored, 0, length}}, 1);
    for (size_t chunk : {1u, 2u, 3u, 5u, 8u, 13u, 31u, 64u, 70u, 255u, 256u, 300u}) {
      std::vector<float> parts;
      for (size_t at = 0; at < length; at += chunk) {
        const auto part = run(best(), layer, {{&stored, at, std::min<size_t>(chunk, length - at)}}, 1);
        parts.insert(parts.end(), part.begin(), part.end());
      }
      ASSERT_TRUE(same_bits(parts, whole)) << "chunks of " << chunk << ", head_dim " << layer.plain.head_dim;
    }
  }
}

TEST_P(AttentionTest, EveryRowCountFromOneToSeventyGivesTheSameBits) {
  const Layer layer(6, 2, 24);
  const size_t length = slow() ? 71 : 300;
  const StoredPages stored = pages(layer, length);
  const auto whole = run(best(), layer, {{&stored, 0, length}}, 1);
  for (size_t n_rows = 1; n_rows <= 70; ++n_rows) {
    const size_t first = length - n_rows;
    const auto part = run(best(), layer, {{&stored, first, n_rows}}, 2);
    ASSERT_TRUE(same_bits(part, std::span(whole).subspan(first * layer.stride(), part.size()))) << n_rows;
  }
}

TEST_P(AttentionTest, ThreadCountDoesNotChangeABit) {
  for (const Layer& layer : layers()) {
    const StoredPages stored = pages(layer, 1500);
    for (const Rows& rows : {Rows{&stored, 1499, 1}, Rows{&stored, 1400, slow() ? 2u : 100u}, Rows{&stored, 1200, 3},
                             Rows{&stored, 0, 2}}) {
      const auto one = run(best(), layer, {rows}, 1);
      for (int n_threads : {2, 3, 5, 8}) {
        ASSERT_TRUE(same_bits(run(best(), layer, {rows}, n_threads), one)) << n_threads;
      }
    }
  }
}

TEST_P(AttentionTest, OtherSequencesInTheBatchDoNotChangeABit) {
  for (const Layer& layer : layers()) {
    const StoredPages a = pages(layer, 700, 1), b = pages(layer, 33, 2), c = pages(layer, 300, 3);
    const std::vector<Rows> batch = {{&a, 699, 1}, {&b, 0, 33}, {&c, 297, 0}, {&c, 290, 10}};
    for (int n_threads : {1, 2, 3}) {
      const auto together = run(best(), layer, batch, n_threads);
      size_t at = 0;
      for (const Rows& rows : batch) {
        if (rows.n_rows == 0) continue;
        const auto alone = run(best(), layer, {rows}, 1);
        ASSERT_TRUE(same_bits(std::span(together).subspan(at, alone.size()), alone));
        at += alone.size();
      }
    }
  }
}

TEST_P(AttentionTest, InstructionSetsGiveTheSameBits) {
  for (const Layer& layer : layers()) {
    const StoredPages stored = pages(layer, 520);
    for (const Rows& rows : {Rows{&stored, 519, 1}, Rows{&stored, 480, 40}}) {
      const auto want = run(kernels_for(Isa::kRef), layer, {rows}, 1);
      for (Isa isa : vector_isas()) {
        ASSERT_TRUE(same_bits(run(kernels_for(isa), layer, {rows}, 2), want)) << isa_name(isa);
      }
    }
  }
}

// Pages before the window of every row must not be read.
TEST_P(AttentionTest, PagesBeforeTheWindowAreNotRead) {
  Layer layer(2, 1, 16);
  layer.plain.window = 200;
  StoredPages stored = pages(layer, 1000);
  const auto before = run(best(), layer, {{&stored, 980, 20}}, 2);
  for (size_t page = 0; page < 12; ++page) stored.pages[page] = nullptr;  // 980 - 199 = 781 = 12 * 64 + 13
  EXPECT_TRUE(same_bits(run(best(), layer, {{&stored, 980, 20}}, 2), before));
}

oracle::Vector wide(const float* values, size_t n) {
  return Eigen::Map<const Eigen::RowVectorXf>(values, static_cast<oracle::Index>(n)).cast<double>();
}

// Returns the largest error of any output compared with double, with keys and values as stored, or as before storing.
double largest_error(const Kernels& kernels, const Layer& layer, const StoredPages& stored, bool as_stored) {
  const AttentionShape shape = layer.shape();
  const size_t dim = shape.head_dim, group = shape.n_heads / shape.n_kv_heads;
  const Rows rows{&stored, stored.n_positions() - 3, 3};
  const auto got = run(kernels, layer, {rows}, 1);
  double worst = 0;
  for (size_t h = 0; h < shape.n_heads; ++h) {
    oracle::Matrix k(stored.n_positions(), dim), v(stored.n_positions(), dim);
    std::vector<float> key(dim), value(dim);
    for (size_t p = 0; p < stored.n_positions(); ++p) {
      kernels.kv_load(stored.block, stored.head(p / 64, h / group), p % 64, key.data(), value.data());
      if (!as_stored) {
        std::copy_n(stored.k(p, h / group), dim, key.begin());
        std::copy_n(stored.v(p, h / group), dim, value.begin());
      }
      k.row(static_cast<oracle::Index>(p)) = wide(key.data(), dim);
      v.row(static_cast<oracle::Index>(p)) = wide(value.data(), dim);
    }
    oracle::Scores rule{double{shape.scale}, double{shape.softcap}, std::nullopt};
    if (shape.sinks != nullptr) rule.sink = double{shape.sinks[h]};
    for (size_t i = 0; i < rows.n_rows; ++i) {
      const size_t position = rows.first_position + i;
      const size_t begin = shape.window != 0 && position + 1 > shape.window ? position + 1 - shape.window : 0;
      const auto first = static_cast<oracle::Index>(begin), n = static_cast<oracle::Index>(position + 1 - begin);
      const auto q = query(layer, stored, position);
      const oracle::Vector want =
          oracle::attend(rule, wide(&q[h * dim], dim), k.middleRows(first, n), v.middleRows(first, n));
      const oracle::Vector out = wide(&got[i * layer.stride() + h * dim], dim);
      worst = std::max(worst, (out - want).cwiseAbs().maxCoeff());
    }
  }
  return worst;
}

// Values are uniform in [-2, 2); scores have a standard deviation of approximately 1.3.
TEST_P(AttentionTest, ArithmeticErrorIsBounded) {
  const bool rounded = is_coded(GetParam().keys) || is_coded(GetParam().values);  // of queries or of weights
  for (const Layer& layer : layers()) {
    const StoredPages stored = pages(layer, 900);
    EXPECT_LT(largest_error(best(), layer, stored, true), rounded ? 2e-2 : 2e-6);
    EXPECT_LT(largest_error(reference_kernels(), layer, stored, true), 1e-6);
  }
}

TEST_P(AttentionTest, ErrorOfStoredKvFormatsIsBounded) {
  // In 4 bits a step is approximately 0.3, so the error is 0.09 for a value (one standard deviation) and 0.1 for a
  // score. A window of 100 positions effectively averages over 18 of them, so outputs have an error of 0.02; the
  // largest of a thousand errors is five times that.
  constexpr double kBounds[] = {2e-6, 1e-3, 3e-2, 0.1};
  const auto [keys, values] = GetParam();
  const bool both_int4 = keys == KvNumberFormat::kInt4 && values == KvNumberFormat::kInt4;
  const double bound = both_int4 ? 0.14 : kBounds[static_cast<size_t>(std::max(keys, values))];
  for (const Layer& layer : layers()) {
    const StoredPages stored = pages(layer, 900);
    EXPECT_LT(largest_error(best(), layer, stored, false), bound) << layer.plain.head_dim;
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, AttentionTest, ::testing::ValuesIn(kKvFormats),
                         [](const auto& format) { return kv_format_name(format.param); });

TEST(Attention, NeighbouringHeadsAreNotOverwritten) {
  // head_dim 8 is half a vector, so writing head h of `out` must not overwrite head h + 1 or the next row.
  const Layer layer(4, 2, 8);
  const StoredPages stored(best(), KvDType::kF32, 2, 8, 70, 1);
  const auto forward = run(best(), layer, {{&stored, 0, 70}}, 1);
  for (size_t row = 0; row < 70; ++row) {
    const auto alone = run(best(), layer, {{&stored, row, 1}}, 1);
    ASSERT_TRUE(same_bits(alone, std::span(forward).subspan(row * layer.stride(), layer.stride()))) << row;
  }
}

TEST(Attention, ScratchIsProportionalToThreadsAndPositions) {
  const Layer layer(9, 3, 64);
  const size_t one = attention_scratch_bytes(layer.shape(), 512, 4096, 1);
  EXPECT_EQ(attention_scratch_bytes(layer.shape(), 512, 4096, 4), 4 * one);
  EXPECT_GT(attention_scratch_bytes(layer.shape(), 512, 8192, 1), one);
  EXPECT_LT(attention_scratch_bytes(layer.shape(), 1, 4096, 1), one);
  EXPECT_EQ(one % 64, 0u);
}

}  // namespace
}  // namespace ibid
