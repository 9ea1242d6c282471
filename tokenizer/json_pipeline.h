// What tokenizer.json says around its model: normalizer, pre_tokenizer, post_processor, decoder. Only what
// is known to mean the same here is accepted; anything else is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "tokenizer/pretokenizer.h"

namespace ibid {

// The file in messages.
struct JsonSource {
  std::string name;
  Status error(ErrorCode code, const std::string& words) const { return {code, name + ": " + words}; }
  Status unsupported(const std::string& what) const {
    return error(ErrorCode::kUnsupported, what + " is not supported");
  }
};

// A member that is there and not null; nullptr otherwise, also when `object` is no object.
const Json* json_member(const Json& object, std::string_view key);
std::optional<std::string> json_text(const Json& object, std::string_view key);
bool json_flag(const Json& object, std::string_view key, bool otherwise);

struct JsonPipeline {
  const PretokenizerFamily* pretokenizer = nullptr;
  bool nfc = false;
  std::vector<int64_t> prefix, suffix;  // ids that the post-processor puts around a text, unchecked
};

// Truncation and padding are not read: they are about batches for training.
// Error: kUnsupported.
Result<JsonPipeline> read_pipeline(const JsonSource& source, const Json& root);

}  // namespace ibid
