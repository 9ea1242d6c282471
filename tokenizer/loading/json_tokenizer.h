// The content of a tokenizer.json, checked part by part. The loader builds a tokenizer from it, and a conversion writes
// GGUF metadata from it.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/token.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/loading/json_document.h"
#include "tokenizer/loading/json_pipeline.h"
#include "tokenizer/loading/special_tokens.h"
#include "weights/model_file.h"

namespace ibid {

// The object refers to the parsed document, which must outlive it.
struct JsonTokenizer {
  const Json& model;  // the "model" object, without its vocabulary and merges
  std::span<const VocabularyEntry> vocabulary;
  std::span<const TextMerge> merges;  // ordered by rank; empty for Unigram
  std::vector<AddedToken> added;      // added tokens with the ids assigned to them
  JsonPipeline pipeline;

  // Memory of `vocabulary` and `merges` if JsonDocument did not read these lists separately.
  std::vector<VocabularyEntry> own_vocabulary;
  std::vector<TextMerge> own_merges;

  std::vector<std::string> warnings;

  size_t vocab_size() const;  // largest token id + 1
  bool is_unigram() const { return json_text(model, "type") == "Unigram"; }
};

// Returns a JsonSource that names the model's tokenizer.json in error messages.
JsonSource json_source(const ModelFile& file);

// Checks the document, and adds the tokens of `special`. Errors: kUnsupported, naming the component; kBadVocab,
// kBadMerge, kMissingKey.
Result<JsonTokenizer> read_json_tokenizer(const ModelFile& file, const SpecialTokens& special,
                                          const JsonDocument& document);

}  // namespace ibid
