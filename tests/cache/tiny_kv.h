// Small keys and values for the tests of the cache. The row at a position is a pure function of the ids up to
// that position, as in a model: so an entry's rows can be checked against its tokens alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_layout.h"
#include "ibid/token.h"

namespace ibid {

// 2 layers, 2 KV heads of 8 dimensions.
KvLayout tiny_layout(KvDType dtype);
// The same with two recurrent layers, whose state is a pure function of the ids, too.
KvLayout tiny_recurrent_layout(KvDType dtype);
// The same with a layer more, which has a window; and with both.
enum class TinyKind { kPlain, kRecurrent, kWindowed, kWindowedRecurrent };
KvLayout tiny_layout(TinyKind kind, KvDType dtype = KvDType::kF32);
inline constexpr TinyKind kEveryTinyKind[] = {TinyKind::kPlain, TinyKind::kRecurrent, TinyKind::kWindowed,
                                              TinyKind::kWindowedRecurrent};
inline constexpr size_t kTinyWindow = 70;
inline constexpr KvDType kEveryKvDType[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4,
                                            KvDType::kInt4};
const Kernels& tiny_kernels();

// What the model would compute for `tokens` after the ids in `history`: k and v of one layer, [T, kv_dim].
struct TinyRows {
  std::vector<float> k, v;
};
TinyRows tiny_rows(const KvLayout& layout, TokenSpan history, TokenSpan tokens, size_t layer);

// One pass: reserve, append in every layer, commit.
Status feed(KvCacheEntry& entry, TokenSpan tokens);
// The same in passes of n_rows.
Status feed_in_passes(KvCacheEntry& entry, TokenSpan tokens, size_t n_rows);
// What the entry has not leased is gone: what lies behind its window.
void lose_windows(KvPagePool& pool, const KvCacheEntry& entry);
// The same without commit, in the first n_layers layers only: a pass that was cancelled.
Status feed_without_commit(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers);

// All committed rows as attention sees them: per layer, head and position k then v; of a layer with
// a window, those that the next position reads.
std::vector<float> read_rows(const KvCacheEntry& entry);

// What read_rows must be for these ids, from an entry of its own that was fed in one piece.
std::vector<float> fresh_rows(const KvLayout& layout, TokenSpan tokens);

// The state that the entry goes on from, of all recurrent layers; and what it must be for these ids.
std::vector<float> read_states(const KvCacheEntry& entry);
std::vector<float> fresh_states(const KvLayout& layout, TokenSpan tokens);

// n ids that depend on the seed.
Tokens random_tokens(uint64_t seed, size_t n, TokenId vocab_size = 50000);

Tokens concat(TokenSpan a, TokenSpan b);

}  // namespace ibid
