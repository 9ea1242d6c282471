// Grammars of answers: a JSON Schema, any JSON, GBNF, a regular expression or a list of choices becomes a Grammar, and
// a Grammar and a vocabulary become a TokenConstraint (ibid/constraint.h), which answers are sampled under.
// docs/structured_output.md says which keywords and notations there are, and what is exact.
//
// A Grammar is an immutable value: copies share what was compiled, and threads may share it. Grammars come from
// outside: compiling one takes bounded time and memory, and what is not understood is an error, never passed over.
// Errors of all functions: kUnsupported (names what it is, and where), kInvalidArgument (not what it should be, with
// the place), kLimitExceeded.
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

 private:
  std::shared_ptr<const Parts> parts_;
};

struct JsonFormat {
  // No white space at all. Otherwise a space may follow a comma or a colon, and in front of values and closing brackets
  // a line may be broken and indented by up to 32 spaces or tabs.
  bool compact = false;
};

// JSON texts that the schema accepts, with properties in the order in which it declares them.
// Also errors of parse_json() for the text; kCancelled. `budget`: nullptr is one of the usual size.
Result<Grammar> compile_json_schema(std::string_view schema, const JsonFormat& format = {},
                                    CompileBudget* budget = nullptr);
Result<Grammar> compile_parsed_json_schema(const Json& schema, const JsonFormat& format = {},
                                           CompileBudget* budget = nullptr);

// Any JSON object, or any JSON value.
enum class AnyJson { kObject, kValue };
Result<Grammar> compile_any_json(AnyJson what, const JsonFormat& format = {});

// Texts of the rule `root`, as llama.cpp writes grammars.
Result<Grammar> compile_gbnf(std::string_view text);

// Texts that match as a whole.
Result<Grammar> compile_regex(std::string_view pattern);

// One of these texts. Error: kInvalidArgument for an empty list.
Result<Grammar> compile_choices(const std::vector<std::string>& choices);

// The text before the part of an answer that has a form. Its words may come in any tokens, special ones too.
struct LeadIn {
  std::string begin = {};    // "<think>": where the model writes this first, free text follows up to `end`; empty: no
  std::string end = {};      // "</think>"
  bool is_open = false;      // `begin` stands in front of the answer already
  std::string opening = {};  // words that have to come then ("<|channel|>final<|message|>")
  bool empty() const { return end.empty() && opening.empty(); }
  bool operator==(const LeadIn&) const = default;
};
// A text of the grammar behind that; up to two spaces or line breaks may stand behind `end`.
Result<Grammar> compile_behind(const LeadIn& lead, const Grammar& grammar);

// Calls of tools that an answer has to consist of.
struct DemandedCalls {
  // A part of a call: its words, then a text of its grammar, then the rest, as far as they are there.
  struct Piece {
    std::string words = {};                 // as they are, in any tokens
    std::optional<Grammar> grammar = {};
    std::string text_up_to = {};            // any text that these words end, and that has them nowhere else
    std::vector<std::vector<Piece>> one_of = {};  // one of these; an empty one: nothing need be there
    bool repeats = false;                   // any number of one_of, one behind the other
  };
  using Call = std::vector<Piece>;
  LeadIn lead = {};                         // its opening: what the calls begin with
  std::vector<Call> calls = {};             // each call is one of these
  bool several = false;                     // up to 16 may come, and behind them two spaces or line breaks
  std::string separator = {}, end = {};     // between two, and behind the last
  std::optional<Piece> otherwise = {};      // in place of the opening and the calls
};
// Errors: kInvalidArgument for no calls at all; kLimitExceeded.
Result<Grammar> compile_calls(const DemandedCalls& demanded);

// Calls of tools in an answer that may be any text. Reasoning in front of it may have any words. The answer may end
// everywhere but in a call, or in a word with which one begins.
struct CallsInText {
  struct Begin {
    std::string word = {};    // where the text has this word, it goes on with `rest`
    bool in_front = false;    // only if the text begins with it; spaces may stand in front and behind brackets
    bool ends = false;        // behind `rest` nothing comes but spaces
    std::optional<DemandedCalls::Call> rest = {};  // nothing: the word must not come
  };
  LeadIn lead = {};           // its opening is not read
  std::vector<Begin> begins = {};
  bool several = true;        // else none of the words may come behind a rest
};
// Error: kInvalidArgument for an empty word; kLimitExceeded.
Result<Grammar> compile_calls_in_text(const CallsInText& text);

// Whether `text` is one of the grammar, as a whole. Error: kLimitExceeded.
Result<bool> grammar_accepts(const Grammar& grammar, std::string_view text);

// A prototype of constraints that allow what the grammar allows. Its clones share what was found out about the
// grammar, under a lock: it may be used by any number of turns, on any threads. It keeps up to about max_bytes.
struct ConstraintLimits {
  size_t max_bytes = 64u << 20;
};
std::shared_ptr<const TokenConstraint> make_constraint(const Grammar& grammar,
                                                       std::shared_ptr<const TokenTexts> vocabulary,
                                                       const ConstraintLimits& limits = {});

// --- Arguments of calls in notations other than a JSON object, as pieces of a grammar of calls (DemandedCalls).

struct ArgumentNotation {
  enum class Form {
    kMarked,    // before_key KEY before_value VALUE after_value, for each: strings as they are, others as JSON
    kBare,      // {key:value,...}: strings between `quote`, in which nothing is escaped
    kKeywords,  // (key=value, ...): values as JSON
  };
  Form form = Form::kMarked;
  std::string before_key = {}, after_value = {};
  std::string before_value = {};        // of a string
  std::string before_other_value = {};  // of anything else; where it is the same, a value that may be a string is one
  std::string quote = {};
};

// The arguments that the schema of an object accepts: required arguments, and others that may be left out, in the
// order in which they are declared. Where none are declared and others are allowed, any may come (kKeywords: none).
// Errors: those of compile_json_schema(); kUnsupported also for what this notation cannot be held to: choices of
// whole objects, combined demands on a string that is written as it is, counts of items and values that are nested
// too deeply in kBare.
Result<DemandedCalls::Call> compile_arguments(const Json& schema, const ArgumentNotation& notation,
                                              CompileBudget* budget = nullptr);

}  // namespace ibid
