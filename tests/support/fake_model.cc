#include "tests/support/fake_model.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "base/check.h"
#include "kernels/ops/dispatch.h"
#include "tests/support/fake_tokenizer.h"

namespace ibid {
namespace {

constexpr size_t kHeadDim = 4;
constexpr size_t kStateFloats = 2;
constexpr uint64_t kHashStart = 0xCBF29CE484222325u;

uint64_t mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 29);
}

const Kernels& kernels() { return kernels_for(Isa::kRef); }

struct Row {
  float k[kHeadDim];
  float v[kHeadDim];
};

Row load_row(const KvCacheEntry& entry, size_t layer, size_t position) {
  const KvLayer& rows = entry.layout().layer(layer);
  if (rows.part == PagePart::kWindow) {
    CHECK(entry.page_data(PagePart::kWindow)[position / kPagePositions] != nullptr)
        << "position " << position << " of " << entry.length() << " is read without a lease";
  }
  Row row{};
  const std::byte* block = entry.parts(position / kPagePositions).layer(rows);
  kernels().kv_load(rows.block, block, position % kPagePositions, row.k, row.v);
  return row;
}

std::vector<KvRowShape> row_shapes(const FakeModel::Options& options) {
  std::vector<KvRowShape> rows(options.n_layers, KvRowShape{1, kHeadDim, options.window});
  rows.front().window = 0;
  return rows;
}

}  // namespace

FakeModel::FakeModel(const Options& options)
    : options_(options),
      layout_(KvLayout::make(row_shapes(options), KvDType::kF32,
                             std::vector(options.recurrent ? 2 : 0, StateShape{kStateFloats, 1}))) {}

// A state consists of the number of tokens before it, and a hash of them that is exact in a float.
void FakeModel::stage_states(const SequenceChunk& chunk) const {
  const auto advance = [](std::array<float, kStateFloats>& state, float id) {
    ++state[0];
    state[1] = static_cast<float>(mix(static_cast<uint64_t>(state[1]), static_cast<uint64_t>(id)) & 0xfffff);
  };
  SequenceState& states = chunk.entry->state();
  std::array<float, kStateFloats> cold{};
  if (layout_.n_states() > 0) {
    for (const TokenId id : chunk.entry->tokens()) advance(cold, static_cast<float>(id));
  }
  for (size_t layer = 0; layer < layout_.n_states(); ++layer) {
    std::array<float, kStateFloats> state{};
    if (const float* before = states.before(layer)) std::copy_n(before, kStateFloats, state.begin());
    for (size_t i = 0; i < states.n_replayed(); ++i) advance(state, *states.replayed_row(layer, i));
    if (states.n_replayed() > 0) std::copy(state.begin(), state.end(), states.replayed(layer));
    CHECK(state == cold) << "the pass starts with the state of a different text at " << chunk.entry->length();
    for (size_t i = 0; i < chunk.tokens.size(); ++i) {
      const auto id = static_cast<float>(chunk.tokens[i]);
      advance(state, id);
      if (float* logged = states.logged_row(layer, i)) *logged = id;
    }
    std::copy(state.begin(), state.end(), states.after(layer));
    states.stage(layer, chunk.tokens.size());
  }
}

Status FakeModel::forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) {
  const size_t call = n_calls_++;
  size_t n_rows = 0, n_wanted = 0;
  for (const SequenceChunk& chunk : batch) {
    if (chunk.tokens.empty()) return {ErrorCode::kInvalidArgument, "an empty chunk"};
    for (const TokenId id : chunk.tokens) {
      if (id < 0 || static_cast<size_t>(id) >= vocab_size()) return {ErrorCode::kInvalidArgument, "id out of range"};
    }
    if (chunk.entry->length() + chunk.tokens.size() > max_seq_len()) return {ErrorCode::kContextFull, "too long"};
    n_rows += chunk.tokens.size();
    n_wanted += chunk.want == WantLogits::kAll ? chunk.tokens.size() : chunk.want == WantLogits::kLast ? 1 : 0;
  }
  if (n_rows > max_chunk()) return {ErrorCode::kInvalidArgument, "more than max_chunk rows"};
  for (const SequenceChunk& chunk : batch) TRY(chunk.entry->reserve(chunk.tokens.size()));
  for (size_t layer = 0; layer < options_.n_layers; ++layer) {
    if (before_layer) TRY(before_layer(call, layer));
    if (stop.stop_requested()) return {ErrorCode::kCancelled, "cancelled in layer " + std::to_string(layer)};
    for (const SequenceChunk& chunk : batch) TRY(stage(chunk, layer));
  }
  for (const SequenceChunk& chunk : batch) stage_states(chunk);
  std::vector<size_t> lengths;
  for (const SequenceChunk& chunk : batch) lengths.push_back(chunk.entry->length());
  const auto n_fed = static_cast<std::ptrdiff_t>(fed_.size());
  try {
    finish_pass(batch, n_wanted, logits);
  } catch (const std::bad_alloc&) {
    for (size_t i = 0; i < batch.size(); ++i) batch[i].entry->slice_to_length(lengths[i]);
    fed_.erase(fed_.begin() + n_fed, fed_.end());
    throw;
  }
  return {};
}

// Commits the chunks, and writes the wanted logits.
void FakeModel::finish_pass(std::span<const SequenceChunk> batch, size_t n_wanted, Logits& logits) {
  const size_t stride = (vocab_size() + 15) / 16 * 16;
  float* out = logits.resize(n_wanted, vocab_size(), stride);
  for (const SequenceChunk& chunk : batch) {
    fed_.push_back({chunk.entry->length(), Tokens(chunk.tokens.begin(), chunk.tokens.end()), chunk.want});
    chunk.entry->commit(chunk.tokens);
    check_window(*chunk.entry, chunk.tokens.size());
    if (chunk.want == WantLogits::kNone) continue;
    write_logits(chunk, logits, out);
    out += stride * (chunk.want == WantLogits::kAll ? chunk.tokens.size() : 1);
  }
}

