#include "tokenizer/splitting/pretokenizer.h"

#include <algorithm>

#include "tokenizer/splitting/text_cursor.h"

namespace ibid {
namespace {

enum class Case { kExact, kIgnored };

// Matches 's|'t|'re|'ve|'m|'ll|'d at an apostrophe. Returns the end of the match, or 0. If case is ignored, U+017F
// matches s.
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

// Matches \s+(?!\S)|\s+ with kPlain, \s*[\r\n]+|\s+(?!\S)|\s+ with kOwnPiece. REQUIRES: a space at `begin`.
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
  // If another character follows the spaces, the lookahead gives back the last space, unless it is the only one.
  const bool something_follows = c.length != 0;
  return something_follows && last > begin ? last : pos;
}

// Scans by 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
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

// Returns the end of \p{N}{1,most}. REQUIRES: a number at `begin`.
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
// With marks_in_words, \p{M} counts as \p{L} in the second and fourth part.
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

// Matches [upper]*[lower]+ at `begin`. Returns the end of the match, or 0. Both sets contain Lm, Lo and M, so if no
// lower-case letter follows the run, the match backtracks to the last character of Lm, Lo or M.
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

// Matches [^\r\n\p{L}\p{N}]?[upper]*[lower]+ | [^\r\n\p{L}\p{N}]?[upper]+[lower]*. Returns the end of the match, or 0.
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
    // No lower-case letters follow the run directly, because one of the alternatives above would have matched them.
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

constexpr bool is_deepseek_cjk(uint32_t c) { return (c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF); }

// Barrier at numbers and CJK characters, which earlier steps isolate: the main pattern is applied separately to runs of
// CJK characters and to the text between numbers and CJK.
struct OutsideCjk {
  static constexpr CharKinds kKinds = kNumberKind;
  static constexpr bool stops_at(uint32_t code_point) { return is_deepseek_cjk(code_point); }
};
struct InsideCjk {
  static constexpr CharKinds kKinds = 0;
  static constexpr bool stops_at(uint32_t code_point) { return !is_deepseek_cjk(code_point); }
};

bool is_ascii_letter(const TextChar& c) { return c.code_point < 0x80 && (c.kinds & kLetterKind) != 0; }
bool is_ascii_punctuation(const TextChar& c) { return c.code_point < 0x80 && (c.kinds & kPunctSymbolKind) != 0; }

// [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//   | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
// Returns the end of the match, or 0: nothing matches some characters, for example control characters.
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
    // Text that nothing matches is one piece, up to the next match.
    pos = begin;
    do {
      pos += text.at(pos).length;
    } while (text.at(pos).length != 0 && match_deepseek(text, pos) == 0);
  }
  return {pos, text.touched_end()};
}

// True for 0-9, and for the bytes that represent U+00B2, U+00B3, U+00B9 and U+00BC to U+00BE in the byte alphabet.
bool is_alphabet_digit(char byte) {
  const auto b = static_cast<unsigned char>(byte);
  return (b >= '0' && b <= '9') || b == 0xB2 || b == 0xB3 || b == 0xB9 || (b >= 0xBC && b <= 0xBE);
}

Piece scan_gpt2(std::string_view text, size_t begin) { return scan_gpt2<NoBarrier>(text, begin); }
// Every \p{N} is a piece; the text between them is split as in gpt2.
Piece scan_digits_gpt2(std::string_view text, size_t begin) { return scan_gpt2<NumberBarrier>(text, begin); }
Piece scan_llama3(std::string_view text, size_t begin) { return scan_llama3<3, false>(text, begin); }
Piece scan_qwen2(std::string_view text, size_t begin) { return scan_llama3<1, false>(text, begin); }
Piece scan_qwen35(std::string_view text, size_t begin) { return scan_llama3<1, true>(text, begin); }
Piece scan_o200k(std::string_view text, size_t begin) { return scan_o200k<3, true>(text, begin); }
Piece scan_tekken(std::string_view text, size_t begin) { return scan_o200k<1, false>(text, begin); }

// Splits by \p{N}{1,3}, then the rest by [U+4E00-U+9FA5 U+3040-U+30FF]+, then every piece by the main pattern.
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

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SPACES "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER_ALL "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER_ALL "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define NO_HAN(set) "[" set "&&[^\\p{Han}]]"
#define BLOOM " ?[^(\\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
#define UPPER "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define PREFIX "[^\\r\\n\\p{L}\\p{N}]?"

