#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <utility>

#include "base/check.h"

namespace ibid {
namespace {

uint64_t pair_key(TokenId left, TokenId right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeModel model)
    : vocabulary_(&vocabulary),
      model_(std::move(model)),
      slots_(std::bit_ceil(2 * model_.merges.size() + 2)),
      seed_(process_hash_seed()),
      reachable_(new std::atomic<uint8_t>[vocabulary.size()] {}) {
  const size_t mask = slots_.size() - 1;
  for (size_t rank = 0; rank < model_.merges.size(); ++rank) {
    const Merge& merge = model_.merges[rank];
    const uint64_t pair = pair_key(merge.left, merge.right);
    size_t i = hash_u64(pair, seed_) & mask;
    while (slots_[i].merge.rank != kNoRank && slots_[i].pair != pair) i = (i + 1) & mask;
    slots_[i] = {pair, {static_cast<uint32_t>(rank), merge.result}};
    if (is_control(merge.result)) control_merges_.emplace(merge.result, merge);
  }
}

bool Bpe::is_control(TokenId id) const {
  return static_cast<size_t>(id) < model_.is_control.size() && model_.is_control[static_cast<size_t>(id)];
}

Bpe::Ranked Bpe::find_merge(TokenId left, TokenId right) const {
  const uint64_t pair = pair_key(left, right);
  const size_t mask = slots_.size() - 1;
  for (size_t i = hash_u64(pair, seed_) & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.pair == pair || slot.merge.rank == kNoRank) return slot.merge;
  }
}

void Bpe::encode(std::string_view piece, bool allow_control, Tokens& out) const {
  if (piece.size() == 1) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(piece[0])];
    if (id != kNoToken) out.push_back(id);
    return;
  }
  const TokenId whole = vocabulary_->find(piece);
  const bool usable = whole != kNoToken && (allow_control || !is_control(whole));
  if (usable && model_.ignore_merges) {
    out.push_back(whole);
    return;
  }
  std::atomic<uint8_t>* reachable = whole != kNoToken ? &reachable_[static_cast<size_t>(whole)] : nullptr;
  const uint8_t known = reachable != nullptr ? reachable->load(std::memory_order_relaxed) : uint8_t{kNo};
  if (usable && known == kYes) {
    out.push_back(whole);
    return;
  }
  const size_t begin = out.size();
  if (piece.size() <= kShortPiece) {
    merge_short(piece, out);
  } else {
    merge_long(piece, out);
  }
  if (known == kUnknown) {
    const bool yes = out.size() == begin + 1 && out[begin] == whole;
    reachable->store(yes ? kYes : kNo, std::memory_order_relaxed);
  }
  if (!control_merges_.empty() && !allow_control) undo_control(begin, out);
}

void Bpe::merge_short(std::string_view piece, Tokens& out) const {
  std::array<TokenId, kShortPiece> ids;
  std::array<Ranked, kShortPiece> merges;  // merges[i] joins ids[i] and ids[i + 1]
  size_t n = 0;
  for (const char byte : piece) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(byte)];
    if (id != kNoToken) ids[n++] = id;
  }
  for (size_t i = 0; i + 1 < n; ++i) merges[i] = find_merge(ids[i], ids[i + 1]);
  while (n > 1) {
    size_t best = 0;
    for (size_t i = 1; i + 1 < n; ++i) {
      if (merges[i].rank < merges[best].rank) best = i;
    }
    if (merges[best].rank == kNoRank) break;
    ids[best] = merges[best].result;
    std::copy(ids.begin() + best + 2, ids.begin() + n, ids.begin() + best + 1);
    if (best + 2 < n) std::copy(merges.begin() + best + 2, merges.begin() + n - 1, merges.begin() + best + 1);
    --n;
    if (best > 0) merges[best - 1] = find_merge(ids[best - 1], ids[best]);
    if (best + 1 < n) merges[best] = find_merge(ids[best], ids[best + 1]);
  }
  out.insert(out.end(), ids.begin(), ids.begin() + n);
}

void Bpe::merge_long(std::string_view piece, Tokens& out) const {
  constexpr uint32_t kEnd = UINT32_MAX;
  struct Symbol {
    TokenId id;
    uint32_t previous, next;
    Ranked merge;  // with the next symbol; its rank is kNoRank once the symbol is swallowed
  };
  CHECK(piece.size() < kEnd);
  std::vector<Symbol> symbols;
  symbols.reserve(piece.size());
  for (const char byte : piece) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(byte)];
    const auto at = static_cast<uint32_t>(symbols.size());
    if (id != kNoToken) symbols.push_back({id, at == 0 ? kEnd : at - 1, at + 1, {kNoRank, kNoToken}});
  }
  if (symbols.empty()) return;
  symbols.back().next = kEnd;

  // Rank above position: the smallest key is the lowest rank, then the leftmost place. Entries are not
  // removed when their pair changes; they no longer agree with the symbol and are skipped.
  std::vector<uint64_t> heap;
  const auto key = [](uint32_t rank, uint32_t at) { return uint64_t{rank} << 32 | at; };
  const auto rate = [&](uint32_t at) {
    Symbol& symbol = symbols[at];
    symbol.merge =
        symbol.next == kEnd ? Ranked{kNoRank, kNoToken} : find_merge(symbol.id, symbols[symbol.next].id);
    return symbol.merge.rank != kNoRank;
  };
  for (uint32_t at = 0; at < symbols.size(); ++at) {
    if (rate(at)) heap.push_back(key(symbols[at].merge.rank, at));
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  const auto push = [&](uint32_t at) {
    if (!rate(at)) return;
    heap.push_back(key(symbols[at].merge.rank, at));
    std::push_heap(heap.begin(), heap.end(), std::greater<>());
  };
  while (!heap.empty()) {
    const uint64_t top = heap.front();
    std::pop_heap(heap.begin(), heap.end(), std::greater<>());
    heap.pop_back();
    const auto at = static_cast<uint32_t>(top);
    Symbol& symbol = symbols[at];
    if (symbol.merge.rank != static_cast<uint32_t>(top >> 32)) continue;
    Symbol& swallowed = symbols[symbol.next];
    symbol.id = symbol.merge.result;
    symbol.next = swallowed.next;
    swallowed.merge.rank = kNoRank;
    if (symbol.next != kEnd) symbols[symbol.next].previous = at;
    push(at);
    if (symbol.previous != kEnd) push(symbol.previous);
  }
  for (uint32_t at = 0; at != kEnd; at = symbols[at].next) out.push_back(symbols[at].id);
}

// Replaces every control token from `begin` on by the two tokens it was merged from, until none is left.
void Bpe::undo_control(size_t begin, Tokens& out) const {
  Tokens todo(out.rbegin(), out.rend() - static_cast<ptrdiff_t>(begin));
  out.resize(begin);
  while (!todo.empty()) {
    const TokenId id = todo.back();
    todo.pop_back();
    const auto merge = control_merges_.find(id);
    if (merge == control_merges_.end()) {
      out.push_back(id);
    } else {
      todo.push_back(merge->second.right);
      todo.push_back(merge->second.left);
    }
  }
}

}  // namespace ibid
