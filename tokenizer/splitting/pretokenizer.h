// Pre-tokenizers: split a text into pieces before merges apply. Each family of pre-tokenizers is a row of a table, and
// splits exactly as the family's regular expressions do in Hugging Face `tokenizers` (Unicode 16.0). A row is found by
// the literal text of these expressions in tokenizer.json, or by GGUF's tokenizer.ggml.pre. Frequent families have
// hand-written linear scanners; staged_split.h splits for the others, and for combinations that a file defines.
// Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct Piece {
  size_t end;              // position after its last byte; > begin
  bool touched_end;        // the scanner read the end of the text to find the piece, so an append may change the piece
  bool may_resume = true;  // a new scan can start after the piece
  bool dropped = false;    // the piece is removed: it has no tokens
};

// Returns the piece that starts at text[begin], where the previous piece ended. Bytes that are not UTF-8 count as
// characters of no class. Reading a character that the end of the text cuts counts as reading the end. REQUIRES: begin
// < text.size().
using ScanFunction = Piece (*)(std::string_view text, size_t begin);

struct PretokenizerFamily {
  std::string_view name;
  ScanFunction scan;  // nullptr: StagedSplit splits by the steps of `signature`
  // The family's steps before ByteLevel as tokenizer.json spells them, one per line.
  std::string_view signature;
  std::string_view gguf_names;  // values of tokenizer.ggml.pre, separated by spaces
  // Properties, other than splitting, of GGUF files whose tokenizer.ggml.pre is one of gguf_names.
  bool nfc;            // the text is normalized to NFC first
  bool ignore_merges;  // a piece that is a token becomes that token without merges
  bool add_bos;
};

// How the matches of a step's pattern and the texts between matches become pieces.
enum class SplitBehavior {
  kIsolated,            // each match, and each text between matches, is a piece
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // a match is joined to the text before it, unless that text is a match
  kMergedWithNext,      // a match is joined to the text after it, unless that text is a match
  kContiguous,          // adjacent matches are one piece
};

// One step of a pre-tokenizer: a regular expression, or one of the names "Digits:individual", "Digits:contiguous",
// "Punctuation:isolated", "Punctuation:contiguous", "Whitespace", "ByteLevel".
struct SplitStep {
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // text between matches is treated as a match, and matches as text between matches
};

bool is_step_name(std::string_view pattern);

// Returns the steps of a signature, in which line feeds separate steps. All steps are kIsolated. In a pattern, CR and
// LF are written as escapes.
std::vector<SplitStep> split_steps(std::string_view signature);

// The functions find_pretokenizer_by_...() return nullptr if no family matches.
const PretokenizerFamily* find_pretokenizer_by_signature(std::string_view signature);
const PretokenizerFamily* find_pretokenizer_by_steps(const std::vector<SplitStep>& steps);
const PretokenizerFamily* find_pretokenizer_by_gguf_name(std::string_view name);

// Returns the family that has a GGUF name, these steps and these properties, or nullptr.
const PretokenizerFamily* find_gguf_pretokenizer(const std::vector<SplitStep>& steps, bool nfc, bool ignore_merges);
// Returns the family's first GGUF name. REQUIRES: the family has a GGUF name.
std::string_view gguf_name_of(const PretokenizerFamily& family);

// Splits into runs of digits and the text between them, for a file with the step Digits after ByteLevel. Digits then
// applies to the byte alphabet, in which some bytes of a character are written as numbers, so it may split a character.
Piece scan_alphabet_digits(std::string_view text, size_t begin);

}  // namespace ibid
