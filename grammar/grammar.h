// Grammars of answers: a JSON Schema, any JSON, GBNF, a regular expression or a list of choices is compiled to a
// Grammar. A Grammar and a vocabulary give a TokenConstraint (ibid/constraint.h) for sampling.
// docs/structured_output.md lists the supported keywords and notations, and which of them are exact.
//
// A Grammar is an immutable value: copies share the compiled rules, and threads may share them. Input may be hostile:
// compiling takes bounded time and memory. Unknown keywords of a schema are reported by Grammar::ignored(); all other
// unknown input is an error. Errors of all functions:
// kUnsupported (names the construct and its place), kInvalidArgument (malformed, with the place), kLimitExceeded.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "grammar/token_trie.h"
#include "ibid/constraint.h"

namespace ibid {

class CompileBudget;
class GrammarRules;

class Grammar {
 public:
  struct Parts;  // grammar/byte_automaton.h
  explicit Grammar(std::shared_ptr<const Parts> parts) : parts_(std::move(parts)) {}
  const Parts& parts() const { return *parts_; }
  const std::shared_ptr<const Parts>& shared_parts() const { return parts_; }
  // JSON pointers of the keywords and formats of its schema that do not constrain the texts, because no draft of JSON
  // Schema defines them or no grammar can express them: "#/properties/a/javaType".
  const std::vector<std::string>& ignored() const;

 private:
  std::shared_ptr<const Parts> parts_;
};

struct JsonFormat {
  // true: no white space at all. false: a space may follow a comma or a colon; before values and closing brackets there
  // may be a line break with an indent of up to 32 spaces or tabs.
  bool compact = false;
  // Schemas only. false: an object that lists properties and does not mention others has no others; numbers without
  // bounds have up to 18 digits before the point and after it; `nullable` of OpenAPI adds null to `type`. true: as JSON
  // Schema 2020-12 defines.
  bool strict = false;
};

// The JSON texts that the schema accepts; more than eleven properties only in the order of their declaration. Errors:
// also those of parse_json() for the text; kCancelled. budget: nullptr for the default limits.
Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format = {},
                                    CompileBudget* budget = nullptr);
Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format = {},
                                           CompileBudget* budget = nullptr);

// Any JSON object, or any JSON value.
enum class AnyJson { kObject, kValue };
Result<Grammar> compile_any_json(AnyJson what, const JsonFormat& format = {});

// The texts of the rule `root`, in llama.cpp's notation. check_references() checks its references to tokens.
Result<Grammar> compile_gbnf(std::string_view text);

// The texts that match the pattern as a whole.
Result<Grammar> compile_regex(std::string_view pattern);

// One of these texts. Error: kInvalidArgument for an empty list.
Result<Grammar> compile_choices(const std::vector<std::string>& choices);

// The text before the constrained part of an answer. The model may write it as any tokens, special ones too.
struct Preamble {
  std::string begin = {};    // "<think>": if the model writes this first, free text follows up to `end`; empty: there
                             // is no such text
  std::string end = {};      // "</think>"
  bool is_open = false;      // the prompt already contains `begin`
  std::string opening = {};  // words required after that ("<|channel|>final<|message|>")
  bool empty() const { return end.empty() && opening.empty(); }
  bool operator==(const Preamble&) const = default;
};
// The preamble, then a text of the grammar; up to two spaces or line breaks may follow `end`.
Result<Grammar> compile_after(const Preamble& lead, const Grammar& grammar);

