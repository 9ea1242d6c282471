#include "base/unicode/nfc.h"

#include <algorithm>
#include <cstdint>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

// Hangul syllables are composed arithmetically (Unicode 3.12).
constexpr uint32_t kSBase = 0xAC00, kLBase = 0x1100, kVBase = 0x1161, kTBase = 0x11A7;
constexpr uint32_t kLCount = 19, kVCount = 21, kTCount = 28, kSCount = kLCount * kVCount * kTCount;

using CodePoints = std::vector<uint32_t>;

bool is_compatible(NormalForm form) { return form == NormalForm::kKc || form == NormalForm::kKd; }
bool is_decomposed(NormalForm form) { return form == NormalForm::kD || form == NormalForm::kKd; }

uint8_t combining_class(uint32_t c) {
  const uint8_t normalization = normalization_class(c);
  return normalization == 255 ? 0 : normalization;
}

// Returns the index in kCompatible of a character that decomposes only in NFKC and NFKD; kCompatibleSize for any other
// character.
size_t find_compatible(uint32_t c) {
  using namespace unicode_data;
  if (c < 0x80) return kCompatibleSize;
  const uint32_t* end = kCompatible + kCompatibleSize;
  const uint32_t* found = std::lower_bound(kCompatible, end, c);
  return found == end || *found != c ? kCompatibleSize : static_cast<size_t>(found - kCompatible);
}

// Returns the normalization class of a character in `form`: 0 if it is a boundary, 255 for another starter, else its
// combining class.
uint8_t class_in(NormalForm form, uint32_t c) {
  const uint8_t normalization = normalization_class(c);
  if (normalization != 0 || !is_compatible(form)) return normalization;
  return find_compatible(c) == unicode_data::kCompatibleSize ? 0 : 255;
}

void decompose(uint32_t c, NormalForm form, CodePoints& out) {
  using namespace unicode_data;
  if (const size_t i = is_compatible(form) ? find_compatible(c) : kCompatibleSize; i != kCompatibleSize) {
    out.insert(out.end(), kCompatibleText + kCompatibleOffset[i], kCompatibleText + kCompatibleOffset[i + 1]);
    return;
  }
  if (c - kSBase < kSCount) {
    const uint32_t s = c - kSBase;
    out.push_back(kLBase + s / (kVCount * kTCount));
    out.push_back(kVBase + s % (kVCount * kTCount) / kTCount);
    if (s % kTCount != 0) out.push_back(kTBase + s % kTCount);
    return;
  }
  const uint32_t* end = kDecomposed + kDecomposedSize;
  const uint32_t* found = std::lower_bound(kDecomposed, end, c);
  if (found == end || *found != c) {
    out.push_back(c);
    return;
  }
  const size_t i = static_cast<size_t>(found - kDecomposed);
  out.insert(out.end(), kDecomposedText + kDecomposedOffset[i], kDecomposedText + kDecomposedOffset[i + 1]);
}

// Returns the primary composite of two characters, or 0 if they have none.
uint32_t compose(uint32_t first, uint32_t second) {
  using namespace unicode_data;
  if (first - kLBase < kLCount && second - kVBase < kVCount) {
    return kSBase + ((first - kLBase) * kVCount + (second - kVBase)) * kTCount;
  }
  if (first - kSBase < kSCount && (first - kSBase) % kTCount == 0 && second - kTBase - 1 < kTCount - 1) {
    return first + (second - kTBase);
  }
  const uint64_t pair = uint64_t{first} << 32 | second;
  const uint64_t* end = kComposedPair + kComposedSize;
  const uint64_t* found = std::lower_bound(kComposedPair, end, pair);
  return found != end && *found == pair ? kComposed[found - kComposedPair] : 0;
}

// Sorts combining marks by their class; equal classes keep their order.
void reorder(CodePoints& chars) {
  for (size_t i = 0; i < chars.size();) {
    size_t end = i;
    while (end < chars.size() && combining_class(chars[end]) != 0) ++end;
    std::stable_sort(chars.begin() + static_cast<ptrdiff_t>(i), chars.begin() + static_cast<ptrdiff_t>(end),
                     [](uint32_t a, uint32_t b) { return combining_class(a) < combining_class(b); });
    i = end + 1;
  }
}

