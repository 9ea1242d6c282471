// Special tokens that the files beside a tokenizer.json name: tokenizer_config.json, special_tokens_map.json,
// added_tokens.json. transformers adds these tokens to a tokenizer if its tokenizer.json lacks them.
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
  Json names = Json::object();    // texts of bos_token, eos_token ...
  std::vector<AddedToken> added;  // all texts differ; id kNoToken: the files name no id
  Json config = Json::object();   // content of tokenizer_config.json
  std::vector<std::string> warnings;
};

// If several files name a token, tokenizer_config.json has precedence. If tokenizer_config.json cannot be read, that is
// an error; if another file cannot be read, a warning.
Result<SpecialTokens> read_special_tokens(const ModelFile& file);

// Returns the ids of the tokens that end an answer, unchecked: eos_token_id of generation_config.json, else of
// config.json. Errors: those of generation_config.json.
Result<std::vector<int64_t>> read_end_ids(const ModelFile& file);

}  // namespace ibid
