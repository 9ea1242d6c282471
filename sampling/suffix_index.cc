#include "sampling/suffix_index.h"

#include <algorithm>

#include "base/check.h"

namespace ibid {

uint64_t SuffixIndex::hash(const TokenId* trigram) {
  uint64_t h = 0;
  for (size_t i = 0; i < kMinMatch; ++i) {
    h = (h ^ static_cast<uint32_t>(trigram[i])) * 0x9E3779B97F4A7C15u;
    h ^= h >> 32;
  }
  return h;
}

void SuffixIndex::append(TokenId id) {
  CHECK_LT(ids_.size(), size_t{kNone});
  ids_.push_back(id);
  earlier_.push_back(kNone);
  if (slots_.size() < 2 * ids_.size()) {
    grow();
  } else {
    link(ids_.size() - 1);
  }
}

void SuffixIndex::append(TokenSpan ids) {
  for (const TokenId id : ids) append(id);
}

// Places are taken away in the reverse of the order in which they came, so a slot that becomes empty was the
// last to be taken: nobody's search leads past it.
void SuffixIndex::truncate(size_t n) {
  CHECK_LE(n, ids_.size());
  while (ids_.size() > n) {
    const size_t place = ids_.size() - 1;
    if (const size_t slot = find_slot(place); slot != kNoSlot) {
      CHECK_EQ(slots_[slot], place) << "ids were not taken away in the order in which they came";
      slots_[slot] = earlier_[place];
    }
    ids_.pop_back();
    earlier_.pop_back();
  }
}

SuffixIndex::Match SuffixIndex::find() const {
  Match best;
  if (ids_.empty()) return best;
  const size_t end = ids_.size() - 1;
  uint32_t place = earlier_[end];
  for (size_t n = 0; n < kMaxCandidates && place != kNone && best.length < kMaxMatch; ++n) {
    size_t length = kMinMatch;
    const size_t most = std::min<size_t>(kMaxMatch, place + 1);
    while (length < most && ids_[place - length] == ids_[end - length]) ++length;
    n_steps_ += length - kMinMatch + 1;
    if (length > best.length) best = {place + size_t{1}, length};
    place = earlier_[place];
  }
  return best;
}

TokenId SuffixIndex::continuation(const Match& match, size_t offset) const {
  CHECK(match.length > 0 && match.next < ids_.size());
  return ids_[match.next + offset % (ids_.size() - match.next)];
}

size_t SuffixIndex::find_slot(size_t place) const {
  if (place + 1 < kMinMatch) return kNoSlot;
  const TokenId* trigram = &ids_[place + 1 - kMinMatch];
  const size_t mask = slots_.size() - 1;
  const uint64_t first = hash(trigram);
  for (size_t i = 0; i < kMaxProbes; ++i) {
    ++n_steps_;
    const size_t slot = (first + i) & mask;
    if (slots_[slot] == kNone) return slot;
    if (std::equal(trigram, trigram + kMinMatch, &ids_[slots_[slot] + 1 - kMinMatch])) return slot;
  }
  return kNoSlot;
}

void SuffixIndex::link(size_t place) {
  const size_t slot = find_slot(place);
  earlier_[place] = slot == kNoSlot ? kNone : slots_[slot];
  if (slot != kNoSlot) slots_[slot] = static_cast<uint32_t>(place);
}

void SuffixIndex::grow() {
  slots_.assign(std::max<size_t>(64, 2 * slots_.size()), kNone);
  for (size_t place = 0; place < ids_.size(); ++place) link(place);
}

}  // namespace ibid