Status FakeModel::stage(const SequenceChunk& chunk, size_t layer) const {
  std::vector<float> k, v;
  for (size_t i = 0; i < chunk.tokens.size(); ++i) {
    const auto id = static_cast<float>(chunk.tokens[i]);
    const auto position = static_cast<float>(chunk.entry->length() + i);
    k.insert(k.end(), {id, position, static_cast<float>(layer), 1.0f});
    v.insert(v.end(), {-id, -position, 0.5f, 2.0f});
  }
  Barrier alone(1);
  chunk.entry->append(Worker(0, 1, alone), kernels(), layer, k.data(), v.data(), kHeadDim, chunk.tokens.size());
  return {};
}

// Continues `hash` with the tokens that the keys of positions [begin, end) contain.
uint64_t FakeModel::hash_rows(const KvCacheEntry& entry, size_t begin, size_t end, uint64_t hash,
                              Tokens& prefix) const {
  for (size_t position = begin; position < end; ++position) {
    const Row first = load_row(entry, 0, position);
    for (size_t layer = 0; layer < options_.n_layers; ++layer) {
      if (layout_.layer(layer).part == PagePart::kWindow) continue;
      const Row row = load_row(entry, layer, position);
      hash = mix(hash, static_cast<uint64_t>(row.k[0]) << 32 | static_cast<uint64_t>(row.k[1]));
      CHECK_EQ(row.k[2], static_cast<float>(layer));
      CHECK_EQ(row.k[0], first.k[0]);
      CHECK_EQ(row.v[0], -first.k[0]);
    }
    prefix.push_back(static_cast<TokenId>(first.k[0]));
  }
  return hash;
}

// Checks the positions that the last n_rows rows read in layers with a window.
void FakeModel::check_window(const KvCacheEntry& entry, size_t n_rows) const {
  const size_t first_row = entry.length() - n_rows;
  for (size_t layer = 0; layer < options_.n_layers; ++layer) {
    if (layout_.layer(layer).part != PagePart::kWindow) continue;
    for (size_t p = first_row - std::min(first_row, options_.window - 1); p < entry.length(); ++p) {
      const Row row = load_row(entry, layer, p);
      CHECK_EQ(row.k[0], static_cast<float>(entry.tokens()[p])) << "the window has a different text at " << p;
      CHECK_EQ(row.k[1], static_cast<float>(p));
      CHECK_EQ(row.k[2], static_cast<float>(layer));
    }
  }
}

void FakeModel::write_logits(const SequenceChunk& chunk, Logits& logits, float* out) {
  const size_t length = chunk.entry->length();
  const size_t n = chunk.want == WantLogits::kAll ? chunk.tokens.size() : 1;
  const size_t stride = (logits.vocab_size() + 15) / 16 * 16;
  Tokens prefix;
  uint64_t hash = hash_rows(*chunk.entry, 0, length - n, kHashStart, prefix);
  for (size_t row = 0; row < n; ++row) {
    const size_t position = length - n + row;
    hash = hash_rows(*chunk.entry, position, position + 1, hash, prefix);
    const std::span<float> values(out + row * stride, logits.vocab_size());
    for (size_t id = 0; id < values.size(); ++id) {
      values[id] = static_cast<float>(mix(hash, id) >> 40) * 0x1p-21f - 4.0f;
    }
    if (script) {
      if (const std::optional<TokenId> next = script(prefix)) values[static_cast<size_t>(*next)] = 100.0f;
    }
    if (change_logits) change_logits(prefix, values);
  }
}

Tokens FakeModel::take_fed() {
  Tokens out;
  for (; n_taken_ < fed_.size(); ++n_taken_) {
    out.insert(out.end(), fed_[n_taken_].tokens.begin(), fed_[n_taken_].tokens.end());
  }
  return out;
}

std::vector<float> FakeModel::rows_of(const KvCacheEntry& entry) {
  const size_t window_begin = entry.layout().first_window_page(entry.length()) * kPagePositions;
  std::vector<float> out;
  for (size_t position = 0; position < entry.length(); ++position) {
    for (size_t layer = 0; layer < entry.layout().n_layers(); ++layer) {
      if (entry.layout().layer(layer).part == PagePart::kWindow && position < window_begin) continue;
      const Row row = load_row(entry, layer, position);
      out.insert(out.end(), std::begin(row.k), std::end(row.k));
      out.insert(out.end(), std::begin(row.v), std::end(row.v));
    }
  }
  return out;
}

std::function<std::optional<TokenId>(TokenSpan)> chat_script(const FakeTokenizer& tokenizer,
                                                             std::vector<Tokens> replies) {
  const Tokens header = tokenizer.template_ids("<|im_start|>assistant\n");
  const TokenId end = tokenizer.im_end;
  return [header, end, replies = std::move(replies)](TokenSpan prefix) -> std::optional<TokenId> {
    size_t n_headers = 0, reply_begin = 0;
    for (size_t i = 0; i + header.size() <= prefix.size(); ++i) {
      if (!std::equal(header.begin(), header.end(), prefix.begin() + static_cast<std::ptrdiff_t>(i))) continue;
      ++n_headers;
      reply_begin = i + header.size();
    }
    if (n_headers == 0 || n_headers > replies.size()) return std::nullopt;
    const Tokens& reply = replies[n_headers - 1];
    const size_t said = prefix.size() - reply_begin;
    return said < reply.size() ? reply[said] : end;
  };
}

}  // namespace ibid
