#include "tokenizer/normalizer.h"

#include <algorithm>
#include <cstring>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

bool is_control(uint32_t c) { return in_classes(c, kJoinsNothingClass); }
bool joins_previous(uint32_t c) { return in_classes(c, kJoinsPreviousClass); }
bool joins_next(uint32_t c) { return in_classes(c, kJoinsNextClass); }

// Returns the end of the grapheme cluster at `begin`. The result is exact for clusters of fewer than six bytes
// (syllables, flags and emoji sequences are longer).
size_t cluster_end(std::string_view text, size_t begin) {
  DecodedChar last = utf8_decode(text, begin);
  size_t end = begin + last.length;
  if (last.code_point == '\r' && end < text.size() && text[end] == '\n') return end + 1;
  if (last.valid && is_control(last.code_point)) return end;
  while (end < text.size()) {
    if (text[end] == ' ' || (static_cast<unsigned char>(text[end]) < 0x80 && last.code_point < 0x600)) break;
    const DecodedChar next = utf8_decode(text, end);
    if (!next.valid || !last.valid || is_control(next.code_point)) break;
    if (!joins_previous(next.code_point) && !joins_next(last.code_point)) break;
    end += next.length;
    last = next;
  }
  return end;
}

}  // namespace

std::optional<Charsmap> Charsmap::parse(std::string_view bytes) {
  uint32_t size = 0;
  if (bytes.size() < sizeof(size)) return std::nullopt;
  std::memcpy(&size, bytes.data(), sizeof(size));
  if (size % sizeof(uint32_t) != 0 || size > bytes.size() - sizeof(size)) return std::nullopt;
  Charsmap out;
  out.units_.resize(size / sizeof(uint32_t));
  // data() of an empty vector may be null
  if (size > 0) std::memcpy(out.units_.data(), bytes.data() + sizeof(size), size);
  out.texts_ = bytes.substr(sizeof(size) + size);
  if (!out.texts_.empty() && out.texts_.back() != '\0') return std::nullopt;
  for (size_t c = 0; c < out.ascii_stays_.size(); ++c) {
    const char character = static_cast<char>(c);
    out.ascii_stays_[c] = character != '\r' && !out.lookup({&character, 1});
  }
  return out;
}

std::string Charsmap::bytes() const {
  const uint32_t size = static_cast<uint32_t>(units_.size() * sizeof(uint32_t));
  std::string out(sizeof(size) + size, '\0');
  std::memcpy(out.data(), &size, sizeof(size));
  if (size > 0) std::memcpy(out.data() + sizeof(size), units_.data(), size);
  return out + texts_;
}

std::optional<std::string_view> Charsmap::lookup(std::string_view text) const {
  const auto offset = [](uint32_t unit) { return size_t{unit >> 10} << ((unit & (1u << 9)) >> 6); };
  size_t node = offset(unit(0));
  for (const char letter : text) {
    const auto byte = static_cast<unsigned char>(letter);
    node ^= byte;
    const uint32_t here = unit(node);
    if (byte == 0 || (here & (0x80000000u | 0xFF)) != byte) break;
    node ^= offset(here);
    if ((here >> 8 & 1) == 0) continue;
    const size_t at = unit(node) & 0x7FFFFFFFu;
    if (at >= texts_.size()) break;
    return std::string_view(texts_.data() + at);
  }
  return std::nullopt;
}

void Charsmap::apply(std::string_view text, const Replace& replace) const {
  for (size_t begin = 0, end = 0; begin < text.size(); begin = end) {
    if (stays(text, begin)) {
      end = begin + 1;
      continue;
    }
    end = cluster_end(text, begin);
    if (end - begin < 6) {
      if (const auto by = lookup(text.substr(begin, end - begin))) {
        replace(begin, end, *by);
        continue;
      }
    }
    for (size_t at = begin, next = 0; at < end; at = next) {
      next = at + utf8_decode(text, at).length;
      if (const auto by = lookup(text.substr(at, next - at))) replace(at, next, *by);
    }
  }
}

size_t Charsmap::stable_prefix(std::string_view text) const {
  const size_t whole = text.size() - utf8_incomplete_tail(text);
  size_t last = 0;
  for (size_t pos = 0; pos < whole; pos = cluster_end(text.substr(0, whole), pos)) last = pos;
  return last;
}

namespace {

using Kind = NormalizerStep::Kind;

// The output of a step, and the positions at which it differs from the input.
class Rewriting {
 public:
  Rewriting(std::string_view in, bool keeps_places, std::string& out, TextChanges& changes)
      : in_(in), keeps_places_(keeps_places), out_(out), changes_(changes) {}

