// Reads the parts of tokenizer.json around its model: normalizer, pre_tokenizer, post_processor, decoder. Accepts only
// components that ibid implements exactly; any other component is an error that names it.
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

// The name of the JSON file, for error messages.
struct JsonSource {
  std::string name;
  Status error(ErrorCode code, const std::string& words) const { return {code, name + ": " + words}; }
  Status unsupported(const std::string& what) const {
    return error(ErrorCode::kUnsupported, what + " is not supported");
  }
};

std::optional<std::string> json_text(const Json& object, std::string_view key);
bool json_flag(const Json& object, std::string_view key, bool otherwise);

struct JsonPipeline {
  std::vector<NormalizerStep> normalizer;
  std::vector<NormalizerStep> rewriter;
  std::vector<SplitStep> split;  // steps that split a text after `rewriter` has changed it
  bool byte_level = false;
  // The following members are used only if byte_level is false:
  PieceCut cut = PieceCut::kNowhere;
  // Replacements in the text of a decoded token, applied in this order.
  std::vector<std::pair<std::string, std::string>> shown_replacements;
  bool shown_bytes = false;  // tokens <0xHH> are shown as the byte 0xHH
  FirstToken first_token = FirstToken::kAsItIs;

  std::vector<int64_t> prefix, suffix;  // token ids that the post-processor adds around a text; range not checked yet
};

// Reads the components of a tokenizer.json. Ignores truncation and padding, which are for training batches. Error:
// kUnsupported.
Result<JsonPipeline> read_pipeline(const JsonSource& source, const Json& root);

// Returns the steps of a component in order, with those of nested Sequences in their place.
std::vector<const Json*> json_steps(const Json* component, const char* list_key);
std::string json_type(const Json& component);
// Returns the pattern of a Replace or a Split: {"String": " "} or {"Regex": "\\s+"}.
std::optional<std::string> pattern_text(const Json& step, std::string_view key);
// Returns a regular expression that matches exactly `text`. Line ends are written as escapes, as some files do.
std::string escaped_text(std::string_view text);
std::string canonical_pattern(std::string_view pattern);

// Appends a step to `out`. REQUIRES: the step is neither ByteLevel nor Metaspace.
Status add_split_steps(const JsonSource& source, const Json& step, std::vector<SplitStep>& out);

// --- Parts of read_pipeline(): the normalizer, and the components of tokenizers that are not byte-level.
Result<std::vector<NormalizerStep>> read_normalizer(const JsonSource& source, const Json& root);
Status read_piece_pretokenizer(const JsonSource& source, const Json& root, JsonPipeline& out);
Status read_piece_decoder(const JsonSource& source, const Json& root, JsonPipeline& out);

}  // namespace ibid
