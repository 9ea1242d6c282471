#include "tokenizer/models/vocabulary.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <random>

#include "base/check.h"

namespace ibid {

const HashSeed& process_hash_seed() {
  static const HashSeed seed = [] {
    std::random_device device;
    const auto word = [&device] { return uint64_t{device()} << 32 | device(); };
    // Make the seeds odd, so that a product with a seed is not zero for all inputs.
    return HashSeed{word() | 1, word() | 1};
  }();
  return seed;
}

Vocabulary::Vocabulary(size_t size) : entries_(size), slots_(std::bit_ceil(2 * size + 2)), seed_(process_hash_seed()) {}

void Vocabulary::set_bytes(TokenId id, std::string_view bytes) {
  Entry& entry = entries_[static_cast<size_t>(id)];
  CHECK(!entry.set);
  entry = {blob_.size(), static_cast<uint32_t>(bytes.size()), true, false};
  blob_.append(bytes);
}

std::string_view Vocabulary::bytes(TokenId id) const {
  if (!has_bytes(id)) return {};
  const Entry& entry = entries_[static_cast<size_t>(id)];
  return std::string_view(blob_).substr(entry.offset, entry.length);
}

// Returns the slot with the bytes `wanted`, or a free slot for them.
size_t Vocabulary::probe(std::string_view wanted, uint64_t hash) const {
  const size_t mask = slots_.size() - 1;
  const auto tag = static_cast<uint32_t>(hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNoToken || (slot.tag == tag && bytes(slot.id) == wanted)) return i;
  }
}

bool Vocabulary::index(TokenId id) {
  const std::string_view text = bytes(id);
  const uint64_t hash = hash_bytes(text, seed_);
  Slot& slot = slots_[probe(text, hash)];
  if (slot.id != kNoToken) return false;
  slot = {static_cast<uint32_t>(hash >> 32), id};
  entries_[static_cast<size_t>(id)].indexed = true;
  return true;
}

TokenId Vocabulary::find(std::string_view text) const { return slots_[probe(text, hash_bytes(text, seed_))].id; }

// A look-up loads a slot, then an entry, then bytes, which are far apart in memory. So each step is done for many texts
// and prefetches the memory of the next step.
void Vocabulary::find_all(std::span<const std::string_view> texts, std::span<TokenId> ids) const {
  CHECK_EQ(texts.size(), ids.size());
  constexpr size_t kTogether = 32;
  const size_t mask = slots_.size() - 1;
  std::array<uint64_t, kTogether> hashes;
  for (size_t begin = 0; begin < texts.size(); begin += kTogether) {
    const size_t n = std::min(kTogether, texts.size() - begin);
    for (size_t i = 0; i < n; ++i) {
      hashes[i] = hash_bytes(texts[begin + i], seed_);
      __builtin_prefetch(&slots_[hashes[i] & mask]);
    }
    for (size_t i = 0; i < n; ++i) {
      const TokenId first = slots_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(&entries_[static_cast<size_t>(first)]);
    }
    for (size_t i = 0; i < n; ++i) {
      const TokenId first = slots_[hashes[i] & mask].id;
      if (first != kNoToken) __builtin_prefetch(blob_.data() + entries_[static_cast<size_t>(first)].offset);
    }
    for (size_t i = 0; i < n; ++i) ids[begin + i] = slots_[probe(texts[begin + i], hashes[i])].id;
  }
}

namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

MergeTable::MergeTable(std::span<const RankedMerge> merges)
    : slots_(std::bit_ceil(2 * merges.size() + 2)), seed_(process_hash_seed()) {
  constexpr size_t kAhead = 16;  // prefetch distance in merges, because slots are far apart in memory
  const size_t mask = slots_.size() - 1;
  const auto first_slot = [&](const RankedMerge& merge) {
    return hash_u64(pair_key(merge.left, merge.right), seed_) & mask;
  };
  for (size_t m = 0; m < merges.size(); ++m) {
    if (m + kAhead < merges.size()) __builtin_prefetch(&slots_[first_slot(merges[m + kAhead])], 1);
    const RankedMerge& merge = merges[m];
    const uint64_t pair = pair_key(merge.left, merge.right);
    size_t i = first_slot(merge);
    while (slots_[i].merge.rank != kNoRank && slots_[i].pair != pair) i = (i + 1) & mask;
    slots_[i] = {pair, {merge.rank, merge.result}};
  }
}