constexpr PretokenizerFamily kFamilies[] = {
    {"gpt2", scan_gpt2, "ByteLevel",
     "gpt-2 phi-2 jais trillion granite-docling exaone4 gigachat mellum a.x-4.0 jina-es jina-de jina-v2-es jina-v2-de "
     "jina-v1-en jina-v2-code roberta-bpe",
     false, false, false},
    {"gpt2 after NFC", scan_gpt2, "", "mpt olmo modern-bert", true, false, false},
    {"smollm", scan_digits_gpt2, "Digits:individual\nByteLevel",
     "smollm starcoder refact command-r codeshell exaone minerva-7b mellum2", false, false, false},
    {"llama3", scan_llama3, CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral lfm2 midm-2.0 jina-v5-nano", false, true, true},
    {"dbrx", scan_llama3, "", "dbrx smaug-bpe chatglm-bpe glm4", false, false, false},
    {"qwen2", scan_qwen2, CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     "qwen2 deepseek-r1-qwen megrez kormo f2llmv2", true, false, false},
    {"qwen35", scan_qwen35,
     CONTRACTIONS "|" PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|" SPACES, "qwen35", true,
     false, false},
    {"o200k", scan_o200k,
     PREFIX UPPER "*" LOWER "+" CONTRACTIONS "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS
                  "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     "gpt-4o llama4 kanana2 talkie minimax-m2", false, true, false},
    {"tekken", scan_tekken,
     PREFIX UPPER "*" LOWER "+|" PREFIX UPPER "+" LOWER "*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES, "tekken",
     false, true, true},
    {"deepseek-v3", scan_deepseek_v3,
     "\\p{N}{1,3}\n[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n"
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
     "deepseek-v3 hunyuan-dense joyai-llm", false, false, false},
    {"hunyuan", scan_qwen2, "", "hunyuan solar-open grok-2 stablelm2", false, false, false},
    {"granite-embed-multi", scan_o200k, "", "granite-embed-multi-97m", false, true, false},
    {"tiny-aya", nullptr,
     "\\d{1,3}(?=(?:\\d{3})*\\b)\n" PREFIX UPPER "*" LOWER "+" CONTRACTIONS "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS
     "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     "tiny_aya cohere2moe", false, false, false},
    {"superbpe", nullptr, "\\p{N}+\n(?=(\\d{3})+(?!\\d))", "superbpe", false, false, false},
    {"afmoe", nullptr,
     "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))\n"
     "[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0e7f"
     "\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+\n"
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|" SPACES,
     "afmoe", false, false, false},
    {"falcon", nullptr, "Punctuation:contiguous\nByteLevel\nDigits:contiguous\n[0-9][0-9][0-9]", "falcon", false, false,
     false},
    {"default", nullptr,
     "[\\p{P}\\$\\+<=>\\^~\\|]+\n"
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+\n"
     "\\p{N}+\n[0-9][0-9][0-9]",
     "default", false, false, false},
    {"deepseek-coder", nullptr,
     "[\\r\\n]\n\\s?\\p{L}+\n\\s?\\p{P}+\n"
     "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\nDigits:individual",
     "deepseek-coder", false, false, false},
    {"deepseek-llm", nullptr,
     "[\\r\\n]\n"
     "\\s?[A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
     "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5"
     "\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba"
     "\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45"
     "\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-"
     "\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107"
     "\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f"
     "\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
     "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06\ufb13-\ufb17"
     "\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3\U000104d8-\U000104fb"
     "\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df\U0001e900-\U0001e943]+"
     "\n\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+\n\\s+$\n"
     "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+\nDigits:individual",
     "deepseek-llm", false, false, false},
    {"jais-2", nullptr,
     CONTRACTIONS "|" PREFIX
                  "\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s{512}(?!\\S)|\\s{256}(?!\\S)|"
                  "\\s{128}(?!\\S)|\\s{64}(?!\\S)|\\s{32}(?!\\S)|\\s{16}(?!\\S)|\\s{8}(?!\\S)|\\s{4}(?!\\S)|"
                  "\\s{1,2}(?!\\S)|\\s{1}",
     "jais-2", false, false, false},
    {"youtu", nullptr,
     "[\uac00-\ud7a3\u3131-\u318e]+|"
     "[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f\ufe30-\ufe4f]+|"
     "[\u3105-\u312f]+|[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+\n" PREFIX UPPER "*" LOWER "+" CONTRACTIONS
     "?|" PREFIX UPPER "+" LOWER "*" CONTRACTIONS "?|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|" SPACES,
     "youtu", false, true, false},
    {"bloom", nullptr, BLOOM, "bloom poro-chat gpt3-finnish", false, false, false},
    {"viking", nullptr, BLOOM "\n\\p{N}", "viking", false, false, false},
    {"chameleon", nullptr,
     "<sentinel:[0-9]+>\nIMGIMG[A-I]{1,4}Z\n[\\t\\n]|    |  \n\\p{N}\n[\\p{P}!-/:-@\\[-`{-~]\nByteLevel", "chameleon",
     false, false, true},
    {"kimi-k2", nullptr,
     "[\\p{Han}]+|" PREFIX NO_HAN(UPPER_ALL) "*" NO_HAN(LOWER_ALL) "+" CONTRACTIONS "?|" PREFIX NO_HAN(
         UPPER_ALL) "+" NO_HAN(LOWER_ALL) "*" CONTRACTIONS "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES,
     "kimi-k2", false, false, false},
    {"bailingmoe", nullptr,
     "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|"
     "\\s+(?!\\S)|\\s+",
     "bailingmoe bailingmoe2 llada-moe", false, false, false},
    {"seed-coder", nullptr, CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}{1}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|" SPACES,
     "seed-coder", false, false, false},
    {"minicpm5", nullptr,
     "\\p{N}{1,3}\n" CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}+| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, "minicpm5",
     false, true, false},
    {"laguna", nullptr,
     "[^\\n]+|[\\n]+\n" CONTRACTIONS "|" PREFIX "\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|" SPACES, "laguna",
     false, false, false},
    {"exaone-moe", nullptr,
     CONTRACTIONS "|" PREFIX "(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|"
                  "\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
     "exaone-moe", false, false, false},
};

#undef CONTRACTIONS
#undef SPACES
#undef UPPER
#undef LOWER
#undef PREFIX
#undef UPPER_ALL
#undef LOWER_ALL
#undef NO_HAN
#undef BLOOM

bool has_word(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const size_t end = list.find(' ');
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
  return false;
}

}  // namespace

