// Sequences of one batch that begin with the same pages. Attention reads shared blocks once for all of them, and gives
// the same bits as for each sequence alone.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/ops/dispatch.h"
#include "tests/kernels/stored_pages.h"

namespace ibid {
namespace {

constexpr size_t kBlockPages = kAttentionBlock / kPagePositions;

struct SharedLayer {
  const char* name;
  size_t n_heads, n_kv_heads, head_dim;
  float softcap = 0;
  bool sinks = false;
  size_t window = 0;
};

constexpr SharedLayer kLayers[] = {{"groups of three", 9, 3, 64},
                                   {"groups of one", 2, 2, 40},
                                   {"groups of four, sinks and a soft cap", 4, 1, 24, 3.0f, true},
                                   {"groups of eight", 8, 1, 16},
                                   {"a window that hides nothing", 3, 1, 16, 0, false, 2000},
                                   {"a window that some sequences have outgrown", 3, 1, 16, 0, true, 850},
                                   {"a short window", 3, 1, 16, 0, false, 100}};

// One sequence: its new rows, and its pages, the first of which may belong to another sequence.
struct Sequence {
  std::vector<const std::byte*> pages;
  size_t first_position;
  size_t n_rows;
  uint64_t seed;
};

// Several sequences that share pages; owns the pages.
class Family {
 public:
  Family(const SharedLayer& layer, KvRowFormat format) : layer_(layer), format_(format) {}

  // Adds a sequence whose first n_shared pages are those of sequence `parent`; its later pages are its own.
  void add(size_t first_position, size_t n_rows, size_t parent = 0, size_t n_shared = 0) {
    const uint64_t seed = sequences_.size() + 1;
    memory_.push_back(std::make_unique<StoredPages>(kernels_for(Isa::kRef), format_, layer_.n_kv_heads, layer_.head_dim,
                                                    first_position + std::max<size_t>(n_rows, 1), seed));
    Sequence sequence{memory_.back()->pages, first_position, n_rows, seed};
    for (size_t i = 0; i < n_shared; ++i) sequence.pages[i] = sequences_[parent].pages[i];
    sequences_.push_back(std::move(sequence));
  }
  const std::vector<Sequence>& sequences() const { return sequences_; }
  const KvHeadBlock& block() const { return memory_[0]->block; }

