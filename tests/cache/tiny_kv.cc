#include "tests/cache/tiny_kv.h"

#include <random>

#include "kernels/dispatch.h"

namespace ibid {

KvLayout tiny_layout(KvDType dtype) { return KvLayout::make(2, 2, 8, dtype); }

const Kernels& tiny_kernels() { return kernels_for(Isa::kRef); }

namespace {

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

float element(uint64_t hash, size_t layer, size_t dim, uint64_t salt) {
  const uint64_t bits = mix(mix(mix(hash, layer), dim), salt);
  return static_cast<float>(static_cast<int64_t>(bits % 2001) - 1000) / 500.0f;
}

Status stage(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers) {
  TRY(entry.reserve(tokens.size()));
  Barrier barrier(1);
  const Worker worker(0, 1, barrier);
  for (size_t layer = 0; layer < n_layers; ++layer) {
    const TinyRows rows = tiny_rows(entry.layout(), entry.tokens(), tokens, layer);
    entry.append(worker, tiny_kernels(), layer, rows.k.data(), rows.v.data(), entry.layout().layer(layer).kv_dim(),
                 tokens.size());
  }
  return {};
}

}  // namespace

TinyRows tiny_rows(const KvLayout& layout, TokenSpan history, TokenSpan tokens, size_t layer) {
  uint64_t hash = 1;
  for (const TokenId id : history) hash = mix(hash, static_cast<uint64_t>(id));
  TinyRows rows;
  for (const TokenId id : tokens) {
    hash = mix(hash, static_cast<uint64_t>(id));
    for (size_t dim = 0; dim < layout.layer(layer).kv_dim(); ++dim) {
      rows.k.push_back(element(hash, layer, dim, 'k'));
      rows.v.push_back(element(hash, layer, dim, 'v'));
    }
  }
  return rows;
}

Status feed(KvCacheEntry& entry, TokenSpan tokens) {
  TRY(stage(entry, tokens, entry.layout().n_layers()));
  entry.commit(tokens);
  return {};
}

Status feed_without_commit(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers) {
  return stage(entry, tokens, n_layers);
}

std::vector<float> read_rows(const KvCacheEntry& entry) {
  const KvLayout& layout = entry.layout();
  std::vector<float> rows;
  for (const KvLayer& layer : layout.layers()) {
    std::vector<float> k(layer.row.head_dim + 16), v(layer.row.head_dim + 16);
    for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
      for (size_t position = 0; position < entry.length(); ++position) {
        const std::byte* block =
            entry.page_data()[position / kPagePositions] + layer.head_offset(head);
        tiny_kernels().kv_load(layer.block, block, position % kPagePositions, k.data(), v.data());
        rows.insert(rows.end(), k.begin(), k.begin() + static_cast<ptrdiff_t>(layer.row.head_dim));
        rows.insert(rows.end(), v.begin(), v.begin() + static_cast<ptrdiff_t>(layer.row.head_dim));
      }
    }
  }
  return rows;
}

std::vector<float> fresh_rows(const KvLayout& layout, TokenSpan tokens) {
  KvPagePool pool(layout, layout.page_bytes() * KvLayout::pages_for(tokens.size()));
  KvCacheEntry entry(pool);
  CHECK(feed(entry, tokens).ok());
  return read_rows(entry);
}

Tokens random_tokens(uint64_t seed, size_t n, TokenId vocab_size) {
  std::mt19937_64 rng(seed);
  std::uniform_int_distribution<TokenId> id(0, vocab_size - 1);
  Tokens tokens(n);
  for (TokenId& token : tokens) token = id(rng);
  return tokens;
}

Tokens concat(TokenSpan a, TokenSpan b) {
  Tokens tokens(a.begin(), a.end());
  tokens.insert(tokens.end(), b.begin(), b.end());
  return tokens;
}

}  // namespace ibid
