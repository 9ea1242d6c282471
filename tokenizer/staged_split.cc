#include "tokenizer/staged_split.h"

#include <algorithm>
#include <string>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/pretokenizer_scanners.h"

namespace ibid {
namespace {

constexpr size_t kCertain = ScanMemory::kCertain;

// What the steps that are no Split match.
std::string_view pattern_of(std::string_view stage) {
  if (stage == "Digits:individual") return "\\p{N}";
  if (stage == "Digits:contiguous") return "\\p{N}+";
  if (stage == "Punctuation:isolated") return "[\\p{P}!-/:-@\\[-`{-~]";
  if (stage == "Punctuation:contiguous") return "[\\p{P}!-/:-@\\[-`{-~]+";
  return stage;
}

}  // namespace

StagedSplit::StagedSplit(std::string_view signature) {
  bool in_alphabet = false;  // behind ByteLevel
  while (!signature.empty()) {
    const size_t end = std::min(signature.find('\n'), signature.size());
    const std::string_view line = signature.substr(0, end);
    Stage& stage = stages_.emplace_back();
    // What has a scanner of its own is cut by it.
    const PretokenizerFamily* known = find_pretokenizer_by_signature(line);
    if (in_alphabet && line == "Digits:contiguous") {
      stage.scan = scan_alphabet_digits;
    } else if (known != nullptr && known->scan != nullptr) {
      stage.scan = known->scan;
    } else {
      stage.pattern.emplace(pattern_of(line));
    }
    in_alphabet |= line == "ByteLevel";
    signature.remove_prefix(std::min(end + 1, signature.size()));
  }
  CHECK(!stages_.empty());
}

StagedSplit::Region StagedSplit::apply(const Stage& stage, const PatternWindow& window, size_t begin,
                                       std::vector<Pattern::Retreat>& scratch) {
  if (stage.scan != nullptr) {
    if (begin < window.safe_end) {
      const Piece piece = stage.scan(window.text.substr(0, std::min(window.end, window.safe_end)), begin);
      if (!piece.touched_end || window.safe_end == kCertain) return {begin, piece.end, kCertain, true};
    }
    return {begin, stage.scan(window.text.substr(0, window.end), begin).end, begin, true};
  }
  bool touched = false;
  const std::optional<size_t> match = stage.pattern->match(window, begin, scratch, touched);
  size_t safe_end = touched ? begin : kCertain;
  if (match && *match > begin) return {begin, *match, safe_end, true};
  size_t end = begin;
  for (;;) {
    end += utf8_decode(window.text.substr(0, window.end), end).length;
    if (end >= window.end) {
      return {begin, end, std::min(safe_end, window.safe_end), false};
    }
    touched = false;
    const bool found = stage.pattern->match(window, end, scratch, touched).has_value();
    if (touched) safe_end = std::min(safe_end, end);
    if (found) return {begin, end, safe_end, false};
  }
}

Piece StagedSplit::scan(std::string_view text, size_t begin, ScanMemory& memory) const {
  memory.regions.resize(stages_.size());
  bool anew = false;
  for (size_t i = 0; i < stages_.size(); ++i) {
    Region& region = memory.regions[i];
    anew |= begin >= region.end;
    if (!anew) continue;
    PatternWindow window{text, 0, text.size(), text.size()};
    if (i > 0) {
      const Region& outer = memory.regions[i - 1];
      window = {text, outer.begin, outer.end, outer.safe_end};
    }
    region = apply(stages_[i], window, begin, memory.retreats);
  }
  Piece piece{memory.regions.back().end, memory.regions.back().safe_end != kCertain};
  // Inside of what an earlier pattern matched, that pattern would match something else from there on.
  for (size_t i = 0; i + 1 < stages_.size(); ++i) {
    const Region& region = memory.regions[i];
    piece.may_resume &= !region.match || piece.end == region.end;
  }
  return piece;
}

}  // namespace ibid
