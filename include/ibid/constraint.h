// TokenConstraint: the set of tokens allowed at each position of an answer, from a grammar, a schema or a list of
// choices. This file is the interface; Engine makes constraints from grammars.
//
// A turn clones the constraint that it gets, the prototype. So a failed turn leaves no trace, and forks and parallel
// answers do not interfere. Turns on several threads may clone one prototype at once. A constraint does not decide
// about tokens that end the turn: they are allowed if may_end() is true.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ibid/result.h"
#include "ibid/token.h"

namespace ibid {

// A set of token ids below vocab_size, stored as one bit each. A value.
class TokenMask {
 public:
  explicit TokenMask(size_t vocab_size = 0) : vocab_size_(vocab_size), words_((vocab_size + 63) / 64) {}

  size_t vocab_size() const { return vocab_size_; }
  bool has(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return i < vocab_size_ && (words_[i / 64] >> (i % 64) & 1) != 0;
  }
  // Ignores tokens outside the vocabulary.
  void add(TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (i < vocab_size_) words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void remove(TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (i < vocab_size_) words_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
  void clear() { words_.assign(words_.size(), 0); }
  // The bits, 64 tokens per word: bit b of word w is token 64 * w + b.
  std::span<const uint64_t> words() const { return words_; }
  void add_words(std::span<const uint64_t> words) {
    const size_t n = words.size() < words_.size() ? words.size() : words_.size();
    for (size_t i = 0; i < n; ++i) words_[i] |= words[i];
    if (n == words_.size() && vocab_size_ % 64 != 0) words_[n - 1] &= (uint64_t{1} << vocab_size_ % 64) - 1;
  }

 private:
  size_t vocab_size_;
  std::vector<uint64_t> words_;
};

// The calls of a constraint must depend only on the pushed tokens. The engine calls the constraint in the order in
// which tokens are sampled, with or without drafts, on the engine's own threads between passes, so a slow constraint
// delays every answer. A constraint must not throw or call the engine.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Adds to `mask`, which is empty before the call, the tokens that may come next. Tokens that end a turn are ignored.
  virtual void allowed(TokenMask& mask) const = 0;
  // True if the answer may end before the next token. If no token is allowed, the answer must end there.
  virtual bool may_end() const = 0;
  // Appends `id` to the answer. REQUIRES: the token was allowed and does not end the turn.
  virtual void push(TokenId id) = 0;
  // Appends at most n_most tokens that are likely to be sampled next, because few others are allowed. Turns that
  // speculate verify these tokens in one pass, so they never change an answer. The default appends none.
  virtual void propose(size_t n_most, Tokens& ids) const {
    (void)n_most;
    (void)ids;
  }
  // The reason why the last call of allowed() could not compute the mask, or ok. The default always returns ok.
  virtual Status status() const { return {}; }
  // Returns an independent copy with the same pushed tokens.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
};

}  // namespace ibid
