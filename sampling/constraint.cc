#include "sampling/constraint.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <string>
#include <utility>

#include "base/result.h"

namespace ibid {

namespace {

constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Forbids a token. Logits that are NaN or +inf stay, because the sampler must report them.
void forbid(float& logit) {
  if (logit <= std::numeric_limits<float>::max()) logit = kForbidden;
}

// True if a logit is NaN or +inf. Reads all logits without stopping early, so that compilers vectorise the loop.
bool has_nan_or_infinity(std::span<const float> logits) {
  int32_t any = 0;
  for (const float logit : logits) any |= !(logit <= std::numeric_limits<float>::max());
  return any != 0;
}

// If more than 1/kFewOf of the vocabulary is allowed, restrict() copies all logits, and then forbids the other tokens.
constexpr size_t kFewOf = 16;

}  // namespace

Result<std::shared_ptr<const TokenConstraint>> constraint_after(const TokenConstraint& whole, TokenSpan ids,
                                                                size_t vocab_size) {
  std::shared_ptr<TokenConstraint> after = whole.clone();
  TokenMask next(vocab_size);
  for (const TokenId id : ids) {
    next.clear();
    after->allowed(next);
    TRY(after->status());
    if (!next.has(id)) {
      return {
          ErrorCode::kInvalidArgument,
          "the text to continue is not the beginning of any answer that the constraint or the response format allows"};
    }
    after->push(id);
  }
  return std::shared_ptr<const TokenConstraint>(std::move(after));
}

NextTokens::NextTokens(const TokenConstraint* prototype, std::vector<TokenId> stop_ids, size_t min_tokens)
    : constraint_(prototype == nullptr ? nullptr : prototype->clone()),
      stop_ids_(std::move(stop_ids)),
      min_tokens_(min_tokens) {}

Result<std::span<const float>> NextTokens::restrict(std::span<const float> logits) {
  const bool too_early = n_sampled_ < min_tokens_;
  if (constraint_ == nullptr && !too_early) return logits;
  if (constraint_ == nullptr) {
    restricted_.assign(logits.begin(), logits.end());
    for (const TokenId id : stop_ids_) {
      if (static_cast<size_t>(id) < restricted_.size()) forbid(restricted_[static_cast<size_t>(id)]);
    }
    return std::span<const float>(restricted_);
  }
  if (mask_.vocab_size() != logits.size()) mask_ = TokenMask(logits.size());
  mask_.clear();
  constraint_->allowed(mask_);
  TRY(constraint_->status());
  const bool may_end = constraint_->may_end() && !too_early;
  for (const TokenId id : stop_ids_) may_end ? mask_.add(id) : mask_.remove(id);
  if (write_few(logits)) return std::span<const float>(restricted_);
  n_copied_ += logits.size();
  restricted_.assign(logits.begin(), logits.end());
  others_forbidden_ = false;
  if (forbid_others()) return std::span<const float>(restricted_);
  return {ErrorCode::kInvalidArgument,
          "the constraint allows no token after " + std::to_string(n_sampled_) + " tokens" +
              (constraint_->may_end() ? ", and min_tokens or ignore_eos forbids the end" : ", and no end")};
}

// Fast path of restrict() for few allowed tokens: writes only their logits; all others are usually still forbidden from
// the call before. Returns false, with nothing changed, if too many tokens or none are allowed, or if a logit is NaN or
// +inf.
bool NextTokens::write_few(std::span<const float> logits) {
  const std::span<const uint64_t> words = mask_.words();
  size_t n = 0;
  for (const uint64_t word : words) n += static_cast<size_t>(std::popcount(word));
  if (n == 0 || n > logits.size() / kFewOf || has_nan_or_infinity(logits)) return false;
  if (!others_forbidden_ || restricted_.size() != logits.size()) {
    restricted_.assign(logits.size(), kForbidden);
  } else {
    for (const TokenId id : written_) restricted_[static_cast<size_t>(id)] = kForbidden;
  }
  written_.clear();
  for (size_t w = 0; w < words.size(); ++w) {
    for (uint64_t rest = words[w]; rest != 0; rest &= rest - 1) {
      const size_t id = 64 * w + static_cast<size_t>(std::countr_zero(rest));
      restricted_[id] = logits[id];
      written_.push_back(static_cast<TokenId>(id));
    }
  }
  others_forbidden_ = true;
  n_copied_ += n;
  return true;
}

// Checks 64 tokens at a time, because usually all of them are allowed, or none.
bool NextTokens::forbid_others() {
  uint64_t any = 0;
  const std::span<const uint64_t> words = mask_.words();
  for (size_t w = 0; w < words.size(); ++w) {
    any |= words[w];
    if (words[w] == ~uint64_t{0}) continue;
    const size_t n = std::min<size_t>(64, restricted_.size() - 64 * w);
    const std::span<float> some = std::span(restricted_).subspan(64 * w, n);
    if (words[w] == 0) {
      for (float& logit : some) forbid(logit);
      continue;
    }
    for (uint64_t rest = ~words[w]; rest != 0; rest &= rest - 1) {
      const auto i = static_cast<size_t>(std::countr_zero(rest));
      if (i >= some.size()) break;
      forbid(some[i]);
    }
  }
  return any != 0;
}

void NextTokens::propose(const Drafter& drafter, size_t n_most, Tokens& draft) const {
  draft.clear();
  const size_t n = std::min(n_most, DraftPolicy::kMaxDraft);
  if (constraint_ != nullptr && n > 0) constraint_->propose(n, draft);
  if (draft.empty()) return drafter.propose(n_most, stop_ids_, draft);
  draft.erase(std::ranges::find_if(draft, [&](TokenId id) { return is_stop_id(id); }), draft.end());
  if (draft.size() > n) draft.resize(n);
}

void NextTokens::push(TokenId id) {
  ++n_sampled_;
  if (constraint_ != nullptr && !is_stop_id(id)) constraint_->push(id);
}

bool NextTokens::is_stop_id(TokenId id) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

}  // namespace ibid
