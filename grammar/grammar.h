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
  // For a grammar of a JSON Schema: JSON pointers of the keywords and formats that do not constrain the texts, because
  // no draft of JSON Schema defines them or no grammar can express them: "#/properties/a/javaType".
  const std::vector<std::string>& ignored() const;

 private:
  std::shared_ptr<const Parts> parts_;
};

struct JsonFormat {
  // true: no white space is allowed. false: a space may follow a comma or colon, and a line break with an indent of up
  // to 32 spaces or tabs may precede a value or closing bracket.
  bool compact = false;
  // Only for schemas. false: an object whose schema lists properties and does not mention others has only the listed
  // ones; numbers without bounds have up to 18 digits before and after the point; OpenAPI's `nullable` adds null to
  // `type`. true: JSON Schema 2020-12 exactly.
  bool strict = false;
  // Only for schemas. true: for texts that a model generates. Declared properties have the order of their declaration,
  // so that a schema can put the model's reasoning before its result. A schema with `properties` and without `type`
  // means an object, unless `strict` is set. false: up to eleven declared properties may have any order.
  bool for_answers = false;
};

// Returns the grammar of the JSON texts that the schema accepts. Errors: also those of parse_json() for `schema`;
// kCancelled. budget: nullptr for the default limits.
Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format = {},
                                    CompileBudget* budget = nullptr);
Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format = {},
                                           CompileBudget* budget = nullptr);

enum class AnyJson { kObject, kValue };
// Returns the grammar of any JSON object or any JSON value.
Result<Grammar> compile_any_json(AnyJson what, const JsonFormat& format = {});

// Returns the grammar of the rule `root`, in llama.cpp's notation. check_references() checks its references to tokens.
Result<Grammar> compile_gbnf(std::string_view text);

// Returns the grammar of the texts that match the pattern as a whole.
Result<Grammar> compile_regex(std::string_view pattern);

// Returns the grammar whose texts are `choices`. Error: kInvalidArgument for an empty list.
Result<Grammar> compile_choices(const std::vector<std::string>& choices);

// The text before the constrained part of an answer. The model may write it with any tokens, special tokens included.
struct Preamble {
  // "<think>": the answer may begin with this text, followed by free text up to `end`; empty: no free text.
  std::string begin = {};
  std::string end = {};      // "</think>"
  bool is_open = false;      // the prompt already contains `begin`
  std::string opening = {};  // words that must follow the free text ("<|channel|>final<|message|>")
  bool empty() const { return end.empty() && opening.empty(); }
  bool operator==(const Preamble&) const = default;
};
// Returns the grammar of the preamble, then a text of `grammar`. Up to two spaces or line breaks may follow `end`.
Result<Grammar> compile_after(const Preamble& lead, const Grammar& grammar);

// An answer that consists of tool calls.
struct RequiredCalls {
  // A part of a call. The members that are set follow each other in this order: `words`, a text of `grammar`,
  // `text_up_to`, `one_of`.
  struct Piece {
    std::string words = {};  // literal text, which the model may write with any tokens
    std::optional<Grammar> grammar = {};
    std::string text_up_to = {};                  // any text that ends with the first occurrence of these words
    std::vector<std::vector<Piece>> one_of = {};  // one of these alternatives, each of which may be empty
    bool repeats = false;  // true: any number of texts of one_of follow each other; false: one text
  };
  using Call = std::vector<Piece>;
  Preamble lead = {};                    // the text before the calls; the answer must have its `opening`
  std::vector<Call> calls = {};          // each call of the answer is one of these
  bool several = false;                  // true: up to 16 calls, then up to two spaces or line breaks; false: one call
  std::string separator = {}, end = {};  // separator: text between two calls; end: text after the last call
  std::optional<Piece> otherwise = {};   // a text that the answer may have instead of the opening and the calls
};
// Returns the grammar of the answers that `demanded` describes. Errors: kInvalidArgument if `calls` is empty;
// kLimitExceeded.
Result<Grammar> compile_calls(const RequiredCalls& demanded);

// Tool calls in an answer of any text. Reasoning before the text may contain any words. The answer may end anywhere
// except inside a call, or inside a word that begins a call.
struct CallsInText {
  struct Begin {
    std::string word = {};           // a word that begins a call: if it occurs in the text, `rest` must follow
    bool only_at_beginning = false;  // the word counts only at the beginning of the text, after optional spaces
    bool ends = false;               // only spaces may follow `rest` up to the end of the answer
    std::optional<RequiredCalls::Call> rest = {};  // the text after the word; nullopt: the word is forbidden
  };
  Preamble lead = {};  // the text before the content; Preamble::opening has no effect here
  std::vector<Begin> begins = {};
  bool several = true;  // true: any number of calls; false: after one call none of the words in `begins` may occur
};
// Returns the grammar of the answers that `text` describes. Error: kInvalidArgument for an empty word; kLimitExceeded.
Result<Grammar> compile_calls_in_text(const CallsInText& text);

// Returns true if all of `text` matches the grammar. Error: kLimitExceeded.
Result<bool> grammar_accepts(const Grammar& grammar, std::string_view text);

// How much of a text matches a grammar.
struct TextMatch {
  bool accepted = false;  // the whole text matches
  size_t n_matched = 0;   // longest prefix, in bytes, with which some text of the grammar begins
};
// Determines how much of `text` matches. Errors: kLimitExceeded; kUnsupported if the grammar refers to tokens.
Result<TextMatch> match_text(const Grammar& grammar, std::string_view text);

class TokenTexts;
// Checks that the vocabulary has every token that the grammar names (GBNF: <text>). Error: kInvalidArgument.
Status check_references(const Grammar& grammar, const TokenTexts& vocabulary);

struct ConstraintLimits {
  size_t max_bytes = 64u << 20;
};
// Returns a prototype of constraints that allow the texts of the grammar. Its clones share computed results under a
// lock, so any number of turns may use it on any threads. The results take about limits.max_bytes at most.
std::shared_ptr<const TokenConstraint> make_constraint(const Grammar& grammar,
                                                       std::shared_ptr<const TokenTexts> vocabulary,
                                                       const ConstraintLimits& limits = {});

// Returns Grammar::ignored() of the grammar from which make_constraint() made `constraint`; empty for other
// constraints.
std::vector<std::string> ignored_of(const TokenConstraint& constraint);

// --- Arguments of calls in other notations than a JSON object, as pieces of a grammar of calls (RequiredCalls).

struct ArgumentNotation {
  enum class Form {
    kMarked,    // each argument is before_key KEY before_value VALUE after_value: strings unquoted, others as JSON
    kBare,      // {key:value,...}: strings are between two `quote` texts, without escapes
    kKeywords,  // (key=value, ...): values are written as JSON
  };
  Form form = Form::kMarked;
  std::string before_key = {}, after_value = {};
  std::string after_closing_key = {};   // kMarked: if not empty, after_value is followed by the key and this text
  std::string before_value = {};        // precedes a value that is a string
  std::string before_other_value = {};  // precedes a value that is not a string; may equal before_value
  std::string quote = {};
};

// Returns the arguments that an object's schema accepts, in the order of their declaration. If the schema declares no
// arguments and allows others, the call may have any arguments, except with kKeywords or after_closing_key: then it has
// none. Errors: those of compile_json_schema(); also kUnsupported for constraints that this notation cannot enforce:
// choices of whole objects, combined constraints on unquoted strings, item counts and deeply nested values in kBare.
Result<RequiredCalls::Call> compile_arguments(const Json& schema, const ArgumentNotation& notation,
                                              CompileBudget* budget = nullptr);

}  // namespace ibid
