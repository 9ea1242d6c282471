#include "runtime/answer/constraint_cache.h"

#include <algorithm>
#include <utility>

#include "base/json_limits.h"

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

Result<Grammar> compile_text(ConstraintKind kind, std::string_view text) {
  switch (kind) {
    case ConstraintKind::kJsonSchema: return compile_json_schema(text);
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
                                                                      const LeadIn& lead) {
  return find_or_make({kind, std::string(text), lead, nullptr}, [&]() -> Result<Grammar> {
    TRY_ASSIGN(Grammar grammar, compile_text(kind, text));
    if (lead.empty()) return grammar;
    return compile_behind(lead, grammar);
  });
}

Result<std::shared_ptr<const TokenConstraint>> ConstraintCache::make(const std::string& key,
                                                                     const std::function<Result<Grammar>()>& compile) {
  return find_or_make({std::nullopt, key, {}, nullptr}, compile);
}

Result<std::shared_ptr<const TokenConstraint>> ConstraintCache::find_or_make(
    Kept&& wanted, const std::function<Result<Grammar>()>& compile) {
  const std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(kept_, [&](const Kept& k) {
    return k.kind == wanted.kind && k.text == wanted.text && k.lead == wanted.lead;
  });
  if (found != kept_.end()) {
    kept_.splice(kept_.begin(), kept_, found);
    return found->constraint;
  }
  ++n_compiled_;
  TRY_ASSIGN(const Grammar grammar, compile());
  wanted.constraint = make_constraint(grammar, vocabulary_locked(), {.max_bytes = kBytesOfEach});
  kept_.push_front(std::move(wanted));
  if (kept_.size() > kMostKept) kept_.pop_back();
  return kept_.front().constraint;
}

std::shared_ptr<const TokenConstraint> ConstraintCache::make(const Grammar& grammar) {
  return make_constraint(grammar, vocabulary(), {.max_bytes = kBytesOfEach});
}

std::shared_ptr<const TokenTexts> ConstraintCache::vocabulary() {
  const std::lock_guard lock(mutex_);
  return vocabulary_locked();
}

std::shared_ptr<const TokenTexts> ConstraintCache::vocabulary_locked() {
  if (vocabulary_ == nullptr) vocabulary_ = make_vocabulary(tokenizer_);
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
