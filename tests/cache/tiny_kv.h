// Small keys and values for the tests of the cache. As in a model, those of a position are a pure function of the
// tokens up to it, so an entry can be checked by its tokens alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/pages/kv_layout.h"
#include "ibid/token.h"

namespace ibid {

// Namespaces of the store.
inline constexpr const char* kAlice = "alice";
inline constexpr const char* kBob = "bob";

// 2 layers, 2 KV heads of 8 dimensions.
KvLayout tiny_layout(KvDType dtype);
// As tiny_layout(), with two recurrent layers, whose states are pure functions of the tokens too.
KvLayout tiny_recurrent_layout(KvDType dtype);
// Layouts as tiny_layout(), plain; with recurrent layers; with one more layer, which has a window; with both.
enum class TinyKind { kPlain, kRecurrent, kWindowed, kWindowedRecurrent };
KvLayout tiny_layout(TinyKind kind, KvDType dtype = KvDType::kF32);
inline constexpr TinyKind kEveryTinyKind[] = {TinyKind::kPlain, TinyKind::kRecurrent, TinyKind::kWindowed,
                                              TinyKind::kWindowedRecurrent};
inline constexpr size_t kTinyWindow = 70;
inline constexpr KvDType kEveryKvDType[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4,
                                            KvDType::kInt4};
const Kernels& tiny_kernels();

// Keys and values of one layer, [T, kv_dim], that the model would compute for `tokens` after `history`.
struct TinyRows {
  std::vector<float> k, v;
};
TinyRows tiny_rows(const KvLayout& layout, TokenSpan history, TokenSpan tokens, size_t layer);

// Feeds the tokens in one pass: reserve, append in every layer, commit.
Status feed(KvCacheEntry& entry, TokenSpan tokens);
// Feeds the tokens in passes of n_rows.
Status feed_in_passes(KvCacheEntry& entry, TokenSpan tokens, size_t n_rows);
// Evicts the window parts that the entry has not leased: those of pages before its window.
void lose_windows(KvPagePool& pool, const KvCacheEntry& entry);
// A cancelled pass: as feed(), but only in the first n_layers layers and without commit.
Status feed_without_commit(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers);

// Returns all committed keys and values as attention reads them: per layer, head and position k, then v; for a layer
// with a window only those that the next position reads.
std::vector<float> read_rows(const KvCacheEntry& entry);

// The expected result of read_rows() for these tokens, from a new entry fed in one pass.
std::vector<float> fresh_rows(const KvLayout& layout, TokenSpan tokens);

// The states of all recurrent layers at which the entry resumes, and their expected values for these tokens.
std::vector<float> read_states(const KvCacheEntry& entry);
std::vector<float> fresh_states(const KvLayout& layout, TokenSpan tokens);

// n pseudo-random tokens by seed.
Tokens random_tokens(uint64_t seed, size_t n, TokenId vocab_size = 50000);

Tokens concat(TokenSpan a, TokenSpan b);

}  // namespace ibid
