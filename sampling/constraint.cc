#include "sampling/constraint.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace ibid {

namespace {

// Logits that are no numbers stay, for the sampler to refuse: where they stand says nothing of what they spoil.
void forbid(float& logit) {
  if (logit <= std::numeric_limits<float>::max()) logit = -std::numeric_limits<float>::infinity();
}

}  // namespace

NextTokens::NextTokens(const TokenConstraint* prototype, std::vector<TokenId> stop_ids, size_t min_tokens)
    : constraint_(prototype == nullptr ? nullptr : prototype->clone()),
      stop_ids_(std::move(stop_ids)),
      min_tokens_(min_tokens) {}

Result<std::span<const float>> NextTokens::restrict(std::span<const float> logits) {
  const bool too_early = n_sampled_ < min_tokens_;
  if (constraint_ == nullptr && !too_early) return logits;
  restricted_.assign(logits.begin(), logits.end());
  if (constraint_ == nullptr) {
    for (const TokenId id : stop_ids_) {
      if (static_cast<size_t>(id) < restricted_.size()) forbid(restricted_[static_cast<size_t>(id)]);
    }
    return std::span<const float>(restricted_);
  }
  if (mask_.vocab_size() != logits.size()) mask_ = TokenMask(logits.size());
  mask_.clear();
  constraint_->allowed(mask_);
  const bool may_end = constraint_->may_end() && !too_early;
  for (const TokenId id : stop_ids_) may_end ? mask_.add(id) : mask_.remove(id);
  bool any = false;
  for (size_t i = 0; i < restricted_.size(); ++i) {
    const bool allowed = mask_.has(static_cast<TokenId>(i));
    any |= allowed;
    if (!allowed) forbid(restricted_[i]);
  }
  if (any) return std::span<const float>(restricted_);
  return {ErrorCode::kInvalidArgument, "the constraint allows no token behind " + std::to_string(n_sampled_) +
                                           " of the answer" +
                                           (constraint_->may_end() ? ", and min_tokens no end" : ", and no end")};
}

void NextTokens::push(TokenId id) {
  ++n_sampled_;
  if (constraint_ != nullptr && !is_stop_id(id)) constraint_->push(id);
}

bool NextTokens::is_stop_id(TokenId id) const {
  return std::find(stop_ids_.begin(), stop_ids_.end(), id) != stop_ids_.end();
}

}  // namespace ibid