MergeTable::Ranked MergeTable::find(TokenId left, TokenId right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash_u64(pair, seed_) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.pair == pair || slot.merge.rank == kNoRank) return slot.merge;
  }
}

size_t MergeTable::merge_short(std::span<TokenId> ids) const {
  std::array<Ranked, kShort> merges;  // merges[i] is the merge of ids[i] and ids[i + 1]
  size_t n = ids.size();
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    ids[best] = merges[best].result;
    for (size_t i = best + 2; i < n; ++i) ids[i - 1] = ids[i];
    for (size_t i = best + 2; i + 1 < n; ++i) merges[i - 1] = merges[i];
    --n;
    if (best > 0) merges[best - 1] = find(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = find(ids[best], ids[best + 1]);
  }
  return n;
}

// Merges many symbols. The key of a heap entry combines rank and position, so the smallest key has the lowest rank and,
// among equals, the leftmost position. If the pair of an entry has changed, the entry stays in the heap, no longer
// matches its symbol, and is skipped.
class MergeTable::Heap {
 public:
  Heap(const MergeTable& table, std::span<const TokenId> ids) : table_(table), symbols_(ids.size()) {
    for (uint32_t at = 0; at < ids.size(); ++at) symbols_[at] = {ids[at], at == 0 ? kEnd : at - 1, at + 1, {}};
    symbols_.back().next = kEnd;
    for (uint32_t at = 0; at < symbols_.size(); ++at) {
      if (rate(at)) entries_.push_back(key(at));
    }
    std::make_heap(entries_.begin(), entries_.end(), std::greater<>());
  }

  size_t run(std::span<TokenId> out) {
    while (!entries_.empty()) {
      const uint64_t top = entries_.front();
      std::pop_heap(entries_.begin(), entries_.end(), std::greater<>());
      entries_.pop_back();
      const auto at = static_cast<uint32_t>(top);
      if (symbols_[at].merge.rank == static_cast<uint32_t>(top >> 32)) join(at);
    }
    size_t n = 0;
    for (uint32_t at = 0; at != kEnd; at = symbols_[at].next) out[n++] = symbols_[at].id;
    return n;
  }

 private:
  static constexpr uint32_t kEnd = UINT32_MAX;
  struct Symbol {
    TokenId id;
    uint32_t previous, next;
    Ranked merge;  // merge with the next symbol; rank kNoRank if this symbol was merged into another
  };

  uint64_t key(uint32_t at) const { return uint64_t{symbols_[at].merge.rank} << 32 | at; }

  bool rate(uint32_t at) {
    Symbol& symbol = symbols_[at];
    symbol.merge = symbol.next == kEnd ? Ranked{kNoRank, kNoToken} : table_.find(symbol.id, symbols_[symbol.next].id);
    return symbol.merge.rank != kNoRank;
  }

  void push(uint32_t at) {
    if (!rate(at)) return;
    entries_.push_back(key(at));
    std::push_heap(entries_.begin(), entries_.end(), std::greater<>());
  }

  void join(uint32_t at) {
    Symbol& symbol = symbols_[at];
    Symbol& swallowed = symbols_[symbol.next];
    symbol.id = symbol.merge.result;
    symbol.next = swallowed.next;
    swallowed.merge.rank = kNoRank;
    if (symbol.next != kEnd) symbols_[symbol.next].previous = at;
    push(at);
    if (symbol.previous != kEnd) push(symbol.previous);
  }

  const MergeTable& table_;
  std::vector<Symbol> symbols_;
  std::vector<uint64_t> entries_;
};

size_t MergeTable::merge(std::span<TokenId> symbols) const {
  if (symbols.size() <= kShort) return merge_short(symbols);
  CHECK(symbols.size() < UINT32_MAX);
  return Heap(*this, symbols).run(symbols);
}

}  // namespace ibid