  // Appends the input between the previous call's range and `begin`, then `text` in place of in[begin, end).
  void replace(size_t begin, size_t end, std::string_view text) {
    out_.append(in_.substr(copied_, begin - copied_));
    if (keeps_places_) changes_.add({begin, end, out_.size(), out_.size() + text.size()});
    out_.append(text);
    copied_ = end;
    changed_ = true;
    changed_beginning_ |= begin == 0 && end > (text.empty() ? 0 : utf8_decode(in_, 0).length);
  }
  bool changed_beginning() const { return changed_beginning_; }
  // Returns the new text, or the input if nothing was replaced.
  std::string_view finish() {
    if (!changed_) return in_;
    out_.append(in_.substr(copied_));
    return out_;
  }

 private:
  std::string_view in_;
  bool keeps_places_;
  bool changed_ = false, changed_beginning_ = false;
  std::string& out_;
  TextChanges& changes_;
  size_t copied_ = 0;
};

void replace_all(std::string_view in, const NormalizerStep& step, Rewriting& out) {
  for (size_t at = in.find(step.from); at != in.npos; at = in.find(step.from, at + step.from.size())) {
    out.replace(at, at + step.from.size(), step.to);
  }
}

void prepend(std::string_view in, const NormalizerStep& step, const TextPlace& place, Rewriting& out) {
  const bool wanted = step.first_only ? place.begins_text : place.begins_section;
  if (!wanted || in.empty() || (step.unless_there && in.starts_with(step.to))) return;
  out.replace(0, 0, step.to);
}

void strip(std::string_view in, const NormalizerStep& step, const TextPlace& place, Rewriting& out) {
  const size_t begin = step.left && place.begins_section ? spaces_end(in, 0) : 0;
  if (begin > 0) out.replace(0, begin, {});
  if (!step.right || place.open || begin == in.size()) return;
  const size_t end = spaces_begin(in, in.size());
  if (end < in.size()) out.replace(end, in.size(), {});
}

void collapse(std::string_view in, const NormalizerStep& step, Rewriting& out) {
  for (size_t at = in.find("  "); at != in.npos;) {
    const size_t end = std::min(in.find_first_not_of(' ', at), in.size());
    out.replace(at, end, step.to);
    at = in.find("  ", end);
  }
}

void mark_words(std::string_view in, const NormalizerStep& step, const TextPlace& place, Rewriting& out) {
  bool begins_word = place.begins_section;
  for (size_t pos = 0; pos < in.size();) {
    const size_t word = spaces_end(in, pos);
    if (word > pos || begins_word) {
      const bool marked = word == in.size() || in.substr(word).starts_with(step.to);
      out.replace(pos, word, marked ? std::string_view() : step.to);
    }
    begins_word = false;
    pos = word;
    while (pos < in.size()) {
      const DecodedChar c = utf8_decode(in, pos);
      if (c.valid && is_space(c.code_point)) break;
      pos += c.length;
    }
  }
}

// Returns the lower case of letters that are new in Unicode 17 (`tokenizers` converts them, but ibid's tables are those
// of Unicode 16); 0 for all other characters.
uint32_t lower_case_of_unicode_17(uint32_t c) {
  if (c >= 0x16EA0 && c <= 0x16EB8) return c + 0x1B;
  return c == 0xA7CE || c == 0xA7D2 || c == 0xA7D4 ? c + 1 : 0;
}

// Returns the lower case of one character as UTF-8; empty if it does not change.
std::string lower_case(uint32_t c) {
  std::string out;
  if (const uint32_t lower = lower_case_of_unicode_17(c); lower != 0) {
    utf8_append(out, lower);
    return out;
  }
  append_case_mapping(out, unicode_data::to_lower_table(), c);
  return out;
}

void lower(std::string_view in, Rewriting& out) {
  for (size_t pos = 0; pos < in.size();) {
    const DecodedChar c = utf8_decode(in, pos);
    if (c.valid) {
      if (const std::string to = lower_case(c.code_point); !to.empty()) out.replace(pos, pos + c.length, to);
    }
    pos += c.length;
  }
}

// Calls replace(begin, end) for every match. Returns the length of the prefix in which no append can change the
// matches.
template <typename Replace>
size_t find_all(const Pattern& pattern, std::string_view in, Replace replace) {
  const PatternWindow window{in, 0, in.size(), in.size()};
  Pattern::Memory memory;
  size_t certain = in.size();
  for (size_t pos = 0; pos < in.size();) {
    bool touched = false;
    const std::optional<size_t> end = pattern.match(window, pos, memory, touched);
    if (touched) certain = std::min(certain, pos);
    if (end) replace(pos, *end);
    pos = end ? *end : pos + utf8_decode(in, pos).length;
  }
  return certain;
}

// Returns the length of the longest proper prefix of `word` with which `text` ends.
size_t partial_match_length(std::string_view text, std::string_view word) {
  for (size_t n = std::min(text.size(), word.size() - 1); n > 0; --n) {
    if (text.ends_with(word.substr(0, n))) return n;
  }
  return 0;
}

// Returns the length of the prefix of a growing text for which no append can change the step's result.
size_t stable_prefix(const NormalizerStep& step, std::string_view in) {
  const size_t whole = in.size() - utf8_incomplete_tail(in);
  switch (step.kind) {
    case Kind::kNfc: return nfc_stable_prefix(in);
    case Kind::kNfd: return nfc_stable_prefix(in, NormalForm::kD);
    case Kind::kNfkc: return nfc_stable_prefix(in, NormalForm::kKc);
    case Kind::kNfkd: return nfc_stable_prefix(in, NormalForm::kKd);
    case Kind::kReplacePattern: return find_all(*step.pattern, in, [](size_t, size_t) {});
    case Kind::kReplace: return in.size() - partial_match_length(in, step.from);
    case Kind::kPrepend: return step.unless_there && partial_match_length(in, step.to) == in.size() ? 0 : in.size();
    case Kind::kLowercase: return whole;
    case Kind::kStrip: return step.right ? spaces_begin(in, whole) : whole;
    case Kind::kWords: {
      // White space at the end is not final: if the next word begins with `to`, `to` is not added.
      const size_t end = spaces_begin(in, whole);
      return end == whole && partial_match_length(in, step.to) > 0 ? in.size() - partial_match_length(in, step.to)
                                                                   : end;
    }
    case Kind::kCollapse: return std::min(in.find_last_not_of(' ') + 1, in.size());
    case Kind::kCharsmap: return step.charsmap.stable_prefix(in);
  }
  return in.size();
}

}  // namespace

