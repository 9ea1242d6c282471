// Reads the parts of tokenizer.json around its model: normalizer, pre_tokenizer, post_processor, decoder. It
// accepts only what is known to mean the same here; anything else is an error that names it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pipeline_tokenizer.h"
#include "tokenizer/splitting/pretokenizer.h"

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
  std::vector<NormalizerStep> normalizer;
  std::vector<NormalizerStep> rewriter;
  std::vector<SplitStep> split;  // in what the rewriter wrote
  bool byte_level = false;
  // If it is not byte-level, the tokens are written as text, and what follows says how.
  PieceCut cut = PieceCut::kNowhere;
  std::vector<std::pair<std::string, std::string>> shown_replacements;  // in the text of a token, in this order
  bool shown_bytes = false;                                             // <0xHH> is the byte
  FirstToken first_token = FirstToken::kAsItIs;

  std::vector<int64_t> prefix, suffix;  // ids that the post-processor puts around a text, unchecked
};

// Truncation and padding are not read: they are about batches for training.
// Error: kUnsupported.
Result<JsonPipeline> read_pipeline(const JsonSource& source, const Json& root);

// The steps of a component that may be one thing or a Sequence of them, sequences inside of it dissolved.
std::vector<const Json*> json_steps(const Json* component, const char* list_key);
std::string json_type(const Json& component);
// {"String": " "} or {"Regex": "\\s+"} of a Replace or a Split.
std::optional<std::string> pattern_text(const Json& step, std::string_view key);
// A regular expression for a text. Line ends are written as escapes, as files do it now and then.
std::string escaped_text(std::string_view text);
std::string canonical_pattern(std::string_view pattern);

// Adds the effect of a step other than ByteLevel and Metaspace.
Status add_split_steps(const JsonSource& source, const Json& step, std::vector<SplitStep>& out);

// Its parts about text that is not in the byte alphabet.
Result<std::vector<NormalizerStep>> read_normalizer(const JsonSource& source, const Json& root);
Status read_piece_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out);
Status read_piece_decoder(const JsonSource& source, const Json& root, JsonPipeline& out);

}  // namespace ibid
