// A parsed tokenizer.json. Nearly all of it (33 MB in Gemma 3's) is two long lists, model.vocab and model.merges, which
// are read straight into vectors of views. The rest is a JSON value.
//
// If the list reader finds anything unknown or wrong, parse_json() parses the whole document, and any error is the one
// that parse_json() finds. Both ways give the same lists. This class does not interpret them.
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
  double score = 0;  // Unigram only
};

// Holds views into the text it was parsed from, which must outlive it, and into its own memory.
class JsonDocument {
 public:
  // `name` is the file's name in messages. Errors: those of parse_json().
  static Result<JsonDocument> parse(std::string_view text, std::string_view name);
  // As parse(), without the list reader: its reference implementation.
  static Result<JsonDocument> parse_whole(std::string_view text, std::string_view name);

  const Json& root() const { return root_; }  // null in place of each list that was read
  // Each is nullopt if root() has the list, in whatever form.
  const std::optional<std::vector<VocabularyEntry>>& vocabulary() const { return vocabulary_; }
  bool has_scores() const { return has_scores_; }  // vocabulary() was a list of texts and scores
  const std::optional<std::vector<TextMerge>>& merges() const { return merges_; }

 private:
  friend class JsonListReader;
  Json root_;
  std::optional<std::vector<VocabularyEntry>> vocabulary_;
  std::optional<std::vector<TextMerge>> merges_;
  bool has_scores_ = false;
  std::deque<std::string> unescaped_;  // decoded forms of strings with escapes
};

}  // namespace ibid
