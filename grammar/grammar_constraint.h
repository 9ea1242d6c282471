// GrammarConstraint: a grammar as the constraint of an answer. Its place is the ids that were pushed and nothing else;
// what it knows beyond is shared with all constraints of the same prototype (grammar_matcher.h).
// One thread uses one constraint at a time, also for questions.
#pragma once

#include <memory>
#include <utility>

#include "grammar/grammar_matcher.h"
#include "ibid/constraint.h"

namespace ibid {

class GrammarConstraint final : public TokenConstraint {
 public:
  explicit GrammarConstraint(std::shared_ptr<GrammarMatcher> matcher) : matcher_(std::move(matcher)) {}

  void allowed(TokenMask& mask) const override { status_ = matcher_->allowed(place_, mask); }
  Status status() const override { return status_; }
  bool may_end() const override { return matcher_->may_end(place_); }
  void push(TokenId id) override { matcher_->push(place_, id); }
  void propose(size_t n_most, Tokens& ids) const override { matcher_->propose(place_, n_most, ids); }
  std::unique_ptr<TokenConstraint> clone() const override { return std::make_unique<GrammarConstraint>(*this); }

  const std::shared_ptr<GrammarMatcher>& matcher() const { return matcher_; }

 private:
  std::shared_ptr<GrammarMatcher> matcher_;
  mutable GrammarPlace place_;
  mutable Status status_;
};

}  // namespace ibid