// Canonical composition (Unicode 3.11, D115 and D117): a character composes with the last starter (character of
// combining class 0) before it, unless another starter or a character of the same or a higher combining class is
// between them.
void recompose(CodePoints& chars) {
  size_t out = 0, starter = 0;
  bool has_starter = false;
  uint8_t last_class = 0;  // class of the last character kept after the starter; 0 if none
  for (const uint32_t c : chars) {
    const uint8_t its_class = combining_class(c);
    const bool adjacent = has_starter && out == starter + 1;
    const bool blocked = !has_starter || (!adjacent && last_class >= its_class);
    const uint32_t composite = blocked ? 0 : compose(chars[starter], c);
    if (composite != 0) {
      chars[starter] = composite;
      continue;
    }
    if (its_class == 0) {
      starter = out;
      has_starter = true;
    }
    last_class = its_class;
    chars[out++] = c;
  }
  chars.resize(out);
}

// Returns the end of the segment that starts at `begin`: the next character that is a boundary.
size_t segment_end(std::string_view raw, size_t begin, NormalForm form) {
  const DecodedChar first = utf8_decode(raw, begin);
  size_t pos = begin + first.length;
  if (!first.valid) return pos;
  while (pos < raw.size() && static_cast<unsigned char>(raw[pos]) >= 0x80) {
    const DecodedChar c = utf8_decode(raw, pos);
    if (!c.valid || class_in(form, c.code_point) == 0) break;
    pos += c.length;
  }
  return pos;
}

// True if the segment is one character that is its own normal form. Most segments are.
bool is_inert(std::string_view raw, size_t begin, size_t end, NormalForm form) {
  const DecodedChar c = utf8_decode(raw, begin);
  return begin + c.length == end && (!c.valid || (class_in(form, c.code_point) == 0 && !is_decomposed(form)));
}

std::string normal_form(std::string_view segment, NormalForm form) {
  CodePoints chars;
  for (size_t pos = 0; pos < segment.size();) {
    const DecodedChar c = utf8_decode(segment, pos);
    if (!c.valid) return std::string(segment);  // an invalid byte is a segment of its own, and unchanged
    decompose(c.code_point, form, chars);
    pos += c.length;
  }
  reorder(chars);
  if (!is_decomposed(form)) recompose(chars);
  std::string out;
  for (const uint32_t c : chars) utf8_append(out, c);
  return out;
}

}  // namespace

NfcText::NfcText(std::string_view raw, NormalForm form) : raw_(raw) {
  size_t copied = 0;  // length of the raw text already copied to normal_
  for (size_t begin = 0; begin < raw.size();) {
    if (static_cast<unsigned char>(raw[begin]) < 0x80 &&
        (begin + 1 == raw.size() || static_cast<unsigned char>(raw[begin + 1]) < 0x80)) {
      ++begin;
      continue;
    }
    const size_t end = segment_end(raw, begin, form);
    const std::string_view segment = raw.substr(begin, end - begin);
    if (!is_inert(raw, begin, end, form)) {
      const std::string normal = normal_form(segment, form);
      if (normal != segment) {
        normal_.append(raw.substr(copied, begin - copied));
        changes_.add({begin, end, normal_.size(), normal_.size() + normal.size()});
        normal_.append(normal);
        copied = end;
      }
    }
    begin = end;
  }
  if (!changes_.empty()) normal_.append(raw.substr(copied));
}

size_t nfc_stable_prefix(std::string_view raw, NormalForm form) {
  size_t pos = raw.size() - utf8_incomplete_tail(raw);
  while (pos > 0) {
    // Step back to the start of the previous character. Invalid bytes are boundaries, so stepping over one is correct.
    size_t begin = pos - 1;
    for (int i = 0; i < 3 && begin > 0 && (static_cast<unsigned char>(raw[begin]) & 0xC0) == 0x80; ++i) --begin;
    const DecodedChar c = utf8_decode(raw.substr(0, pos), begin);
    if (!c.valid || begin + c.length != pos) return pos - 1;
    if (class_in(form, c.code_point) == 0) return begin;
    pos = begin;
  }
  return 0;
}

}  // namespace ibid
