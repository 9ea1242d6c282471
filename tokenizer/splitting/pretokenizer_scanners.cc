#include "tokenizer/splitting/pretokenizer_scanners.h"

#include "tokenizer/splitting/text_cursor.h"

namespace ibid {
namespace {

enum class Case { kExact, kIgnored };

// 's|'t|'re|'ve|'m|'ll|'d at an apostrophe: the end of the match, or 0. Ignoring case also means
// U+017F, which folds to s.
template <typename Cursor>
size_t contraction(Cursor& text, size_t apostrophe, Case letter_case) {
  const auto letter_at = [&](size_t pos, TextChar& c) -> uint32_t {
    c = text.at(pos);
    if (letter_case == Case::kExact) return c.code_point;
    if (c.code_point >= 'A' && c.code_point <= 'Z') return c.code_point + ('a' - 'A');
    return c.code_point == 0x17F ? 's' : c.code_point;
  };
  TextChar first, second;
  const uint32_t letter = letter_at(apostrophe + 1, first);
  const size_t end = apostrophe + 1 + first.length;
  switch (letter) {
    case 's':
    case 't':
    case 'm':
    case 'd': return end;
    case 'r':
    case 'v': return letter_at(end, second) == 'e' ? end + 1 : 0;
    case 'l': return letter_at(end, second) == 'l' ? end + 1 : 0;
    default: return 0;
  }
}

enum class Newlines { kPlain, kOwnPiece };

// \s+(?!\S)|\s+ with kPlain, \s*[\r\n]+|\s+(?!\S)|\s+ with kOwnPiece. REQUIRES: a space at `begin`.
template <typename Cursor>
size_t whitespace(Cursor& text, size_t begin, Newlines newlines) {
  size_t pos = begin, last = begin, newline_end = 0;
  TextChar c = text.at(pos);
  for (; (c.kinds & kSpaceKind) != 0; c = text.at(pos)) {
    last = pos;
    pos += c.length;
    if (is_newline(c)) newline_end = pos;
  }
  if (newlines == Newlines::kOwnPiece && newline_end != 0) return newline_end;
  // Before a character that is no space, the lookahead gives the last space back, unless it is the only one.
  const bool something_follows = c.length != 0;
  return something_follows && last > begin ? last : pos;
}

// 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
template <typename Barrier>
Piece scan_gpt2(std::string_view bytes, size_t begin) {
  TextCursor<Barrier> text(bytes);
  const auto piece = [&text](size_t end) { return Piece{end, text.touched_end()}; };
  size_t pos = begin;
  TextChar c = text.raw(pos);
  const bool is_digit = (c.kinds & Barrier::kKinds) != 0 || Barrier::stops_at(c.code_point);
  if (is_digit) return piece(pos + c.length);
  if (c.code_point == '\'') {
    if (const size_t end = contraction(text, pos, Case::kExact); end != 0) return piece(end);
  }
  if (c.code_point == ' ') c = text.at(++pos);
  if (const CharKinds kind = c.kinds & (kLetterKind | kNumberKind | kOtherKind); kind != 0) {
    return piece(text.skip(pos + c.length, kind));
  }
  return piece(whitespace(text, begin, Newlines::kPlain));
}

// The end of \p{N}{1,most}. REQUIRES: a number at `begin`.
template <typename Cursor>
size_t numbers(Cursor& text, size_t begin, int most) {
  size_t pos = begin;
  for (int n = 0; n < most; ++n) {
    const TextChar c = text.raw(pos);
    if ((c.kinds & kNumberKind) == 0) break;
    pos += c.length;
  }
  return pos;
}

// (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n]*
//   |\s*[\r\n]+|\s+(?!\S)|\s+
// With marks_in_words, marks go with \p{L} in the second and fourth part.
template <int digits, bool marks_in_words>
Piece scan_llama3(std::string_view bytes, size_t begin) {
  TextCursor<NoBarrier> text(bytes);
  const auto piece = [&text](size_t end) { return Piece{end, text.touched_end()}; };
  constexpr CharKinds kWord = marks_in_words ? kLetterKind | kMarkKind : kLetterKind;
  const TextChar c = text.at(begin);
  if (c.code_point == '\'') {
    if (const size_t end = contraction(text, begin, Case::kIgnored); end != 0) return piece(end);
  }
  const size_t second = begin + c.length;
  if ((c.kinds & kLetterKind) != 0) return piece(text.skip(second, kWord));
  if ((c.kinds & kNumberKind) != 0) return piece(numbers(text, begin, digits));
  TextChar next;
  if (!is_newline(c)) {
    next = text.at(second);
    if (((next.kinds | (c.kinds & kMarkKind)) & kWord) != 0) return piece(text.skip(second, kWord));
  }
  const auto other = [](const TextChar& x) { return (x.kinds & kOtherKind) != 0 && (x.kinds & kWord) == 0; };
  const bool spaced = c.code_point == ' ' && other(next);
  if (spaced || other(c)) {
    size_t pos = spaced ? second + next.length : second;
    for (TextChar x = text.at(pos); other(x); x = text.at(pos)) pos += x.length;
    return piece(text.skip_newlines(pos));
  }
  return piece(whitespace(text, begin, Newlines::kOwnPiece));
}

// [upper]*[lower]+ at `begin`: the end of the match, or 0. The two sets share Lm, Lo and M, so without a
// lower-case letter behind the run the match backs up to the last shared character.
template <typename Cursor>
size_t upper_then_lower(Cursor& text, size_t begin) {
  size_t pos = begin, last_shared_end = 0;
  TextChar c = text.at(pos);
  for (; (c.kinds & kUpperKind) != 0; c = text.at(pos)) {
    pos += c.length;
    if ((c.kinds & kLowerKind) != 0) last_shared_end = pos;
  }
  if ((c.kinds & kLowerKind) != 0) return text.skip(pos + c.length, kLowerKind);
  return last_shared_end;
}

// [^\r\n\p{L}\p{N}]?[upper]*[lower]+ | [^\r\n\p{L}\p{N}]?[upper]+[lower]*, or 0.
template <typename Cursor>
size_t cased_word(Cursor& text, size_t begin, const TextChar& first) {
  const size_t second = begin + first.length;
  const bool prefix = (first.kinds & (kLetterKind | kNumberKind)) == 0 && !is_newline(first);
  const bool letter_or_mark = (first.kinds & (kUpperKind | kLowerKind)) != 0;
  if (prefix) {
    if (const size_t end = upper_then_lower(text, second); end != 0) return end;
  }
  if (letter_or_mark) {
    if (const size_t end = upper_then_lower(text, begin); end != 0) return end;
  }
  if (prefix) {
    // Lower-case letters right behind the run would have been a match above.
    if (const size_t end = text.skip(second, kUpperKind); end != second) return end;
  }
  if (letter_or_mark) {
    if (const size_t end = text.skip(begin, kUpperKind); end != begin) return end;
  }
  return 0;
}

// cased_word, then (?i:'s|'t|'re|'ve|'m|'ll|'d)? with contractions
//   |\p{N}{1,digits}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+
template <int digits, bool contractions>
Piece scan_o200k(std::string_view bytes, size_t begin) {
  TextCursor<NoBarrier> text(bytes);
  const auto piece = [&text](size_t end) { return Piece{end, text.touched_end()}; };
  const TextChar c = text.at(begin);
  if (const size_t end = cased_word(text, begin, c); end != 0) {
    if (contractions && text.at(end).code_point == '\'') {
      if (const size_t tail = contraction(text, end, Case::kIgnored); tail != 0) return piece(tail);
    }
    return piece(end);
  }
  if ((c.kinds & kNumberKind) != 0) return piece(numbers(text, begin, digits));
  size_t pos = begin + c.length;
  TextChar other = c;
  if (c.code_point == ' ') {
    other = text.at(pos);
    pos += other.length;
  }
  if ((other.kinds & kOtherKind) != 0) {
    pos = text.skip(pos, kOtherKind);
    for (TextChar x = text.at(pos); is_newline(x) || x.code_point == '/'; x = text.at(pos)) ++pos;
    return piece(pos);
  }
  return piece(whitespace(text, begin, Newlines::kOwnPiece));
}

constexpr bool is_deepseek_cjk(uint32_t c) {
  return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF);
}

// The main pattern is applied apart to the runs of CJK and to what stands between them.
struct OutsideCjk {
  static constexpr CharKinds kKinds = kNumberKind;
  static constexpr bool stops_at(uint32_t code_point) { return is_deepseek_cjk(code_point); }
};
struct InsideCjk {
  static constexpr CharKinds kKinds = 0;
  static constexpr bool stops_at(uint32_t code_point) { return !is_deepseek_cjk(code_point); }
};

bool is_ascii_letter(const TextChar& c) { return c.code_point < 0x80 && (c.kinds & kLetterKind) != 0; }
bool is_ascii_punctuation(const TextChar& c) {
  return c.code_point < 0x80 && (c.kinds & kPunctSymbolKind) != 0;
}

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// The end of the match, or 0: control characters and the like match nothing.
template <typename Cursor>
size_t match_deepseek(Cursor& text, size_t begin) {
  constexpr CharKinds kWord = kLetterKind | kMarkKind;
  const TextChar c = text.at(begin);
  const size_t second = begin + c.length;
  const TextChar next = text.at(second);
  if (is_ascii_punctuation(c) && is_ascii_letter(next)) {
    size_t pos = second;
    while (is_ascii_letter(text.at(pos))) ++pos;
    return pos;
  }
  if ((c.kinds & kWord) != 0) return text.skip(second, kWord);
  if ((c.kinds & kPunctSymbolKind) == 0 && !is_newline(c) && (next.kinds & kWord) != 0) {
    return text.skip(second, kWord);
  }
  if ((c.kinds & kPunctSymbolKind) != 0) return text.skip_newlines(text.skip(second, kPunctSymbolKind));
  if (c.code_point == ' ' && (next.kinds & kPunctSymbolKind) != 0) {
    return text.skip_newlines(text.skip(second, kPunctSymbolKind));
  }
  return (c.kinds & kSpaceKind) != 0 ? whitespace(text, begin, Newlines::kOwnPiece) : 0;
}

template <typename Barrier>
Piece scan_deepseek_part(std::string_view bytes, size_t begin) {
  TextCursor<Barrier> text(bytes);
  size_t pos = match_deepseek(text, begin);
  if (pos == 0) {
    // Text that matches nothing is a piece of its own, up to where the next match starts.
    pos = begin;
    do {
      pos += text.at(pos).length;
    } while (text.at(pos).length != 0 && match_deepseek(text, pos) == 0);
  }
  return {pos, text.touched_end()};
}

// 0-9 and the bytes that stand for U+00B2, U+00B3, U+00B9 and U+00BC to U+00BE in the byte alphabet.
bool is_alphabet_digit(char byte) {
  const auto b = static_cast<unsigned char>(byte);
  return (b >= '0' && b <= '9') || b == 0xB2 || b == 0xB3 || b == 0xB9 || (b >= 0xBC && b <= 0xBE);
}

}  // namespace

