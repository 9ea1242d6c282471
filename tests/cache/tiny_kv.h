// Small keys and values for the tests of the cache. Those of a position are a pure function of the tokens up to it, as
// in a model, so an entry can be checked by its tokens alone.
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
// As tiny_layout(), with two recurrent layers, whose states are pure functions of the tokens too.
KvLayout tiny_recurrent_layout(KvDType dtype);
// As tiny_layout(), with one more layer, which has a window; with recurrent layers; with both.
enum class TinyKind { kPlain, kRecurrent, kWindowed, kWindowedRecurrent };
KvLayout tiny_layout(TinyKind kind, KvDType dtype = KvDType::kF32);
inline constexpr TinyKind kEveryTinyKind[] = {TinyKind::kPlain, TinyKind::kRecurrent, TinyKind::kWindowed,
                                              TinyKind::kWindowedRecurrent};
inline constexpr size_t kTinyWindow = 70;
inline constexpr KvDType kEveryKvDType[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4,
                                            KvDType::kInt4};
const Kernels& tiny_kernels();

// Keys and values that the model would compute for `tokens` after `history`: k and v of one layer, [T, kv_dim].
struct TinyRows {
  std::vector<float> k, v;
};
TinyRows tiny_rows(const KvLayout& layout, TokenSpan history, TokenSpan tokens, size_t layer);

// One pass: reserve, append in every layer, commit.
Status feed(KvCacheEntry& entry, TokenSpan tokens);
// As feed(), in passes of n_rows.
Status feed_in_passes(KvCacheEntry& entry, TokenSpan tokens, size_t n_rows);
// Evicts the window parts that the entry has not leased: those of pages before its window.
void lose_windows(KvPagePool& pool, const KvCacheEntry& entry);
// As feed() without commit, in the first n_layers layers only: a cancelled pass.
Status feed_without_commit(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers);

// All committed keys and values as attention reads them: per layer, head and position k, then v; of a layer with a
// window, those that the next position reads.
std::vector<float> read_rows(const KvCacheEntry& entry);

// The expected result of read_rows() for these tokens, from a new entry fed in one pass.
std::vector<float> fresh_rows(const KvLayout& layout, TokenSpan tokens);

// The states of all recurrent layers from which the entry resumes; and their expected values for these tokens.
std::vector<float> read_states(const KvCacheEntry& entry);
std::vector<float> fresh_states(const KvLayout& layout, TokenSpan tokens);

// n pseudo-random tokens by seed.
Tokens random_tokens(uint64_t seed, size_t n, TokenId vocab_size = 50000);

Tokens concat(TokenSpan a, TokenSpan b);

}  // namespace ibid
