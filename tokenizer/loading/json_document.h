// A tokenizer.json as it stands in the file. Nearly all of it (33 MB in Gemma 3's) is two long lists, model.vocab
// and model.merges, which are read straight into rows of views. The rest is JSON like any other.
//
// If the reader of the lists meets something that it does not know, or that is wrong, parse_json() reads the whole
// document, and any error is the one that parse_json() finds. Both ways give the same lists. This class does not
// know what they mean.
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
  double score = 0;  // of Unigram
};

// Views are into the text it was read from, which must outlive it, and into its own memory.
class JsonDocument {
 public:
  // `name` is the file in messages. Errors: those of parse_json().
  static Result<JsonDocument> parse(std::string_view text, std::string_view name);
  // As parse(), without the lists' reader: its readable twin.
  static Result<JsonDocument> parse_whole(std::string_view text, std::string_view name);

  const Json& root() const { return root_; }  // null stands where a list was read
  // Each nothing where root() has it, in whatever form.
  const std::optional<std::vector<VocabularyEntry>>& vocabulary() const { return vocabulary_; }
  bool has_scores() const { return has_scores_; }  // vocabulary() was a list of texts and scores, not of ids
  const std::optional<std::vector<TextMerge>>& merges() const { return merges_; }

 private:
  friend class JsonListReader;
  Json root_;
  std::optional<std::vector<VocabularyEntry>> vocabulary_;
  std::optional<std::vector<TextMerge>> merges_;
  bool has_scores_ = false;
  std::deque<std::string> unescaped_;  // texts that are written with escapes
};

}  // namespace ibid
