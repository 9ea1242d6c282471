#include "apps/terminal/graphemes.h"

#include <algorithm>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

using Break = ClusterBreak;

constexpr uint32_t kVariationSelector16 = 0xFE0F;  // shows the character before it as an emoji

struct Character {
  uint32_t code_point;
  Break kind;
  bool pictograph;
  bool consonant;  // a consonant of an Indic script, which a linker joins to the next consonant
  size_t columns;
  size_t length;
};

Character character_at(std::string_view text, size_t offset) {
  const DecodedChar decoded = utf8_decode(text, offset);
  const uint32_t c = decoded.code_point;
  const uint8_t value = unicode_record(c).cluster;
  return {c, Break(value & 15), (value & 0x10) != 0, (value & 0x20) != 0, size_t{value} >> 6, decoded.length};
}

bool is_mark(Break kind) { return kind == Break::kExtend || kind == Break::kLinker || kind == Break::kZwj; }

// State of a cluster, which decides whether the next character belongs to the cluster.
struct Cluster {
  Break last = Break::kOther;
  bool open_pictograph = false;  // the cluster so far is a pictograph followed only by marks
  bool open_consonant = false;   // the cluster so far is a consonant followed only by marks
  bool linked = false;           // one of the marks after the consonant is a linker (virama)
  size_t n_regional = 0;

  void push(const Character& c) {
    const bool mark = is_mark(c.kind);
    open_pictograph = c.pictograph || (open_pictograph && mark);
    linked = c.consonant ? false : linked || c.kind == Break::kLinker;
    open_consonant = c.consonant || (open_consonant && mark);
    n_regional += c.kind == Break::kRegional ? 1 : 0;
    last = c.kind;
  }

  // True if the next character belongs to the cluster (UAX 29, GB3 to GB13).
  bool takes(const Character& next) const {
    const Break n = next.kind;
    if (last == Break::kControl || n == Break::kControl) return false;
    if (last == Break::kL && (n == Break::kL || n == Break::kV || n == Break::kLv || n == Break::kLvt)) return true;
    if ((last == Break::kLv || last == Break::kV) && (n == Break::kV || n == Break::kT)) return true;
    if ((last == Break::kLvt || last == Break::kT) && n == Break::kT) return true;
    if (is_mark(n) || n == Break::kSpacingMark || last == Break::kPrepend) return true;
    if (open_consonant && linked && next.consonant) return true;
    if (last == Break::kZwj && open_pictograph && next.pictograph) return true;
    return last == Break::kRegional && n == Break::kRegional && n_regional % 2 == 1;
  }
};

size_t columns_of_parts(std::string_view cluster) {
  size_t columns = 0;
  for (size_t i = 0; i < cluster.size();) {
    const Character c = character_at(cluster, i);
    columns += c.columns;
    i += c.length;
  }
  return columns;
}

size_t sum_of(std::string_view text, size_t (*columns_of)(std::string_view)) {
  size_t columns = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t end = grapheme_end(text, i);
    columns += columns_of(text.substr(i, end - i));
    i = end;
  }
  return columns;
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t offset) {
  Character c = character_at(text, offset);
  offset += c.length;
  if (c.code_point == '\r' && offset < text.size() && text[offset] == '\n') return offset + 1;
  Cluster cluster;
  cluster.push(c);
  while (offset < text.size()) {
    c = character_at(text, offset);
    if (!cluster.takes(c)) break;
    cluster.push(c);
    offset += c.length;
  }
  return offset;
}

// Parses forwards from a newline or two adjacent ASCII characters, because no cluster extends across these.
size_t grapheme_begin(std::string_view text, size_t offset) {
  const auto is_ascii = [&](size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  size_t begin = offset - 1;
  while (begin > 0 && !(is_ascii(begin) && is_ascii(begin - 1) && text[begin] != '\n')) --begin;
  for (;;) {
    const size_t end = grapheme_end(text, begin);
    if (end >= offset) return begin;
    begin = end;
  }
}

size_t grapheme_columns(std::string_view cluster) {
  size_t columns = 0;
  bool emoji = false, joined = false;
  size_t n_regional = 0;
  for (size_t i = 0; i < cluster.size();) {
    const Character c = character_at(cluster, i);
    if (i == 0) emoji = c.pictograph;
    joined = joined || (i > 0 && (c.kind == Break::kZwj || c.columns == 2 || c.code_point == kVariationSelector16));
    n_regional += c.kind == Break::kRegional ? 1 : 0;
    columns += c.columns;
    i += c.length;
  }
  if ((emoji && joined) || n_regional == 2) return 2;
  return columns;
}

size_t widest_columns(std::string_view cluster) {
  return std::max(columns_of_parts(cluster), grapheme_columns(cluster));
}

size_t text_columns(std::string_view text) { return sum_of(text, grapheme_columns); }
size_t widest_text_columns(std::string_view text) { return sum_of(text, widest_columns); }

bool terminals_agree(std::string_view text) {
  for (size_t i = 0; i < text.size();) {
    const size_t end = grapheme_end(text, i);
    const std::string_view cluster = text.substr(i, end - i);
    if (columns_of_parts(cluster) != grapheme_columns(cluster)) return false;
    i = end;
  }
  return true;
}

bool breaks_without_blank(std::string_view text, size_t offset) {
  const uint32_t c = character_at(text, offset).code_point;
  return (c >= 0x2E80 && c < 0xA4D0) || (c >= 0xF900 && c < 0xFB00) || (c >= 0xFE30 && c < 0xFE70) ||
         (c >= 0xFF01 && c < 0xFFE7) || (c >= 0x20000 && c < 0x40000);
}

bool closes_a_phrase(std::string_view text, size_t offset) {
  constexpr uint32_t kClosing[] = {
      0x2019, 0x201D, 0x2026, 0x3001, 0x3002, 0x3009, 0x300B, 0x300D, 0x300F, 0x3011, 0x3015, 0x3017, 0x3019, 0x301B,
      0x301F, 0x3041, 0x3043, 0x3045, 0x3047, 0x3049, 0x3063, 0x3083, 0x3085, 0x3087, 0x309B, 0x309C, 0x309D, 0x309E,
      0x30A1, 0x30A3, 0x30A5, 0x30A7, 0x30A9, 0x30C3, 0x30E3, 0x30E5, 0x30E7, 0x30FB, 0x30FC, 0x30FD, 0x30FE, 0xFF01,
      0xFF09, 0xFF0C, 0xFF0E, 0xFF1A, 0xFF1B, 0xFF1F, 0xFF3D, 0xFF5D, 0xFF60, 0xFF61, 0xFF63, 0xFF64};
  const uint32_t c = character_at(text, offset).code_point;
  const bool ascii = c < 0x80 && std::string_view(".,;:!?)]}'\"").find(static_cast<char>(c)) != std::string_view::npos;
  return ascii || std::binary_search(std::begin(kClosing), std::end(kClosing), c);
}

}  // namespace ibid
