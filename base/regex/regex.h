// parse_regex: reads a regular expression into a syntax tree, for the matcher of the tokenizer and the automata of the
// grammars. Syntax that neither supports (lookbehind, back-references, flags ...) is an error. Syntax that only one of
// the two supports is in the tree; the other one refuses it with regex_error().
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unicode/code_point_set.h"

namespace ibid {

enum class RegexDialect : uint8_t {
  // ECMA-262 with the flag u, the patterns of JSON Schema. \d and \w are ASCII classes; named groups; \u{..}; a brace
  // that is not a count is a character; [] matches nothing.
  kEcmaScript,
  // Oniguruma in Ruby's syntax, the patterns of Hugging Face `tokenizers`. \d and \w are Unicode classes; (?i: for
  // ASCII; \x{..} and \p{^..}; {,n}; a + after a count repeats the counted group; sets within sets, and && with a
  // negated set.
  kOniguruma,
};

struct RegexNode {
  enum class Kind : uint8_t {
    kEmpty,         // matches the empty text; never a part of kSequence or kRepeat
    kSet,           // matches one character of `set`
    kSequence,      // two or more parts
    kChoice,        // two or more parts; the text is matched by the first of them that matches
    kRepeat,        // parts[0], repeated min to max times; max > 0
    kLook,          // lookahead: parts[0] must match the text that follows, or must not
    kBegin,         // ^
    kEnd,           // $
    kWordBoundary,  // \b
  };
  enum class Mode : uint8_t { kGreedy, kLazy, kPossessive };
  static constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();

  Kind kind = Kind::kEmpty;
  Mode mode = Mode::kGreedy;  // for kRepeat
  bool wanted = true;         // for kLook: parts[0] must match; false: it must not
  uint32_t min = 0, max = 0;  // for kRepeat
  size_t at = 0;              // byte offset in the pattern
  CodePointSet set;
  std::vector<RegexNode> parts;
};

// Limits for hostile patterns. A tree is at most five times as deep as groups are nested, so recursion over it is safe.
inline constexpr size_t kMaxRegexBytes = 100'000;
inline constexpr size_t kMaxRegexDepth = 100;          // nesting depth of groups and sets
inline constexpr size_t kMaxRegexRanges = 2'000'000;   // ranges of all sets together
inline constexpr uint32_t kMaxRegexCount = 1'000'000;  // limit in ECMAScript: an automaton needs no copies
inline constexpr uint32_t kMaxOnigurumaCount = 1'000;  // limit in Oniguruma: a matcher counts anew at every position

// Parses a pattern in O(pattern). Errors: kInvalidArgument, kUnsupported and kLimitExceeded, with the messages of
// regex_error().
Result<RegexNode> parse_regex(std::string_view pattern, RegexDialect dialect);

// Makes the error "`what`, which is not supported, at byte `at` of the pattern"; unless `code` is kUnsupported, without
// the words between the commas.
Status regex_error(ErrorCode code, std::string_view what, size_t at);

}  // namespace ibid
