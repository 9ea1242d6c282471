// A Hugging Face tokenizer as GGUF's metadata: tokenizer.ggml.* and the chat template, as llama.cpp's converters write
// them and load_tokenizer() reads them.
//
// GGUF can say less than tokenizer.json: a name stands for a pre-tokenizer and all that goes with it. Byte-level
// BPE is written if one of the names means the same, BPE over characters with byte fallback (SentencePiece's) if
// scores in place of merges mean the same, Unigram if its steps are those of T5. Everything else is an error.
// check_same_tokenizer() finds differences that are not visible here.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "weights/gguf_writer.h"
#include "weights/model_file.h"

namespace ibid {

// Writes the tokenizer and the chat template of `file`, a directory, with as many tokens as the embedding has rows:
// those that no token has are named "[PADn]". Without a tokenizer.json the model has none, and GGUF says so.
// Errors: kUnsupported, naming what GGUF cannot say; those of load_tokenizer().
Status write_gguf_vocabulary(const ModelFile& file, size_t n_rows, GgufWriter& out);

// Whether both files have the same tokens, and texts the same ids: texts of many scripts, every added token
// in a text, and texts of random tokens. Errors: kUnsupported, naming the text or token; those of
// load_tokenizer().
Status check_same_tokenizer(const ModelFile& wanted, const ModelFile& got);

}  // namespace ibid
