// ConstraintCache: the constraints of an engine's turns that come from grammars. It makes the vocabulary's trie when
// the first is asked for, and keeps the last few constraints, by what they were asked for with: a client that sends
// the same schema with each request pays for it once, and its turns share what was found out about it.
// Thread-safe. Nothing is compiled under the lock: those who ask for what is being made wait for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "grammar/compile_budget.h"
#include "grammar/grammar.h"
#include "ibid/constraint.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// What a text is that a constraint is made of.
enum class ConstraintKind {
  kJsonSchema,  // JSON; objects with spaces and line breaks where JSON has them
  kJsonObject,  // none: the text is not read
  kGbnf,
  kRegex,
  kChoices,     // a JSON array of strings
};

class ConstraintCache {
 public:
  // `tokenizer` must outlive it.
  explicit ConstraintCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // lead: what may stand in front of it in an answer. Errors: those of grammar/grammar.h; kCancelled behind
  // `stop`; kOutOfMemory.
  Result<std::shared_ptr<const TokenConstraint>> make(ConstraintKind kind, std::string_view text,
                                                      const LeadIn& lead = {}, std::stop_token stop = {});

  // Of the grammar that compile() makes, which is called only where nothing is kept for `key`. Whoever makes
  // constraints in this way tells theirs from others by the key. compile() must not call the cache.
  using Compile = std::function<Result<Grammar>(CompileBudget&)>;
  Result<std::shared_ptr<const TokenConstraint>> make(const std::string& key, const Compile& compile,
                                                      std::stop_token stop = {});

  // Of a grammar that the caller has; such constraints are not kept.
  std::shared_ptr<const TokenConstraint> make(const Grammar& grammar);

  // What the model's tokens spell. Special tokens stand in free text only.
  std::shared_ptr<const TokenTexts> vocabulary();

  // A counter of work: how often make() compiled.
  size_t n_compiled() const { return n_compiled_; }

 private:
  using Made = Result<std::shared_ptr<const TokenConstraint>>;
  // What was asked for, and what came of it; nothing as long as it is being made.
  struct Entry {
    std::optional<ConstraintKind> kind;  // nothing: `text` is a key
    std::string text;
    LeadIn lead;
    std::optional<Made> made = {};
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

  Made find_or_make(Entry&& wanted, const Compile& compile, std::stop_token stop);
  Made run(const Compile& compile, std::stop_token stop);
  void finish(const std::shared_ptr<Entry>& entry, Made made);

  const Tokenizer& tokenizer_;
  std::atomic<size_t> n_compiled_ = 0;
  std::once_flag has_vocabulary_;
  std::shared_ptr<const TokenTexts> vocabulary_;
  std::mutex mutex_;                   // guards what follows
  std::condition_variable_any is_made_;
  Entries entries_;                    // the last used first
};

// The vocabulary of a tokenizer. O(bytes of its tokens).
std::shared_ptr<const TokenTexts> make_vocabulary(const Tokenizer& tokenizer);

}  // namespace ibid
