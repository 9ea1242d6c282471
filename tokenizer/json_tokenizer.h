// What a tokenizer.json says, checked piece by piece, for those who make something of it: the loader a tokenizer, and a
// conversion GGUF's metadata.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "base/types.h"
#include "tokenizer/added_tokens.h"
#include "tokenizer/json_pipeline.h"
#include "weights/model_file.h"

namespace ibid {

struct VocabularyEntry {
  std::string_view text;
  TokenId id;
  double score = 0;  // of Unigram
};

// Refers to the parsed file, which must outlive it.
struct JsonTokenizer {
  const Json& model;
  std::vector<VocabularyEntry> vocabulary;
  std::vector<AddedToken> added;  // with the ids they get
  JsonPipeline pipeline;

  size_t vocab_size() const;  // the largest id + 1
  bool is_unigram() const { return json_text(model, "type") == "Unigram"; }
};

// tokenizer.json of a model, in messages.
JsonSource json_source(const ModelFile& file);

// Errors: kUnsupported, naming the component; kBadVocab, kMissingKey.
Result<JsonTokenizer> read_json_tokenizer(const JsonSource& source, const Json& root);

// Calls visit() for the merges of a model, by rank, until one fails. Errors: kBadMerge; visit's.
Status for_each_merge(const JsonSource& source, const Json& model,
                      const std::function<Status(std::string_view left, std::string_view right)>& visit);

}  // namespace ibid
