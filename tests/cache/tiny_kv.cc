#include "tests/cache/tiny_kv.h"

#include <algorithm>
#include <random>

#include "kernels/ops/dispatch.h"

namespace ibid {

KvLayout tiny_layout(KvDType dtype) { return KvLayout::make(2, 2, 8, dtype); }

KvLayout tiny_recurrent_layout(KvDType dtype) {
  const std::vector<KvRowShape> rows(2, KvRowShape{2, 8});
  const std::vector<StateShape> states = {{5, 3}, {33, 1}};
  return KvLayout::make(rows, dtype, states);
}

KvLayout tiny_layout(TinyKind kind, KvDType dtype) {
  if (kind == TinyKind::kPlain) return tiny_layout(dtype);
  if (kind == TinyKind::kRecurrent) return tiny_recurrent_layout(dtype);
  const std::vector<KvRowShape> rows = {{2, 8, kTinyWindow}, {2, 8}};
  const std::vector<StateShape> states = {{5, 3}, {33, 1}};
  return KvLayout::make(rows, dtype, std::span(states).first(kind == TinyKind::kWindowed ? 0 : 2));
}

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

// Computes what a position adds to a state (its row), and the next state. States are integers below 2^20: exact.
void give_row(TokenId id, size_t layer, const StateShape& shape, float* row) {
  for (size_t i = 0; i < shape.row_floats; ++i) row[i] = static_cast<float>(static_cast<size_t>(id) + layer + i);
}
void advance(const StateShape& shape, const float* row, float* state) {
  for (size_t i = 0; i < shape.floats; ++i) {
    const auto before = static_cast<uint64_t>(state[i]), given = static_cast<uint64_t>(row[i % shape.row_floats]);
    state[i] = static_cast<float>(mix(before + i, given) % (1u << 20));
  }
}

// Writes every output that a model writes, and nothing else.
void stage_states(KvCacheEntry& entry, TokenSpan tokens) {
  SequenceState& state = entry.state();
  for (size_t layer = 0; layer < entry.layout().n_states(); ++layer) {
    const StateShape& shape = entry.layout().state(layer);
    std::vector<float> now(shape.floats, 0.0f), row(shape.row_floats);
    if (const float* before = state.before(layer)) now.assign(before, before + shape.floats);
    for (size_t i = 0; i < state.n_replayed(); ++i) advance(shape, state.replayed_row(layer, i), now.data());
    if (state.n_replayed() > 0) std::copy(now.begin(), now.end(), state.replayed(layer));
    for (size_t i = 0; i < tokens.size(); ++i) {
      give_row(tokens[i], layer, shape, row.data());
      advance(shape, row.data(), now.data());
      if (float* logged = state.logged_row(layer, i)) std::copy(row.begin(), row.end(), logged);
    }
    std::copy(now.begin(), now.end(), state.after(layer));
    state.stage(layer, tokens.size());
  }
}

Status stage(KvCacheEntry& entry, TokenSpan tokens, size_t n_layers) {
  TRY(entry.reserve(tokens.size()));
  stage_states(entry, tokens);
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

Status feed_in_passes(KvCacheEntry& entry, TokenSpan tokens, size_t n_rows) {
  for (size_t i = 0; i < tokens.size(); i += n_rows) {
    TRY(feed(entry, tokens.subspan(i, std::min(n_rows, tokens.size() - i))));
  }
  return {};
}

void lose_windows(KvPagePool& pool, const KvCacheEntry& entry) {
  if (pool.layout().window() == 0) return;
  for (size_t i = 0; i < entry.pages().size() && entry.page_data(PagePart::kWindow)[i] == nullptr; ++i) {
    pool.drop_window(entry.pages()[i]);
  }
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
      // Only the positions that the next one reads.
      const size_t window = layer.row.window == 0 ? entry.length() : std::min(layer.row.window - 1, entry.length());
      for (size_t position = entry.length() - window; position < entry.length(); ++position) {
        const std::byte* block = entry.parts(position / kPagePositions).head(layer, head);
        tiny_kernels().kv_load(layer.block, block, position % kPagePositions, k.data(), v.data());
        rows.insert(rows.end(), k.begin(), k.begin() + static_cast<ptrdiff_t>(layer.row.head_dim));
        rows.insert(rows.end(), v.begin(), v.begin() + static_cast<ptrdiff_t>(layer.row.head_dim));
      }
    }
  }
  return rows;
}

std::vector<float> fresh_rows(const KvLayout& layout, TokenSpan tokens) {
  KvPagePool pool(layout, layout.page_bytes() * KvLayout::pages_for(tokens.size()) + 3 * layout.state_bytes());
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

std::vector<float> read_states(const KvCacheEntry& entry) {
  const KvLayout& layout = entry.layout();
  const StateSnapshot from = entry.state().now(entry.length());
  std::vector<float> states;
  for (size_t layer = 0; layer < layout.n_states(); ++layer) {
    const StateShape& shape = layout.state(layer);
    std::vector<float> state(shape.floats, 0.0f);
    if (from.state) {
      const auto* floats = reinterpret_cast<const float*>(from.state.data()) + layout.state_offset(layer);
      state.assign(floats, floats + shape.floats);
    }
    for (size_t i = 0; i < from.n_rows; ++i) {
      advance(shape, from.rows->row(i) + layout.row_offset(layer), state.data());
    }
    states.insert(states.end(), state.begin(), state.end());
  }
  return states;
}

std::vector<float> fresh_states(const KvLayout& layout, TokenSpan tokens) {
  std::vector<float> states;
  for (size_t layer = 0; layer < layout.n_states(); ++layer) {
    const StateShape& shape = layout.state(layer);
    std::vector<float> state(shape.floats, 0.0f), row(shape.row_floats);
    for (const TokenId id : tokens) {
      give_row(id, layer, shape, row.data());
      advance(shape, row.data(), state.data());
    }
    states.insert(states.end(), state.begin(), state.end());
  }
  return states;
}

}  // namespace ibid
