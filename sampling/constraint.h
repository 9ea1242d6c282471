// NextTokens: applies a turn's constraint (ibid/constraint.h) to logits.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ibid/constraint.h"
#include "sampling/speculation.h"

namespace ibid {

// The ids that a turn may choose next: those of its constraint, and the ids that end it only where an end is
// allowed: by the constraint, and behind min_tokens. Owned by one answer. Not thread-safe.
class NextTokens {
 public:
  // `prototype` may be null; it is cloned.
  NextTokens(const TokenConstraint* prototype, std::vector<TokenId> stop_ids, size_t min_tokens);

  // `logits` with -inf for what may not be chosen; valid until the next call. `logits` themselves where nothing is
  // forbidden.
  // Errors: kInvalidArgument when there is a constraint and nothing may be chosen; that of the constraint's status().
  Result<std::span<const float>> restrict(std::span<const float> logits);
  // Writes ids that are likely to be sampled next to `draft`, as Drafter::propose() does: what the constraint leaves
  // hardly a choice of, or else what the drafter guesses.
  void propose(const Drafter& drafter, size_t n_most, Tokens& draft) const;
  // An id that was sampled.
  void push(TokenId id);
  bool is_stop_id(TokenId id) const;

  // A counter of work: logits that restrict() has copied.
  size_t n_copied() const { return n_copied_; }

 private:
  bool write_few(std::span<const float> logits);
  // False: everything is forbidden.
  bool forbid_others();

  std::unique_ptr<TokenConstraint> constraint_;
  const std::vector<TokenId> stop_ids_;
  const size_t min_tokens_;
  size_t n_sampled_ = 0;
  TokenMask mask_;
  std::vector<float> restricted_;
  Tokens written_;                 // ids that restricted_ does not forbid, where others_forbidden_
  bool others_forbidden_ = false;
  size_t n_copied_ = 0;
};

}  // namespace ibid
