// The loaders for the two places from which a tokenizer is read. load_tokenizer() chooses between them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/result.h"
#include "tokenizer/loading/tokenizer_kind.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {

// From GGUF's tokenizer.ggml.* keys. Errors: as load_tokenizer().
Result<std::unique_ptr<Tokenizer>> load_gguf_tokenizer(const ModelFile& file);

// From the text of a tokenizer.json; `file` gives what stands beside it: the names of BOS and EOS in
// tokenizer_config.json and generation_config.json, or GGUF's ids. Sets `kind` of what can be parsed. Errors: as
// load_tokenizer(), and those of parse_json().
Result<std::unique_ptr<Tokenizer>> load_json_tokenizer(const ModelFile& file, std::string_view json,
                                                       std::optional<TokenizerKind>& kind);

}  // namespace ibid
