// Pre-tokenizers: they say where a text is cut before merges are applied. There is one row per family, and each
// does exactly what the family's regular expressions do in Hugging Face `tokenizers` (Unicode 16.0). A row is found
// by the literal text of these in tokenizer.json, or by GGUF's tokenizer.ggml.pre. Frequent families have
// hand-written linear scanners; staged_split.h matches the others, and what a file puts together itself. Stateless
// and thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ibid {

struct Piece {
  size_t end;        // one past its last byte; > begin
  bool touched_end;  // finding it looked at the end of the text: an append may change it
  bool may_resume = true;  // behind it the search can begin anew
  bool dropped = false;    // it becomes no tokens
};

// The piece that starts at text[begin], where a piece before it ended. Bytes that are not UTF-8 count as
// characters of no class. A character that is cut by the end of the text touches it.
// REQUIRES: begin < text.size().
using ScanFunction = Piece (*)(std::string_view text, size_t begin);

struct PretokenizerFamily {
  std::string_view name;
  ScanFunction scan;  // nullptr: the signature says it all
  // How tokenizer.json spells it: the steps before ByteLevel, one a line.
  std::string_view signature;
  std::string_view gguf_names;  // values of tokenizer.ggml.pre, separated by spaces
  // The meaning of such a name in a GGUF beyond the splitting.
  bool nfc;            // the text is brought to NFC first
  bool ignore_merges;  // a piece that is a token needs no merges
  bool add_bos;
};

// The treatment of the matches of a step's pattern and of the text between them.
enum class SplitBehavior {
  kIsolated,            // each is a piece
  kRemoved,             // matches are dropped
  kMergedWithPrevious,  // a match belongs to what stands before it, unless that is a match
  kMergedWithNext,      // ... behind it
  kContiguous,          // matches without anything between are one piece
};

// One step of a pre-tokenizer: a regular expression, or a name that stands for one: "Digits:individual",
// "Digits:contiguous", "Punctuation:isolated", "Punctuation:contiguous", "Whitespace", "ByteLevel".
struct SplitStep {
  std::string pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // what stands between matches counts as matches, and matches as what stands between
};

bool is_step_name(std::string_view pattern);

// A signature joins its steps with a line feed, all of them Isolated; CR and LF in a pattern are written as escapes.
std::vector<SplitStep> split_steps(std::string_view signature);

// Each nullptr when unknown.
const PretokenizerFamily* find_pretokenizer_by_signature(std::string_view signature);
const PretokenizerFamily* find_pretokenizer_by_steps(const std::vector<SplitStep>& steps);
const PretokenizerFamily* find_pretokenizer_by_gguf_name(std::string_view name);

// The family that a GGUF names for these steps and what goes with them.
const PretokenizerFamily* find_gguf_pretokenizer(const std::vector<SplitStep>& steps, bool nfc, bool ignore_merges);
// The first of its GGUF names. REQUIRES: it has one.
std::string_view gguf_name_of(const PretokenizerFamily& family);

// Runs of digits and what stands between them, where a file puts Digits after ByteLevel: there it sees the letters of
// the byte alphabet, of which some are numbers, so that it cuts characters.
Piece scan_alphabet_digits(std::string_view text, size_t begin);

}  // namespace ibid
