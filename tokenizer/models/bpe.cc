#include "tokenizer/models/bpe.h"

#include <span>
#include <utility>

namespace ibid {
namespace {

std::vector<RankedMerge> by_rank(const std::vector<Merge>& merges) {
  std::vector<RankedMerge> out;
  out.reserve(merges.size());
  for (const Merge& merge : merges) {
    out.push_back({merge.left, merge.right, merge.result, static_cast<uint32_t>(out.size())});
  }
  return out;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeModel model)
    : vocabulary_(&vocabulary),
      model_(std::move(model)),
      merges_(by_rank(model_.merges)),
      reachable_(new std::atomic<uint8_t>[vocabulary.size()] {}) {
  for (const Merge& merge : model_.merges) {
    if (is_control(merge.result)) control_merges_.emplace(merge.result, merge);
  }
}

bool Bpe::is_control(TokenId id) const {
  return static_cast<size_t>(id) < model_.is_control.size() && model_.is_control[static_cast<size_t>(id)];
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
  merge(piece, out);
  if (known == kUnknown) {
    const bool yes = out.size() == begin + 1 && out[begin] == whole;
    reachable->store(yes ? kYes : kNo, std::memory_order_relaxed);
  }
  if (!control_merges_.empty() && !allow_control) undo_control(begin, out);
}

void Bpe::merge(std::string_view piece, Tokens& out) const {
  std::array<TokenId, kShortPiece> few;
  std::vector<TokenId> many(piece.size() > few.size() ? piece.size() : 0);
  const std::span<TokenId> symbols = many.empty() ? std::span<TokenId>(few) : many;
  size_t n = 0;
  for (const char byte : piece) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(byte)];
    if (id != kNoToken) symbols[n++] = id;
  }
  n = merges_.merge(symbols.first(n));
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(n));
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