 private:
  const SharedLayer& layer_;
  KvRowFormat format_;
  std::vector<std::unique_ptr<StoredPages>> memory_;
  std::vector<Sequence> sequences_;
};

// Sequences of all kinds: decoded rows, drafts, a prefill, an unrelated sequence, sequences that share blocks with one
// or two others, one that ends within its shared pages, and one without rows. Comments have their numbers.
Family mixed_family(const SharedLayer& layer, KvRowFormat format, size_t prefill_rows) {
  Family family(layer, format);
  family.add(900, 1);                    // 0
  family.add(830, 1);                    // 1  unrelated
  family.add(780, 1, 0, 5);              // 2  one block and a page with 0
  family.add(833, 8, 0, 13);             // 3  three blocks and a page with 0
  family.add(768, prefill_rows, 0, 12);  // 4  three blocks with 0, nothing else
  family.add(770, 3, 2, 9);              // 5  two blocks and a page with 2, one with 0
  family.add(600, 0, 0, 9);              // 6  no rows
  family.add(255, 1, 0, 3);              // 7  the last position of its first block: not yet a full one
  family.add(256, 1, 0, 4);              // 8  the first position after it
  family.add(901, 1, 0, 12);             // 9
  return family;
}

std::vector<float> sinks_of(const SharedLayer& layer) {
  std::vector<float> sinks;
  for (size_t h = 0; layer.sinks && h < layer.n_heads; ++h) sinks.push_back(0.5f * static_cast<float>(h) - 1.0f);
  return sinks;
}

size_t stride_of(const SharedLayer& layer) { return (layer.n_heads * layer.head_dim + 15) / 16 * 16; }

// Returns `out` of the sequences `which`, row by row in that order.
std::vector<float> run(const Kernels& kernels, const SharedLayer& layer, const Family& family,
                       const std::vector<size_t>& which, bool share, int n_threads) {
  const std::vector<float> sinks = sinks_of(layer);
  AttentionShape shape{layer.n_heads, layer.n_kv_heads, layer.head_dim};
  shape.scale = 1.0f / std::sqrt(static_cast<float>(layer.head_dim));
  shape.window = layer.window;
  shape.softcap = layer.softcap;
  shape.sinks = sinks.empty() ? nullptr : sinks.data();
  size_t n_rows = 0, max_positions = 0;
  std::vector<AttentionSequence> sequences;
  std::vector<float> q;
  for (const size_t i : which) {
    const Sequence& sequence = family.sequences()[i];
    sequences.push_back({sequence.pages.data(), n_rows, sequence.n_rows, sequence.first_position});
    n_rows += sequence.n_rows;
    max_positions = std::max(max_positions, sequence.first_position + sequence.n_rows);
    const auto rows = FloatSequence(sequence.seed * 977).vector(sequence.n_rows * stride_of(layer), -2, 2);
    q.insert(q.end(), rows.begin(), rows.end());
  }
  if (share) share_blocks(sequences);
  const size_t scratch_bytes = attention_scratch_bytes(shape, n_rows, max_positions, n_threads);
  AlignedBytes scratch(scratch_bytes), in(q.size() * 4 + 64), out(q.size() * 4 + 64);
  fill_with_nan(scratch.get(), scratch_bytes);
  std::memcpy(in.get(), q.data(), q.size() * 4);
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
  team->run([&](Worker& worker) {
    attention(worker, kernels, shape, family.block(), 0, sequences, in.floats(), out.floats(), stride_of(layer),
              scratch.get());
  });
  return {out.floats(), out.floats() + q.size()};
}

std::vector<size_t> everyone(const Family& family) {
  std::vector<size_t> all;
  for (size_t i = 0; i < family.sequences().size(); ++i) all.push_back(i);
  return all;
}

// Computes each sequence alone, one after the other, and returns all outputs.
std::vector<float> one_by_one(const Kernels& kernels, const SharedLayer& layer, const Family& family) {
  std::vector<float> all;
  for (size_t i = 0; i < family.sequences().size(); ++i) {
    if (family.sequences()[i].n_rows == 0) continue;
    const auto alone = run(kernels, layer, family, {i}, false, 1);
    all.insert(all.end(), alone.begin(), alone.end());
  }
  return all;
}

const Kernels& best_kernels() { return kernels_for(*active_isa()); }
size_t prefill_rows() { return *active_isa() == Isa::kRef ? 5 : 150; }  // fewer rows for the slow scalar kernels

class SharedBlocksTest : public ::testing::TestWithParam<KvRowFormat> {};

TEST_P(SharedBlocksTest, SharingDoesNotChangeABit) {
  for (const SharedLayer& layer : kLayers) {
    const Family family = mixed_family(layer, GetParam(), prefill_rows());
    const auto alone = one_by_one(best_kernels(), layer, family);
    for (const int n_threads : {1, 2, 3, 8}) {
      SCOPED_TRACE(std::string(layer.name) + ", " + std::to_string(n_threads) + " threads");
      ASSERT_TRUE(same_bits(run(best_kernels(), layer, family, everyone(family), true, n_threads), alone));
    }
  }
}

TEST_P(SharedBlocksTest, InstructionSetsGiveTheSameBits) {
  const SharedLayer& layer = kLayers[0];
  const Family family = mixed_family(layer, GetParam(), 5);
  const auto alone = one_by_one(kernels_for(Isa::kRef), layer, family);
  for (const Isa isa : kAllIsas) {
    if (!isa_supported(isa)) continue;
    ASSERT_TRUE(same_bits(run(kernels_for(isa), layer, family, everyone(family), true, 2), alone)) << isa_name(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, SharedBlocksTest, ::testing::ValuesIn(kKvFormats),
                         [](const auto& format) { return kv_format_name(format.param); });

// --- How often each block is read. The attend_tile below counts its calls by the first page's address.

std::mutex counts_mutex;
std::map<const std::byte*, size_t> counts;

void counting_attend_tile(const KvHeadBlock& block, const AttendTile& tile, std::byte* scratch) {
  {
    const std::lock_guard lock(counts_mutex);
    ++counts[tile.head_blocks[0]];
  }
  best_kernels().attend_tile(block, tile, scratch);
}

// Returns how often each block of each head is read in a pass over the whole family.
std::map<const std::byte*, size_t> reads(const SharedLayer& layer, const Family& family, bool share, int n_threads) {
  Kernels kernels = best_kernels();
  kernels.attend_tile = counting_attend_tile;
  counts.clear();
  run(kernels, layer, family, everyone(family), share, n_threads);
  return counts;
}

size_t reads_of(const std::map<const std::byte*, size_t>& of, const Family& family, size_t sequence, size_t kv_head,
                size_t block) {
  const auto at = of.find(family.sequences()[sequence].pages[block * kBlockPages] + kv_head * family.block().bytes);
  return at == of.end() ? 0 : at->second;
}

Family decoding_family(const SharedLayer& layer, size_t n_sequences, size_t n_rows) {
  Family family(layer, KvDType::kF16);
  family.add(800, n_rows);
  for (size_t i = 1; i < n_sequences; ++i) family.add(800 + i, n_rows, 0, 12);
  return family;
}

TEST(SharedBlocks, SharedAndOwnBlocksAreReadOnce) {
  const SharedLayer& layer = kLayers[0];
  const Family family = decoding_family(layer, 8, 8);
  const auto apart = reads(layer, family, false, 1);
  EXPECT_EQ(reads_of(apart, family, 0, 0, 0), 8u);
  for (const int n_threads : {1, 2, 3}) {
    const auto together = reads(layer, family, true, n_threads);
    EXPECT_EQ(together.size(), 3u * (3 + 8));  // heads x (shared blocks and own blocks)
    for (const auto& [head, n] : together) EXPECT_EQ(n, 1u);
  }
}

TEST(SharedBlocks, SharedBlocksAreReadOnceAtEveryDepth) {
  const SharedLayer& layer = kLayers[0];
  Family family(layer, KvDType::kF16);
  family.add(1100, 1);
  family.add(1030, 1, 0, 4);
  family.add(1050, 1, 0, 12);
  family.add(1060, 1, 1, 8);
  const auto together = reads(layer, family, true, 2);
  // Block 0 is shared by all; blocks 1 and 2 by sequences 0 and 2; block 1 by 1 and 3. Others are not shared.
  EXPECT_EQ(together.size(), 3u * (1 + 2 + 1 + 2 + 2 + 3 + 3));
  for (const auto& [head, n] : together) EXPECT_EQ(n, 1u);
}

// With three query heads per KV head a tile has 64 tokens. If there are more sequences than fit into one, each tile
// reads the shared blocks once, and each sequence's own blocks are read once.
TEST(SharedBlocks, SharedBlocksAreReadOncePerTile) {
  const SharedLayer& layer = kLayers[0];
  const Family family = decoding_family(layer, 65, 1);
  const auto together = reads(layer, family, true, 2);
  EXPECT_EQ(reads_of(together, family, 0, 1, 2), 2u);
  for (size_t i = 0; i < 65; ++i) EXPECT_EQ(reads_of(together, family, i, 1, 3), 1u);
}

// With sharing, a sequence with a long chunk is in as many tiles as if it were alone.
TEST(SharedBlocks, SharingDoesNotIncreaseReadsOfOwnBlocks) {
  const SharedLayer& layer = kLayers[0];
  Family family(layer, KvDType::kF16);
  family.add(512, 40);
  family.add(520, 60, 0, 4);   // does not fit into the tile of the 40 rows before
  family.add(530, 130, 0, 4);  // three tiles
  family.add(540, 1, 0, 4);    // fits into the last of these tiles
  const auto together = reads(layer, family, true, 2);
  const auto apart = reads(layer, family, false, 2);
  for (const auto& [head, n] : together) EXPECT_LE(n, apart.at(head));
  EXPECT_EQ(reads_of(apart, family, 0, 0, 0), 6u);
  EXPECT_EQ(reads_of(together, family, 0, 0, 0), 5u);
}

TEST(SharedBlocks, WindowThatHidesPositionsDisablesSharing) {
  SharedLayer layer = kLayers[0];
  layer.window = 750;
  const Family family = decoding_family(layer, 4, 1);
  EXPECT_EQ(reads_of(reads(layer, family, true, 1), family, 0, 0, 1), 4u);
  layer.window = 804;
  EXPECT_EQ(reads_of(reads(layer, family, true, 1), family, 0, 0, 1), 1u);
}

// --- share_blocks()

using PageList = std::vector<const std::byte*>;

size_t full_blocks(const AttentionSequence& s) { return s.n_rows == 0 ? 0 : s.first_position / kAttentionBlock; }

size_t common_blocks(const AttentionSequence& a, const AttentionSequence& b) {
  size_t n = 0;
  while (n < std::min(full_blocks(a), full_blocks(b)) &&
         PageList(a.pages, a.pages + (n + 1) * kBlockPages) == PageList(b.pages, b.pages + (n + 1) * kBlockPages)) {
    ++n;
  }
  return n;
}

// For random trees the number of blocks to read equals the number of distinct prefixes.
TEST(ShareBlocks, EveryDistinctPrefixIsReadOnce) {
  std::mt19937 random(1);
  std::vector<std::byte> memory(4);  // addresses of pages, whose contents are not read
  for (size_t round = 0; round < 500; ++round) {
    std::vector<PageList> pages;
    std::vector<AttentionSequence> sequences;
    for (size_t i = 0, n = random() % 12; i < n; ++i) {
      PageList list(5 * kBlockPages);
      for (size_t block = 0; block < 5; ++block) {
        // Use only a few different blocks, so that they are often equal; some differ only in one of the last two pages.
        for (size_t page = 0; page < kBlockPages; ++page) list[block * kBlockPages + page] = &memory[0];
        if (random() % 3 == 0) list[(block + 1) * kBlockPages - 1 - random() % 2] = &memory[random() % 3];
      }
      pages.push_back(list);
    }
    for (const PageList& list : pages) {
      sequences.push_back({list.data(), sequences.size(), random() % 4, random() % (5 * kAttentionBlock), 99});
    }
    share_blocks(sequences);
    std::set<PageList> beginnings;
    std::set<size_t> seen;
    size_t left_to_read = 0;
    for (size_t i = 0; i < sequences.size(); ++i) {
      seen.insert(sequences[i].first_row);
      ASSERT_EQ(sequences[i].shared_blocks, i == 0 ? 0 : common_blocks(sequences[i - 1], sequences[i]));
      left_to_read += full_blocks(sequences[i]) - sequences[i].shared_blocks;
      for (size_t n = 1; n <= full_blocks(sequences[i]); ++n) {
        beginnings.insert(PageList(sequences[i].pages, sequences[i].pages + n * kBlockPages));
      }
    }
    ASSERT_EQ(left_to_read, beginnings.size());
    ASSERT_EQ(seen.size(), sequences.size());
  }
}

TEST(ShareBlocks, SequencesThatShareNothingKeepTheirOrder) {
  std::vector<std::byte> memory(12 * kBlockPages);
  std::vector<PageList> pages;
  std::vector<AttentionSequence> sequences;
  for (size_t i = 0; i < 12; ++i) {
    PageList list;
    for (size_t page = 0; page < kBlockPages; ++page) list.push_back(&memory[(11 - i) * kBlockPages + page]);
    pages.push_back(list);
  }
  for (size_t i = 0; i < 12; ++i) sequences.push_back({pages[i].data(), i, 1, kAttentionBlock, 1});
  share_blocks(sequences);
  for (size_t i = 0; i < 12; ++i) {
    EXPECT_EQ(sequences[i].first_row, i);
    EXPECT_EQ(sequences[i].shared_blocks, 0u);
  }
}

}  // namespace
}  // namespace ibid
