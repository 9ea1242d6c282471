#include "sampling/speculation.h"

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

// Positions are removed in reverse order of insertion, so a slot that becomes empty was the last one taken. No probe
// sequence passes over this slot, so it can simply be emptied.
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

namespace {

// Cost of each additional row of a pass, as a fraction of a pass of one row. Measured on a model of 135 M parameters:
// 0.01 to 0.04 for up to four rows, 0.05 to 0.13 for up to eight; the highest values after 4,000 positions. If this
// constant is too high, too little is drafted; if it is too low, text without repetitions becomes slower.
constexpr double kRowCost = 0.12;
// Minimum expected gain of a draft. It is above 1 because hit rates are estimates.
constexpr double kLeastGain = 1.05;
// Weight of a class's earlier predictions after each new one: a hit rate reflects about the last 32 predictions.
constexpr double kKeep = 1.0 - 1.0 / 32;

// Hit rates are recorded by class of match length. Below: the first length of each class, and the hit rate that is
// assumed before any record and weighs as much as two predictions. The longer a match, the likelier its continuation.
constexpr std::array<size_t, 7> kClassBegins = {3, 4, 5, 7, 10, 16, 32};
constexpr std::array<double, 7> kBelieved = {0.25, 0.35, 0.45, 0.6, 0.7, 0.8, 0.9};
constexpr double kBeliefWeight = 2;

}  // namespace

DraftPolicy::DraftPolicy() {
  for (size_t i = 0; i < kClasses; ++i) records_[i] = {kBelieved[i] * kBeliefWeight, kBeliefWeight};
}

size_t DraftPolicy::class_of(size_t match_length) {
  CHECK_GE(match_length, SuffixIndex::kMinMatch);
  size_t i = 0;
  while (i + 1 < kClasses && match_length >= kClassBegins[i + 1]) ++i;
  return i;
}

void DraftPolicy::record(size_t match_length, bool hit) {
  Record& record = records_[class_of(match_length)];
  record.hits = record.hits * kKeep + (hit ? 1 : 0);
  record.tries = record.tries * kKeep + 1;
}

double DraftPolicy::hit_rate(size_t match_length) const {
  const Record& record = records_[class_of(match_length)];
  return record.hits / record.tries;
}

size_t DraftPolicy::n_drafts(size_t match_length, size_t n_most) const {
  if (match_length == 0) return 0;
  size_t best = 0;
  double best_gain = kLeastGain;
  double reached = 1;   // probability that the first n drafts are accepted
  double expected = 1;  // expected tokens per pass
  for (size_t n = 1; n <= std::min(n_most, kMaxDraft); ++n) {
    reached *= hit_rate(match_length + n - 1);  // each accepted draft makes the match longer
    expected += reached;
    const double gain = expected / (1 + kRowCost * static_cast<double>(n));
    if (gain > best_gain) {
      best = n;
      best_gain = gain;
    }
  }
  return best;
}

void Drafter::append(TokenSpan ids) {
  index_.append(ids);
  match_ = {};
  n_sampled_ = 0;
}

void Drafter::truncate(size_t n) {
  index_.truncate(n);
  match_ = {};
  n_sampled_ = 0;
}

void Drafter::forget_tokens() noexcept {
  index_ = SuffixIndex();
  match_ = {};
  n_sampled_ = 0;
}

void Drafter::push(TokenId id) {
  if (match_.length > 0) policy_.record(match_.length, index_.continuation(match_, 0) == id);
  index_.append(id);
  match_ = index_.find();
  // If a match extends into the prompt, count only its part in the answer: the template writes the same tokens before
  // every answer, so these tokens do not predict the answer's text.
  match_.length = std::min(match_.length, ++n_sampled_);
  if (match_.length < SuffixIndex::kMinMatch) match_ = {};
}

void Drafter::restore(size_t n, const DraftPolicy& learnt, TokenSpan pushed) {
  truncate(n);
  policy_ = learnt;
  for (const TokenId id : pushed) push(id);
}

void Drafter::propose(size_t n_most, const std::vector<TokenId>& stop_ids, Tokens& draft) const {
  draft.clear();
  const size_t n = policy_.n_drafts(match_.length, n_most);
  for (size_t i = 0; i < n; ++i) {
    const TokenId id = index_.continuation(match_, i);
    if (std::find(stop_ids.begin(), stop_ids.end(), id) != stop_ids.end()) return;
    draft.push_back(id);
  }
}

}  // namespace ibid
