// Normalizer: the chain of steps that a tokenizer applies to a text before it looks for pieces in it. It is told
// where the text stands, because some steps treat the beginning differently.
//
// A NormalizedText keeps the way back: it maps a place in it to a place where the raw text may be cut in two
// without a change to either half. Immutable and thread-safe.
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

// --- Charsmap: SentencePiece's precompiled table, which says what a text is rewritten to before it is cut. It is a
// double array (Yata et al. 2007) over UTF-8, with offsets into a list of texts that end in zero bytes. It is applied
// as `tokenizers` does it. A grapheme cluster of fewer than six bytes becomes what the table has for the first text
// that it begins with; in longer clusters each character does. A space is always a cluster of its own. Immutable and
// thread-safe.

class Charsmap {
 public:
  // Nothing when `bytes` are no such table.
  static std::optional<Charsmap> parse(std::string_view bytes);
  // The bytes that parse() read.
  std::string bytes() const;

  // Calls replace(begin, end, by) for what the table rewrites, from left to right.
  using Replace = std::function<void(size_t begin, size_t end, std::string_view by)>;
  void apply(std::string_view text, const Replace& replace) const;

  // How much of an open text an append leaves as it is.
  size_t stable_prefix(std::string_view text) const;

 private:
  std::optional<std::string_view> lookup(std::string_view text) const;
  uint32_t unit(size_t index) const { return index < units_.size() ? units_[index] : 0; }

  // Whether a character of one byte stays when such another follows, or nothing does: most of most texts.
  bool stays(std::string_view text, size_t at) const {
    const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
    return byte(at) < 0x80 && ascii_stays_[byte(at)] && (at + 1 == text.size() || byte(at + 1) < 0x80);
  }

  std::vector<uint32_t> units_;
  std::string texts_;
  std::array<bool, 0x80> ascii_stays_{};  // by character; CR may be half of a cluster
};

// --- Normalizer.

struct NormalizerStep {
  enum class Kind {
    kNfc,
    kNfd,
    kNfkc,
    kNfkd,
    kLowercase,       // character by character, whatever stands around it
    kReplace,         // every `from` by `to`, leftmost first
    kReplacePattern,  // every match of `pattern` by `to`
    kPrepend,    // `to` at the beginning of a text that is not empty
    kStrip,      // white space at the beginning (left) and at the end (right) goes
    kCollapse,   // a run of two spaces or more becomes `to`
    kWords,      // runs of white space go; every word has `to` in front, unless it begins with it
    kCharsmap,   // SentencePiece's table
  };
  Kind kind;
  std::string from = {}, to = {};
  bool first_only = false;    // kPrepend: not behind an added token, only where the whole text begins
  bool unless_there = false;  // kPrepend: not where the text begins with `to` already
  bool left = false, right = false;
  Charsmap charsmap = {};
  // REQUIRES: it does not look behind, and never matches an empty text.
  std::optional<Pattern> pattern = {};
};

// Where a stretch of text stands.
struct TextPlace {
  bool begins_section = true;  // no ordinary text stands right before it
  bool begins_text = true;     // nothing at all does
  bool open = false;           // it may grow at its end
  bool keeps_places = true;    // raw_position() and position_of() will be asked
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
  // `normalizer` and `raw` must outlive the object. Of an open text it takes only the part that an append cannot
  // change.
  NormalizedText(const Normalizer& normalizer, std::string_view raw, TextPlace place);
  NormalizedText(const NormalizedText&) = delete;  // stages point into one another
  NormalizedText& operator=(const NormalizedText&) = delete;

  std::string_view text() const { return stages_.empty() ? raw_ : stages_.back().text; }

  // Whether what text() begins with comes from the first character of the raw text, as the reference counts it.
  bool keeps_beginning() const { return keeps_beginning_; }

  // The place in the raw text that corresponds to a place in text(); nothing inside of what was changed.
  std::optional<size_t> raw_position(size_t position) const;
  // The first place in text() that does not come from raw[0, raw_position).
  size_t position_of(size_t raw_position) const;

 private:
  struct Stage {
    std::string own;
    std::string_view text;  // of `own`, of `nfc`, or the text before
    TextChanges changes;
    std::optional<NfcText> nfc;
    bool changes_beginning = false;
  };
  static void run(const NormalizerStep& step, std::string_view in, const TextPlace& place, Stage& out);

  std::string_view raw_;
  bool keeps_beginning_ = true;
  std::vector<Stage> stages_;  // never grows beyond what was reserved
};

}  // namespace ibid
