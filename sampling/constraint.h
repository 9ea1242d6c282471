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

// Returns a copy of the constraint `whole` to which the first tokens of an answer, `ids`, were pushed. Errors:
// kInvalidArgument if one of them is not allowed; the error of the constraint's status().
Result<std::shared_ptr<const TokenConstraint>> constraint_after(const TokenConstraint& whole, TokenSpan ids,
                                                                size_t vocab_size);

// The tokens that a turn may sample next: those that its constraint allows. Stop tokens are included only if the
// constraint allows the end and at least min_tokens tokens were sampled. Owned by one answer. Not thread-safe.
class NextTokens {
 public:
  // `prototype` is cloned; it may be null.
  NextTokens(const TokenConstraint* prototype, std::vector<TokenId> stop_ids, size_t min_tokens);

  // Returns `logits` with -inf for forbidden tokens, valid until the next call; `logits` itself if no token is
  // forbidden. Errors: kInvalidArgument if the constraint allows no token; the error of the constraint's status().
  Result<std::span<const float>> restrict(std::span<const float> logits);
  // Replaces `draft` by up to n_most likely next tokens: tokens that the constraint proposes because it allows few
  // others, or if it proposes none, the tokens of Drafter::propose().
  void propose(const Drafter& drafter, size_t n_most, Tokens& draft) const;
  // Appends a sampled token.
  void push(TokenId id);
  bool is_stop_id(TokenId id) const;

  // Number of logits that restrict() has copied, for tests of the cost.
  size_t n_copied() const { return n_copied_; }

 private:
  bool write_few(std::span<const float> logits);
  // Forbids the tokens in restricted_ that mask_ does not contain. Returns false if no token is allowed.
  bool forbid_others();

  std::unique_ptr<TokenConstraint> constraint_;
  const std::vector<TokenId> stop_ids_;
  const size_t min_tokens_;
  size_t n_sampled_ = 0;
  TokenMask mask_;
  std::vector<float> restricted_;
  Tokens written_;  // tokens whose logits in restricted_ were written; valid only if others_forbidden_
  bool others_forbidden_ = false;
  size_t n_copied_ = 0;
};

}  // namespace ibid