void NormalizedText::run(const NormalizerStep& step, std::string_view in, const TextPlace& place, Stage& out) {
  for (const auto& [kind, form] : {std::pair(Kind::kNfc, NormalForm::kC), std::pair(Kind::kNfd, NormalForm::kD),
                                   std::pair(Kind::kNfkc, NormalForm::kKc), std::pair(Kind::kNfkd, NormalForm::kKd)}) {
    if (step.kind != kind) continue;
    out.nfc.emplace(in, form);
    out.text = out.nfc->text();
    return;
  }
  Rewriting rewriting(in, place.keeps_places, out.own, out.changes);
  switch (step.kind) {
    case Kind::kReplace: replace_all(in, step, rewriting); break;
    case Kind::kPrepend: prepend(in, step, place, rewriting); break;
    case Kind::kStrip: strip(in, step, place, rewriting); break;
    case Kind::kCollapse: collapse(in, step, rewriting); break;
    case Kind::kWords: mark_words(in, step, place, rewriting); break;
    case Kind::kLowercase: lower(in, rewriting); break;
    case Kind::kReplacePattern:
      find_all(*step.pattern, in, [&](size_t begin, size_t end) { rewriting.replace(begin, end, step.to); });
      break;
    case Kind::kCharsmap:
      step.charsmap.apply(in,
                          [&](size_t begin, size_t end, std::string_view by) { rewriting.replace(begin, end, by); });
      break;
    default: break;
  }
  out.text = rewriting.finish();
  // In `tokenizers`, text that a Charsmap inserts counts as coming from the first replaced character, so a Charsmap
  // never changes the beginning.
  out.changes_beginning = rewriting.changed_beginning() && step.kind != Kind::kCharsmap;
}

NormalizedText::NormalizedText(const Normalizer& normalizer, std::string_view raw, TextPlace place) : raw_(raw) {
  stages_.reserve(normalizer.steps().size());
  for (const NormalizerStep& step : normalizer.steps()) {
    std::string_view in = text();
    if (place.open) in = in.substr(0, stable_prefix(step, in));
    run(step, in, place, stages_.emplace_back());
    keeps_beginning_ &= !stages_.back().changes_beginning;
  }
}

std::optional<size_t> NormalizedText::raw_position(size_t position) const {
  std::optional<size_t> at = position;
  for (size_t i = stages_.size(); i-- > 0 && at;) {
    at = stages_[i].nfc ? stages_[i].nfc->raw_position(*at) : stages_[i].changes.raw_position(*at);
  }
  return at;
}

size_t NormalizedText::position_of(size_t raw_position) const {
  for (const Stage& stage : stages_) {
    raw_position = stage.nfc ? stage.nfc->position_of(raw_position) : stage.changes.position_of(raw_position);
  }
  return raw_position;
}

}  // namespace ibid
