#include "tokenizer/splitting/staged_split.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"

namespace ibid {
namespace {

constexpr size_t kCertain = ScanMemory::kCertain;

// Characters that the step Punctuation matches: punctuation of ASCII, and of Unicode 8.0.
#define PUNCTUATION                                                                                \
  "[\\p{P}!-/:-@\\[-`{-~\u166d\U000111c9&&[^"                                                      \
  "\u061d\u09fd\u0a76\u0c77\u0c84\u1b4e-\u1b4f\u1b7d-\u1b7f\u2e43-\u2e4f\u2e52-\u2e5d\U00010d6e"   \
  "\U00010ead\U00010f55-\U00010f59\U00010f86-\U00010f89\U000113d4-\U000113d5\U000113d7-\U000113d8" \
  "\U0001144b-\U0001144f\U0001145a-\U0001145b\U0001145d\U00011660-\U0001166c\U000116b9\U0001183b"  \
  "\U00011944-\U00011946\U000119e2\U00011a3f-\U00011a46\U00011a9a-\U00011a9c\U00011a9e-\U00011aa2" \
  "\U00011b00-\U00011b09\U00011be1\U00011c41-\U00011c45\U00011c70-\U00011c71\U00011ef7-\U00011ef8" \
  "\U00011f43-\U00011f4f\U00011fff\U00012ff1-\U00012ff2\U00016d6d-\U00016d6f\U00016e97-\U00016e9a" \
  "\U00016fe2\U0001e5ff\U0001e95e-\U0001e95f"                                                      \
  "]]"

// Characters that the step Digits matches: the numbers of Unicode 17; \p{N} of Pattern has only those of Unicode 16.
#define NUMBER "[\\p{N}\U00011de0-\U00011de9\U00016ff4-\U00016ff6]"

// For a character class: \w as in Rust's regex crate. \w of Pattern lacks the zero-width joiner and non-joiner.
#define WORD "\\w\u200c\u200d"

// Returns the pattern of a step, which may be given by a name such as "Digits:individual".
std::string_view pattern_of(std::string_view stage) {
  if (stage == "Digits:individual") return NUMBER;
  if (stage == "Digits:contiguous") return NUMBER "+";
  if (stage == "Whitespace") return "[" WORD "]+|[^" WORD "\\s]+";
  if (stage == "Punctuation:isolated") return PUNCTUATION;
  if (stage == "Punctuation:contiguous") return PUNCTUATION "+";
  return stage;
}

#undef PUNCTUATION
#undef NUMBER
#undef WORD

}  // namespace

Result<StagedSplit> StagedSplit::create(const std::vector<SplitStep>& steps) {
  StagedSplit out;
  bool in_alphabet = false;  // after a ByteLevel step: the text is in the byte alphabet
  for (const SplitStep& step : steps) {
    Stage& stage = out.stages_.emplace_back();
    stage.behavior = step.behavior;
    stage.invert = step.invert;
    // If a scanner exists for the step, the scanner splits instead of the pattern.
    const PretokenizerFamily* known = find_pretokenizer_by_steps({step});
    if (in_alphabet && step.pattern == "Digits:contiguous") {
      stage.scan = scan_alphabet_digits;
    } else if (known != nullptr && known->scan != nullptr) {
      stage = {.scan = known->scan};
    } else {
      Result<Pattern> pattern = Pattern::parse(pattern_of(step.pattern));
      if (!pattern.ok()) {
        return {ErrorCode::kUnsupported,
                "the pattern " + in_quotes(step.pattern) + " with " + pattern.status().message()};
      }
      stage.pattern = std::move(pattern).value();
      out.looks_behind_ |= stage.pattern->looks_behind();
    }
    in_alphabet |= step.pattern == "ByteLevel";
  }
  return out;
}

// Returns the match at `begin`, or else the text up to the next match.
StagedSplit::Region StagedSplit::element(const Stage& stage, const PatternWindow& window, size_t begin,
                                         Pattern::Memory& memory) {
  if (stage.scan != nullptr) {
    if (begin < window.safe_end) {
      const Piece piece = stage.scan(window.text.substr(0, std::min(window.end, window.safe_end)), begin);
      if (!piece.touched_end || window.safe_end == kCertain) return {begin, piece.end, kCertain, true};
    }
    return {begin, stage.scan(window.text.substr(0, window.end), begin).end, begin, true};
  }
  bool touched = false;
  const std::optional<size_t> match = stage.pattern->match(window, begin, memory, touched);
  size_t safe_end = touched ? begin : kCertain;
  if (match && *match > begin) return {begin, *match, safe_end, true};
  size_t end = begin;
  for (;;) {
    end += utf8_decode(window.text.substr(0, window.end), end).length;
    if (end >= window.end) {
      return {begin, end, std::min(safe_end, window.safe_end), false};
    }
    touched = false;
    const bool found = stage.pattern->match(window, end, memory, touched).has_value();
    if (touched) safe_end = std::min(safe_end, end);
    if (found) return {begin, end, safe_end, false};
  }
}

StagedSplit::Region StagedSplit::apply(const Stage& stage, const PatternWindow& window, size_t begin,
                                       Pattern::Memory& memory) {
  using enum SplitBehavior;
  Region region = element(stage, window, begin, memory);
  const auto counts = [&stage](const Region& one) { return one.match != stage.invert; };
  if (stage.behavior == kIsolated) return region;
  if (stage.behavior == kRemoved) {
    region.dropped = counts(region);
    return region;
  }
  const bool first_counts = counts(region);
  if (first_counts ? stage.behavior == kMergedWithPrevious : stage.behavior == kMergedWithNext) return region;
  for (;;) {
    if (region.end >= window.end) {  // the text after the window decides whether the region grows
      if (region.end >= window.safe_end) region.safe_end = std::min(region.safe_end, region.end);
      return region;
    }
    const Region next = element(stage, window, region.end, memory);
    region.safe_end = std::min(region.safe_end, next.safe_end);
    const bool joins = stage.behavior == kContiguous ? next.match == region.match : counts(next) != first_counts;
    if (!joins) return region;
    region.end = next.end;
    if (stage.behavior == kContiguous) continue;
    region.match = true;  // the joined region counts as a match: no search starts inside it
    return region;
  }
}

Piece StagedSplit::scan(std::string_view text, size_t begin, ScanMemory& memory) const {
  if (stages_.empty()) return {.end = text.size(), .touched_end = true};
  memory.regions.resize(stages_.size());
  memory.patterns.resize(stages_.size());
  bool anew = false;
  for (size_t i = 0; i < stages_.size(); ++i) {
    Region& region = memory.regions[i];
    const bool outer_anew = anew;
    anew |= begin >= region.end;
    if (!anew) continue;
    PatternWindow window{text, 0, text.size(), text.size()};
    if (i > 0) {
      const Region& outer = memory.regions[i - 1];
      window = {text, outer.begin, outer.end, outer.safe_end};
      if (outer.dropped) {
        region = outer;
        continue;
      }
    }
    if (outer_anew) memory.patterns[i].clear();
    region = apply(stages_[i], window, begin, memory.patterns[i]);
  }
  const Region& found = memory.regions.back();
  Piece piece{.end = found.end,
              .touched_end = found.safe_end != kCertain,
              .may_resume = !looks_behind_,
              .dropped = found.dropped};
  // Do not resume inside a match of an earlier pattern, because from there on that pattern would find other matches.
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    const Region& region = memory.regions[i];
    piece.may_resume &= !region.match || piece.end == region.end;
  }
  return piece;
}

}  // namespace ibid
