// TokenConstraint: says what an answer may consist of, as a set of tokens for each position: a grammar, a schema, a
// list of choices. This file has the interface; Engine has functions that make constraints of grammars.
//
// A turn is given a prototype and works on a clone. So a turn that fails leaves no trace, forks and several answers
// do not meet, and one prototype serves any number of turns. The constraint does not handle ids that end the turn:
// it says whether the answer may end here, and then they are allowed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ibid/result.h"
#include "ibid/token.h"

namespace ibid {

// A set of ids below vocab_size, one bit each. A value.
class TokenMask {
 public:
  explicit TokenMask(size_t vocab_size = 0) : vocab_size_(vocab_size), words_((vocab_size + 63) / 64) {}

  size_t vocab_size() const { return vocab_size_; }
  bool has(TokenId id) const {
    const auto i = static_cast<size_t>(id);
    return i < vocab_size_ && (words_[i / 64] >> (i % 64) & 1) != 0;
  }
  // Ids that the vocabulary does not have are passed over.
  void add(TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (i < vocab_size_) words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  void remove(TokenId id) {
    const auto i = static_cast<size_t>(id);
    if (i < vocab_size_) words_[i / 64] &= ~(uint64_t{1} << (i % 64));
  }
  void clear() { words_.assign(words_.size(), 0); }
  // 64 ids at once: bit b of word w is id 64 * w + b.
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

// A constraint must depend on nothing but the ids that were pushed. It is asked in the order in which ids are
// drawn, with drafts and without. It runs on threads of the engine, between passes, so every answer waits for a
// slow one. It must not throw or call the engine.
class TokenConstraint {
 public:
  virtual ~TokenConstraint() = default;

  // Adds to `mask`, which is empty, the ids that may stand next. Ids that end a turn are ignored.
  virtual void allowed(TokenMask& mask) const = 0;
  // Whether the answer may end in front of the next id. It has to end there when no id is allowed.
  virtual bool may_end() const = 0;
  // `id`, which was allowed and does not end the turn, is part of the answer.
  virtual void push(TokenId id) = 0;
  // Appends at most n_most ids that are likely to be sampled next, because little else is allowed. They are verified
  // in one pass where turns speculate, and change no answer. The default knows none.
  virtual void propose(size_t n_most, Tokens& ids) const {
    (void)n_most;
    (void)ids;
  }
  // Why allowed() could not say what is allowed, when it was asked last. The default always can.
  virtual Status status() const { return {}; }
  // The same constraint at the same place, independent of this one.
  virtual std::unique_ptr<TokenConstraint> clone() const = 0;
};

}  // namespace ibid
