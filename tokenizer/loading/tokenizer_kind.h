// The kind of tokenizer that a file names, in words for people. Nothing else depends on it.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json_fwd.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {

struct TokenizerKind {
  std::string family;         // "byte-level BPE"
  std::string pre_tokenizer;  // "qwen2" of GGUF, "Split, ByteLevel" of tokenizer.json; empty: none
};

// As load_tokenizer(). `kind` is set for a tokenizer that is refused as well, unless its file names none or cannot be
// parsed.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file, std::optional<TokenizerKind>& kind);

// Of tokenizer.ggml.*, and of a tokenizer.json.
std::optional<TokenizerKind> gguf_tokenizer_kind(const ModelFile& file);
TokenizerKind json_tokenizer_kind(const Json& root);

}  // namespace ibid
