#include "runtime/generate/constraint_cache.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/json_limits.h"
#include "base/result.h"
#include "grammar/compile_budget.h"

namespace ibid {
namespace {

constexpr size_t kMostKept = 8;
constexpr size_t kBytesOfEach = 32u << 20;

Result<std::vector<std::string>> read_choices(std::string_view text) {
  TRY_ASSIGN(const Json list, parse_json(text, "choices", {.max_bytes = 4'000'000, .max_depth = 2}));
  std::vector<std::string> choices;
  for (const Json& choice : list) {
    if (!list.is_array() || !choice.is_string()) break;
    choices.push_back(choice.get<std::string>());
  }
  if (list.is_array() && choices.size() == list.size()) return choices;
  return {ErrorCode::kInvalidArgument, "choices: not a JSON array of strings"};
}

Result<Grammar> compile_text(ConstraintKind kind, std::string_view text, CompileBudget& budget) {
  switch (kind) {
    case ConstraintKind::kJsonSchema: return compile_json_schema(text, {.for_answers = true}, &budget);
    case ConstraintKind::kJsonObject: return compile_any_json(AnyJson::kObject);
    case ConstraintKind::kGbnf: return compile_gbnf(text);
    case ConstraintKind::kRegex: return compile_regex(text);
    case ConstraintKind::kChoices: break;
  }
  TRY_ASSIGN(const std::vector<std::string> choices, read_choices(text));
  return compile_choices(choices);
}

}  // namespace

Result<std::shared_ptr<const TokenConstraint>> ConstraintCache::make(ConstraintKind kind, std::string_view text,
                                                                     const Preamble& lead, std::stop_token stop) {
  const auto compile = [&](CompileBudget& budget) -> Result<Grammar> {
    TRY_ASSIGN(Grammar grammar, compile_text(kind, text, budget));
    if (lead.empty()) return grammar;
    return compile_after(lead, grammar);
  };
  return find_or_compile({kind, std::string(text), lead}, compile, std::move(stop));
}

Result<std::shared_ptr<const TokenConstraint>> ConstraintCache::make(const std::string& key, const Compile& compile,
                                                                     std::stop_token stop) {
  return find_or_compile({std::nullopt, key, {}}, compile, std::move(stop));
}

ConstraintCache::Compiled ConstraintCache::find_or_compile(Entry&& wanted, const Compile& compile,
                                                           std::stop_token stop) {
  std::shared_ptr<Entry> entry;
  {
    std::unique_lock lock(mutex_);
    for (;;) {
      const auto found = std::ranges::find_if(entries_, [&](const auto& e) {
        return e->kind == wanted.kind && e->text == wanted.text && e->lead == wanted.lead;
      });
      if (found == entries_.end()) break;
      entries_.splice(entries_.begin(), entries_, found);
      const std::shared_ptr<Entry> other = *found;
      if (!is_made_.wait(lock, stop, [&] { return other->compiled.has_value(); })) {
        return {ErrorCode::kCancelled, "cancelled while waiting for the constraint to be compiled"};
      }
      // If the request that compiled the constraint was cancelled, this request compiles it.
      if (other->compiled->ok() || other->compiled->status().code() != ErrorCode::kCancelled) return *other->compiled;
    }
    entry = std::make_shared<Entry>(std::move(wanted));
    entries_.push_front(entry);
  }
  // The requests that wait for the entry get an outcome even if memory runs out.
  finish(entry, guarded([&] { return run(compile, std::move(stop)); }));
  return *entry->compiled;
}

ConstraintCache::Compiled ConstraintCache::run(const Compile& compile, std::stop_token stop) {
  ++n_compiled_;
  CompileBudget budget(std::move(stop));
  TRY_ASSIGN(const Grammar grammar, compile(budget));
  TRY(check_references(grammar, *vocabulary()));
  return make_constraint(grammar, vocabulary(), {.max_bytes = kBytesOfEach});
}

// Sets the entry's outcome, and wakes the requests that wait for it. After an error later requests compile again.
void ConstraintCache::finish(const std::shared_ptr<Entry>& entry, Compiled compiled) noexcept {
  const std::lock_guard lock(mutex_);
  if (!compiled.ok()) entries_.remove(entry);
  entry->compiled = std::move(compiled);
  size_t n_kept = 0;
  for (auto it = entries_.begin(); it != entries_.end();) {
    const bool is_kept = !(*it)->compiled || ++n_kept <= kMostKept;
    it = is_kept ? std::next(it) : entries_.erase(it);
  }
  is_made_.notify_all();
}

std::shared_ptr<const TokenConstraint> ConstraintCache::make(const Grammar& grammar) {
  return make_constraint(grammar, vocabulary(), {.max_bytes = kBytesOfEach});
}

std::shared_ptr<const TokenTexts> ConstraintCache::vocabulary() {
  std::call_once(has_vocabulary_, [this] { vocabulary_ = make_vocabulary(tokenizer_); });
  return vocabulary_;
}

std::shared_ptr<const TokenTexts> make_vocabulary(const Tokenizer& tokenizer) {
  std::vector<TokenTexts::Token> tokens(tokenizer.vocab_size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    tokens[i].bytes = tokenizer.token_bytes(id);
    tokens[i].special = tokenizer.is_special(id);
    if (const std::string_view first = tokenizer.first_token_bytes(id); first != tokens[i].bytes) {
      tokens[i].first_bytes = first;
    }
  }
  return std::make_shared<const TokenTexts>(std::move(tokens));
}

}  // namespace ibid
