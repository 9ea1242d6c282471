// Pre-tokenizers: where a text is split before merges apply. One row per family, which does exactly what the family's
// regular expressions do in Hugging Face `tokenizers` (Unicode 16.0). A row is found by the literal text of these in
// tokenizer.json, or by GGUF's tokenizer.ggml.pre. Frequent families have hand-written linear scanners; staged_split.h
// matches the others, and combinations that a file defines. Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct Piece {
  size_t end;              // one past its last byte; > begin
  bool touched_end;        // finding it read the end of the text: an append may change it
  bool may_resume = true;  // a search can restart after it
  bool dropped = false;    // it has no tokens
};

// Returns the piece that starts at text[begin], where the previous piece ended. Bytes that are not UTF-8 count as
// characters of no class. A character that the end of the text cuts counts as reading the end. REQUIRES: begin <
// text.size().
using ScanFunction = Piece (*)(std::string_view text, size_t begin);

struct PretokenizerFamily {
  std::string_view name;
  ScanFunction scan;  // nullptr: StagedSplit splits by the signature
  // Its spelling in tokenizer.json: the steps before ByteLevel, one per line.
  std::string_view signature;
  std::string_view gguf_names;  // values of tokenizer.ggml.pre, separated by spaces
  // Implied by such a name in a GGUF, beyond the splitting.
  bool nfc;            // the text is normalized to NFC first
  bool ignore_merges;  // a piece that is a token becomes that token without merges
  bool add_bos;
};

// Treatment of the matches of a step's pattern and of the text between them.
enum class SplitBehavior {
  kIsolated,            // each is a piece
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // a match is joined to the text before it, unless that is a match
  kMergedWithNext,      // ... after it
  kContiguous,          // adjacent matches are one piece
};

// One step of a pre-tokenizer: a regular expression, or a name for one: "Digits:individual", "Digits:contiguous",
// "Punctuation:isolated", "Punctuation:contiguous", "Whitespace", "ByteLevel".
struct SplitStep {
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // swaps matches and the text between them
};

bool is_step_name(std::string_view pattern);

// A signature joins its steps with line feeds, all of them Isolated; CR and LF in a pattern are written as escapes.
std::vector<SplitStep> split_steps(std::string_view signature);

// Each returns nullptr if unknown.
const PretokenizerFamily* find_pretokenizer_by_signature(std::string_view signature);
const PretokenizerFamily* find_pretokenizer_by_steps(const std::vector<SplitStep>& steps);
const PretokenizerFamily* find_pretokenizer_by_gguf_name(std::string_view name);

// The family with a GGUF name that means these steps and properties, or nullptr.
const PretokenizerFamily* find_gguf_pretokenizer(const std::vector<SplitStep>& steps, bool nfc, bool ignore_merges);
// Returns the first of its GGUF names. REQUIRES: it has one.
std::string_view gguf_name_of(const PretokenizerFamily& family);

// Runs of digits and the text between them, if a file has Digits after ByteLevel: that step sees the letters of the
// byte alphabet, some of which are numbers, so it splits characters.
Piece scan_alphabet_digits(std::string_view text, size_t begin);

}  // namespace ibid
