// Normalizer: the steps that a tokenizer applies to a text before splitting it. TextPlace describes what precedes the
// text, because some steps treat a beginning differently.
//
// A NormalizedText maps a position in its text back to a position in the raw text at which the raw text may be cut
// without changing how the two halves are normalized. Immutable and thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/unicode/nfc.h"
#include "base/unicode/text_changes.h"
#include "tokenizer/splitting/pattern.h"

namespace ibid {

// --- Charsmap: SentencePiece's precompiled table of replacements. It is a double array (Yata et al. 2007) over UTF-8,
// with offsets into a list of zero-terminated texts. Applied as `tokenizers` does it: if a grapheme cluster has fewer
// than six bytes and a prefix of it is in the table, the cluster becomes the replacement of the shortest such prefix;
// otherwise each character is replaced separately. A space is always a cluster of its own. Immutable and thread-safe.

class Charsmap {
 public:
  // Returns nullopt if `bytes` are not a table of this form.
  static std::optional<Charsmap> parse(std::string_view bytes);
  // Returns the table as bytes that parse() accepts.
  std::string bytes() const;

  // Calls replace(begin, end, by) for every replacement, from left to right: `by` replaces text[begin, end).
  using Replace = std::function<void(size_t begin, size_t end, std::string_view by)>;
  void apply(std::string_view text, const Replace& replace) const;

  // Returns the length of the prefix of a growing text whose replacements no append can change.
  size_t stable_prefix(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view text) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  // True if the ASCII character at text[at] certainly stays as it is, because the text ends after it or another ASCII
  // character follows. A quick test that applies to most characters of most texts.
  bool stays(std::string_view text, size_t at) const {
    const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
    return byte(at) < 0x80 && ascii_stays_[byte(at)] && (at + 1 == text.size() || byte(at + 1) < 0x80);
  }

  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 0x80> ascii_stays_{};  // stays() by character; false for CR, which may be part of a cluster
};

struct NormalizerStep {
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,       // converts each character to lower case, independent of its context
    kReplace,         // replaces every occurrence of `from` by `to`, leftmost first
    kReplacePattern,  // replaces every match of `pattern` by `to`
    kPrepend,         // adds `to` at the beginning of a non-empty text
    kStrip,           // removes white space at the beginning (if `left`) and at the end (if `right`)
    kCollapse,        // replaces a run of two spaces or more by `to`
    kWords,           // removes runs of white space; adds `to` before every word that does not begin with it
    kCharsmap,        // applies a Charsmap
  };
  Kind kind;
  std::string from = {}, to = {};
  bool first_only = false;    // kPrepend: adds `to` only at the beginning of the whole text, not after an added token
  bool unless_there = false;  // kPrepend: adds nothing if the text already begins with `to`
  bool left = false, right = false;
  Charsmap charsmap = {};
  // REQUIRES: the pattern has no lookbehind and never matches an empty text.
  std::optional<Pattern> pattern = {};
};

// The surroundings of a part of a text.
struct TextPlace {
  bool begins_section = true;  // no ordinary text directly precedes the part
  bool begins_text = true;     // nothing at all precedes the part
  bool open = false;           // text may be appended to the part later
  bool keeps_places = true;    // keep positions for raw_position() and position_of()
};

class Normalizer {
 public:
  explicit Normalizer(std::vector<NormalizerStep> steps = {}) : steps_(std::move(steps)) {}
  bool empty() const { return steps_.empty(); }
  const std::vector<NormalizerStep>& steps() const { return steps_; }

 private:
  std::vector<NormalizerStep> steps_;
};

class NormalizedText {
 public:
  // `normalizer` and `raw` must outlive the object. If the text may grow, normalizes only the part that no append can
  // change.
  NormalizedText(const Normalizer& normalizer, std::string_view raw, TextPlace place);
  NormalizedText(const NormalizedText&) = delete;  // not copyable, because stages point into each other
  NormalizedText& operator=(const NormalizedText&) = delete;

  std::string_view text() const { return stages_.empty() ? raw_ : stages_.back().text; }

  // True if the first character of text() comes from the first character of the raw text, by the rules of Hugging Face.
  bool keeps_beginning() const { return keeps_beginning_; }

  // Returns the position in the raw text that corresponds to `position` in text(); nullopt inside a replacement.
  std::optional<size_t> raw_position(size_t position) const;
  // Returns the position in text() at which the text that comes from raw[0, raw_position) ends.
  size_t position_of(size_t raw_position) const;

 private:
  struct Stage {
    std::string own;
    std::string_view text;  // points into `own`, `nfc`, or the previous stage's text
    TextChanges changes;
    std::optional<NfcText> nfc;
    bool changes_beginning = false;
  };
  static void run(const NormalizerStep& step, std::string_view in, const TextPlace& place, Stage& out);

  std::string_view raw_;
  bool keeps_beginning_ = true;
  std::vector<Stage> stages_;  // reserved once, because it must not be reallocated
};

}  // namespace ibid
