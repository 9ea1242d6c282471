// Special tokens that the files beside a tokenizer.json name: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json. transformers adds to a tokenizer those that its tokenizer.json lacks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "tokenizer/added_tokens.h"
#include "weights/model_file.h"

namespace ibid {

struct SpecialTokens {
  Json names = Json::object();    // bos_token, eos_token ...: texts
  std::vector<AddedToken> added;  // texts differ; id kNoToken: the files give none
  Json config = Json::object();   // tokenizer_config.json
  std::vector<std::string> warnings;
};

// If several files have a name, tokenizer_config.json decides. Another file that cannot be read is a warning. Errors:
// those of tokenizer_config.json.
Result<SpecialTokens> read_special_tokens(const ModelFile& file);

// The ids of the tokens that end an answer: eos_token_id of generation_config.json, else of config.json. Unchecked.
// Errors: those of generation_config.json.
Result<std::vector<int64_t>> read_end_ids(const ModelFile& file);

}  // namespace ibid
