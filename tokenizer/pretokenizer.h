// Pre-tokenizers: where a text is cut before merges are applied, one row per family; each does exactly what the
// family's regular expressions do in Hugging Face `tokenizers` (Unicode 16.0), found by their literal text in
// tokenizer.json or by GGUF's tokenizer.ggml.pre. The frequent ones have hand-written linear scanners, the others are
// matched by staged_split.h.
//
// Steps may be put together as a file likes, but every pattern is one that some row has: one that none has is an error,
// never an approximation. Stateless and thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

namespace ibid {

struct Piece {
  size_t end;        // one past its last byte; > begin
  bool touched_end;  // finding it looked at the end of the text: an append may change it
  bool may_resume = true;  // behind it the search can begin anew
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
  // What such a GGUF means without saying so.
  bool nfc;            // the text is brought to NFC first
  bool ignore_merges;  // a piece that is a token needs no merges
  bool add_bos;
};

// Each nullptr when unknown. A signature joins its steps with a line feed: "Digits:individual", "Digits:contiguous",
// "Punctuation:isolated", "Punctuation:contiguous", "ByteLevel" (with its own regular expression) or the text of a
// Split's pattern, in which CR and LF are written as escapes.
const PretokenizerFamily* find_pretokenizer_by_signature(std::string_view signature);
const PretokenizerFamily* find_pretokenizer_by_gguf_name(std::string_view name);

// Whether each of its steps is one of those names or a step of some family.
bool is_known_split(std::string_view signature);

}  // namespace ibid