Piece scan_gpt2(std::string_view text, size_t begin) { return scan_gpt2<NoBarrier>(text, begin); }
Piece scan_digits_gpt2(std::string_view text, size_t begin) { return scan_gpt2<NumberBarrier>(text, begin); }
Piece scan_llama3(std::string_view text, size_t begin) { return scan_llama3<3, false>(text, begin); }
Piece scan_qwen2(std::string_view text, size_t begin) { return scan_llama3<1, false>(text, begin); }
Piece scan_qwen35(std::string_view text, size_t begin) { return scan_llama3<1, true>(text, begin); }
Piece scan_o200k(std::string_view text, size_t begin) { return scan_o200k<3, true>(text, begin); }
Piece scan_tekken(std::string_view text, size_t begin) { return scan_o200k<1, false>(text, begin); }

// \p{N}{1,3}, then [U+4E00-U+9FA5 U+3040-U+30FF]+ in what is left, then the main pattern in every piece.
Piece scan_deepseek_v3(std::string_view bytes, size_t begin) {
  TextCursor<NoBarrier> text(bytes);
  const TextChar c = text.at(begin);
  if ((c.kinds & kNumberKind) != 0) {
    const size_t end = numbers(text, begin, 3);
    return {end, text.touched_end()};
  }
  return is_deepseek_cjk(c.code_point) ? scan_deepseek_part<InsideCjk>(bytes, begin)
                                       : scan_deepseek_part<OutsideCjk>(bytes, begin);
}

Piece scan_alphabet_digits(std::string_view text, size_t begin) {
  const bool digits = is_alphabet_digit(text[begin]);
  size_t end = begin + 1;
  while (end < text.size() && is_alphabet_digit(text[end]) == digits) ++end;
  return {end, end == text.size()};
}

}  // namespace ibid
