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

// --- The kind of tokenizer that a file names, as text for users.

struct TokenizerKind {
  std::string family;         // "byte-level BPE"
  std::string pre_tokenizer;  // "qwen2" in GGUF, "Split, ByteLevel" in tokenizer.json; empty: not named
};

// Loads the tokenizer of a file (tokenizer/tokenizer.h), and sets `kind` to the kind of tokenizer that the file names.
// `kind` is set even if the tokenizer is rejected; it is empty if the file names no kind or cannot be parsed.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file, std::optional<TokenizerKind>& kind);

// Return the kind of tokenizer that tokenizer.ggml.* or a tokenizer.json names.
std::optional<TokenizerKind> gguf_tokenizer_kind(const ModelFile& file);
TokenizerKind json_tokenizer_kind(const Json& root);

// Loads from GGUF's tokenizer.ggml.* keys. Errors: those of load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const ModelFile& file);

// Loads from the text of a tokenizer.json. Reads BOS and EOS from `file`: tokenizer_config.json and
// generation_config.json, or GGUF's keys. Sets `kind` if `json` can be parsed. Errors: those of load_tokenizer() and
// parse_json().
Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const ModelFile& file, std::string_view json,
                                                       std::optional<TokenizerKind>& kind);

}  // namespace ibid
