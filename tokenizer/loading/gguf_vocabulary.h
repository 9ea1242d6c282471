// A Hugging Face tokenizer as GGUF's metadata: tokenizer.ggml.* and the chat template, as llama.cpp's converters write
// them and load_tokenizer() reads them.
//
// GGUF can express less than tokenizer.json: it has one name for a pre-tokenizer and all steps that belong to it. These
// tokenizers can be written: byte-level BPE if a name for its pre-tokenizer exists; character BPE with byte fallback
// (SentencePiece's) if scores can replace its merges; Unigram if its steps are those of T5. All others are errors.
// check_same_tokenizer() finds differences that a comparison of the metadata does not show.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// --- The values of GGUF's tokenizer.ggml.token_type (ggml, docs/gguf.md).

enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

// Writes the tokenizer and the chat template of `file`, a directory. Writes as many tokens as the embedding has rows:
// rows without a token are named "[PADn]". If there is no tokenizer.json, writes that the model has no tokenizer.
// Errors: kUnsupported, naming what GGUF cannot express; those of load_tokenizer().
Status write_gguf_vocabulary(const ModelFile& file, size_t n_rows, GgufWriter& out);

// Checks that both files have the same tokens and give the same token ids for texts of many scripts, every added token
// in a text, and texts of random tokens. Errors: kUnsupported, naming the text or token; those of load_tokenizer().
Status check_same_tokenizer(const ModelFile& wanted, const ModelFile& got);

}  // namespace ibid