Piece scan_alphabet_digits(std::string_view text, size_t begin) {
  const bool digits = is_alphabet_digit(text[begin]);
  size_t end = begin + 1;
  while (end < text.size() && is_alphabet_digit(text[end]) == digits) ++end;
  return {end, end == text.size()};
}

const PretokenizerFamily* find_pretokenizer_by_signature(std::string_view signature) {
  for (const PretokenizerFamily& family : kFamilies) {
    if (!family.signature.empty() && family.signature == signature) return &family;
  }
  return nullptr;
}

const PretokenizerFamily* find_pretokenizer_by_gguf_name(std::string_view name) {
  for (const PretokenizerFamily& family : kFamilies) {
    if (has_word(family.gguf_names, name)) return &family;
  }
  return nullptr;
}

bool is_step_name(std::string_view pattern) {
  for (const std::string_view name : {"Digits:individual", "Digits:contiguous", "Punctuation:isolated",
                                      "Punctuation:contiguous", "Whitespace", "ByteLevel"}) {
    if (pattern == name) return true;
  }
  return false;
}

std::vector<SplitStep> split_steps(std::string_view signature) {
  std::vector<SplitStep> out;
  while (!signature.empty()) {
    const size_t end = std::min(signature.find('\n'), signature.size());
    out.push_back({std::string(signature.substr(0, end))});
    signature.remove_prefix(std::min(end + 1, signature.size()));
  }
  return out;
}

const PretokenizerFamily* find_pretokenizer_by_steps(const std::vector<SplitStep>& steps) {
  std::string signature;
  for (const SplitStep& step : steps) {
    // A single step that keeps only its matches is allowed too: it keeps everything if the pattern leaves no text
    // between matches.
    const bool matches_alone = step.behavior == SplitBehavior::kRemoved && step.invert && steps.size() == 1;
    if (!matches_alone && (step.behavior != SplitBehavior::kIsolated || step.invert)) return nullptr;
    if (!signature.empty()) signature += '\n';
    signature += step.pattern;
    if (!matches_alone) continue;
    const PretokenizerFamily* family = find_pretokenizer_by_signature(signature);
    return family == nullptr || family->scan == nullptr ? nullptr : family;
  }
  return find_pretokenizer_by_signature(signature);
}

const PretokenizerFamily* find_gguf_pretokenizer(const std::vector<SplitStep>& steps, bool nfc, bool ignore_merges) {
  const PretokenizerFamily* of_steps = find_pretokenizer_by_steps(steps);
  if (of_steps == nullptr) return nullptr;
  for (const PretokenizerFamily& family : kFamilies) {
    const bool same_cuts = family.scan == nullptr ? &family == of_steps : family.scan == of_steps->scan;
    if (same_cuts && family.nfc == nfc && family.ignore_merges == ignore_merges && !family.gguf_names.empty()) {
      return &family;
    }
  }
  return nullptr;
}

std::string_view gguf_name_of(const PretokenizerFamily& family) {
  return family.gguf_names.substr(0, family.gguf_names.find(' '));
}

}  // namespace ibid
