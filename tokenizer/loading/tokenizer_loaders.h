// The loaders for GGUF metadata and tokenizer.json. load_tokenizer() chooses between them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/json_fwd.h"
#include "base/result.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {

// --- The kind of tokenizer that a file names, as text for users only.

struct TokenizerKind {
  std::string family;         // "byte-level BPE"
  std::string pre_tokenizer;  // "qwen2" of GGUF, "Split, ByteLevel" of tokenizer.json; empty: none
};

// As load_tokenizer(). `kind` is also set if the tokenizer is rejected, unless the file names no kind or cannot be
// parsed.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file, std::optional<TokenizerKind>& kind);

// The kinds named by tokenizer.ggml.* and by a tokenizer.json.
std::optional<TokenizerKind> gguf_tokenizer_kind(const ModelFile& file);
TokenizerKind json_tokenizer_kind(const Json& root);

// From GGUF's tokenizer.ggml.* keys. Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const ModelFile& file);

// From the text of a tokenizer.json. BOS and EOS are read from `file`: from tokenizer_config.json and
// generation_config.json, or GGUF's keys. Sets `kind` if `json` can be parsed. Errors: as load_tokenizer(), and those
// of parse_json().
Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const ModelFile& file, std::string_view json,
                                                       std::optional<TokenizerKind>& kind);

}  // namespace ibid
