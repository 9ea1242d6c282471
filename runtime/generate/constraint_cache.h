// ConstraintCache: the grammar constraints of an engine's turns. Builds the vocabulary's trie for the first constraint,
// and caches the last few constraints by their source: repeated requests with the same schema compile it once, and
// their turns share the masks found so far. Thread-safe. Compiles without holding the lock; concurrent requests for the
// same constraint wait for the request that compiles it.
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

// Kind of source text of a constraint.
enum class ConstraintKind {
  kJsonSchema,  // a JSON schema; the text of an answer may have spaces and line breaks between values
  kJsonObject,  // any JSON object: the source text is ignored
  kGbnf,
  kRegex,
  kChoices,  // a JSON array of strings
};

class ConstraintCache {
 public:
  // `tokenizer` must outlive the cache.
  explicit ConstraintCache(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  // lead: text that may precede the constrained part of an answer. Errors: those of grammar/grammar.h; kCancelled after
  // `stop`; kOutOfMemory.
  Result<std::shared_ptr<const TokenConstraint>> make(ConstraintKind kind, std::string_view text,
                                                      const Preamble& lead = {}, std::stop_token stop = {});

  // Compiles with compile(), which is called only if nothing is cached for `key`. Keys must be unique among all callers
  // of this function. compile() must not call the cache.
  using Compile = std::function<Result<Grammar>(CompileBudget&)>;
  Result<std::shared_ptr<const TokenConstraint>> make(const std::string& key, const Compile& compile,
                                                      std::stop_token stop = {});

  // Makes a constraint from a compiled grammar, without caching.
  std::shared_ptr<const TokenConstraint> make(const Grammar& grammar);

  // The texts of the model's tokens. Special tokens are allowed in free text only.
  std::shared_ptr<const TokenTexts> vocabulary();

  // A counter of work: how often make() compiled.
  size_t n_compiled() const { return n_compiled_; }

 private:
  using Compiled = Result<std::shared_ptr<const TokenConstraint>>;
  // A request and its result; `made` is unset while the request is compiled.
  struct Entry {
    std::optional<ConstraintKind> kind;  // unset: `text` is a key
    std::string text;
    Preamble lead;
    std::optional<Compiled> compiled = {};
  };
  using Entries = std::list<std::shared_ptr<Entry>>;

  Compiled find_or_compile(Entry&& wanted, const Compile& compile, std::stop_token stop);
  Compiled run(const Compile& compile, std::stop_token stop);
  void finish(const std::shared_ptr<Entry>& entry, Compiled compiled) noexcept;

  const Tokenizer& tokenizer_;
  std::atomic<size_t> n_compiled_ = 0;
  std::once_flag has_vocabulary_;
  std::shared_ptr<const TokenTexts> vocabulary_;
  std::mutex mutex_;  // guards entries_
  std::condition_variable_any is_made_;
  Entries entries_;  // most recently used first
};

// The vocabulary of a tokenizer. O(bytes of its tokens).
std::shared_ptr<const TokenTexts> make_vocabulary(const Tokenizer& tokenizer);

}  // namespace ibid
