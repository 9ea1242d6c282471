// A parsed tokenizer.json. Most of the file (33 MB for Gemma 3) is two long lists, model.vocab and model.merges, which
// are read directly into vectors of views. The rest is parsed to a JSON value.
//
// If the list reader finds anything unknown or wrong, parse_json() parses the whole document and reports the error, if
// there is one. Both ways give the same lists. This class does not interpret the lists.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/token.h"
#include "tokenizer/models/vocabulary.h"

namespace ibid {

struct VocabularyEntry {
  std::string_view text;
  TokenId id;
  double score = 0;  // score of a Unigram token; 0 for other models
};

// Holds views into its own memory and into the parsed text, which must outlive the document.
class JsonDocument {
 public:
  // `name` is the file's name in messages. Errors: those of parse_json().
  static Result<JsonDocument> parse(std::string_view text, std::string_view name);
  // Parses the whole text by parse_json(), lists included. Tests compare the result with that of parse().
  static Result<JsonDocument> parse_whole(std::string_view text, std::string_view name);

  const Json& root() const { return root_; }  // the document, null in place of lists read separately
  // vocabulary() and merges() return the list if it was read separately. Otherwise they return nullopt, and root()
  // contains the list if the file has one.
  const std::optional<std::vector<VocabularyEntry>>& vocabulary() const { return vocabulary_; }
  bool has_scores() const { return has_scores_; }  // vocabulary() has scores (Unigram)
  const std::optional<std::vector<TextMerge>>& merges() const { return merges_; }

 private:
  friend class JsonListReader;
  Json root_;
  std::optional<std::vector<VocabularyEntry>> vocabulary_;
  std::optional<std::vector<TextMerge>> merges_;
  bool has_scores_ = false;
  std::deque<std::string> unescaped_;  // unescaped copies of strings that had escapes
};

}  // namespace ibid