// Tool calls of which the answer must consist.
struct RequiredCalls {
  // A part of a call: its words, then a text of its grammar, then what the other members require, if they are set.
  struct Piece {
    std::string words = {};  // literal text, which the model may write as any tokens
    std::optional<Grammar> grammar = {};
    std::string text_up_to = {};                  // any text that ends with the first occurrence of these words
    std::vector<std::vector<Piece>> one_of = {};  // one of these alternatives, which may be empty
    bool repeats = false;                         // any number of alternatives of one_of in sequence
  };
  using Call = std::vector<Piece>;
  Preamble lead = {};                    // its `opening` begins the calls
  std::vector<Call> calls = {};          // each call of the answer is one of these
  bool several = false;                  // up to 16 calls, followed by up to two spaces or line breaks
  std::string separator = {}, end = {};  // between two calls, and after the last one
  std::optional<Piece> otherwise = {};   // allowed instead of the opening and the calls
};
// Errors: kInvalidArgument if `calls` is empty; kLimitExceeded.
Result<Grammar> compile_calls(const RequiredCalls& demanded);

// Tool calls in an answer of any text. Reasoning before the text may contain any words. The answer may end anywhere
// except inside a call, or inside a word that begins a call.
struct CallsInText {
  struct Begin {
    std::string word = {};  // if the text contains this word, it must continue with `rest`
    bool in_front = false;  // the word begins a call only at the beginning of the text, after optional spaces
    bool ends = false;      // after `rest` only spaces may follow
    std::optional<RequiredCalls::Call> rest = {};  // nullopt: the word is forbidden
  };
  Preamble lead = {};  // its opening is ignored
  std::vector<Begin> begins = {};
  bool several = true;  // false: after `rest` none of the words may follow
};
// Error: kInvalidArgument for an empty word; kLimitExceeded.
Result<Grammar> compile_calls_in_text(const CallsInText& text);

// Returns true if all of `text` matches the grammar. Error: kLimitExceeded.
Result<bool> grammar_accepts(const Grammar& grammar, std::string_view text);

// How far a text matches.
struct TextMatch {
  bool accepted = false;  // all of it does
  size_t n_matched = 0;   // bytes with which some text of the grammar begins
};
// Errors: kLimitExceeded; kUnsupported if the grammar refers to tokens.
Result<TextMatch> match_text(const Grammar& grammar, std::string_view text);

// Returns kInvalidArgument, with the reference, if the model lacks a token that the grammar refers to (GBNF).
class TokenTexts;
Status check_references(const Grammar& grammar, const TokenTexts& vocabulary);

// Returns a prototype of constraints that allow what the grammar allows. Its clones share computed results under a
// lock, so any number of turns may use it, on any threads. It caches up to about max_bytes.
struct ConstraintLimits {
  size_t max_bytes = 64u << 20;
};
std::shared_ptr<const TokenConstraint> make_constraint(const Grammar& grammar,
                                                       std::shared_ptr<const TokenTexts> vocabulary,
                                                       const ConstraintLimits& limits = {});

// Returns Grammar::ignored() of the grammar from which make_constraint() made `constraint`; empty for other
// constraints.
std::vector<std::string> ignored_of(const TokenConstraint& constraint);

// --- Arguments of calls in other notations than a JSON object, as pieces of a grammar of calls (RequiredCalls).

struct ArgumentNotation {
  enum class Form {
    kMarked,    // before_key KEY before_value VALUE after_value, for each: strings unquoted, others as JSON
    kBare,      // {key:value,...}: strings between `quote`, without escapes
    kKeywords,  // (key=value, ...): values as JSON
  };
  Form form = Form::kMarked;
  std::string before_key = {}, after_value = {};
  std::string after_closing_key = {};   // kMarked: if not empty, after_value is followed by the key and this text
  std::string before_value = {};        // before a string value
  std::string before_other_value = {};  // before other values; if equal to before_value, ambiguous values are strings
  std::string quote = {};
};

// The arguments that an object's schema accepts: required and optional ones in the order of their declaration. If the
// schema declares none and allows others, any may come (kKeywords, and with after_closing_key: none). Errors: those of
// compile_json_schema(); also kUnsupported for what this notation cannot enforce: choices of whole objects, combined
// constraints on unquoted strings, item counts and deeply nested values in kBare.
Result<RequiredCalls::Call> compile_arguments(const Json& schema, const ArgumentNotation& notation,
                                              CompileBudget* budget = nullptr);

}  // namespace ibid
