#include "base/utf8.h"

#include "base/check.h"

namespace ibid {

namespace {

// A lead byte's sequence length and the allowed range of the second byte (Unicode 15, table 3-7). The range
// of the second byte alone excludes overlong forms, surrogates and values above U+10FFFF.
struct LeadByte {
  size_t length;  // bytes of the sequence; 0: the byte is not a lead byte
  unsigned char second_min;
  unsigned char second_max;
};

LeadByte classify(unsigned char lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

// Returns how many bytes at text[offset] belong to a well-formed sequence that starts with `lead`, the lead byte
// included.
size_t matching_bytes(std::string_view text, size_t offset, const LeadByte& lead) {
  size_t n = 1;
  while (n < lead.length && offset + n < text.size()) {
    const auto byte = static_cast<unsigned char>(text[offset + n]);
    const unsigned char min = n == 1 ? lead.second_min : 0x80;
    const unsigned char max = n == 1 ? lead.second_max : 0xBF;
    if (byte < min || byte > max) break;
    ++n;
  }
  return n;
}

}  // namespace

DecodedChar utf8_decode(std::string_view text, size_t offset) {
  DCHECK(offset < text.size());
  const auto first = static_cast<unsigned char>(text[offset]);
  if (first < 0x80) return {first, 1, true};
  const LeadByte lead = classify(first);
  if (lead.length == 0) return {kReplacementCharacter, 1, false};
  const size_t n = matching_bytes(text, offset, lead);
  if (n < lead.length) return {kReplacementCharacter, n, false};
  uint32_t code_point = first & (0x7Fu >> lead.length);
  for (size_t i = 1; i < n; ++i) {
    code_point = code_point << 6 | (static_cast<unsigned char>(text[offset + i]) & 0x3Fu);
  }
  return {code_point, n, true};
}

size_t utf8_previous(std::string_view text, size_t end) {
  size_t begin = end - 1;
  for (int i = 0; i < 3 && begin > 0 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80; ++i) --begin;
  const DecodedChar c = utf8_decode(text.substr(0, end), begin);
  return c.valid && begin + c.length == end ? begin : end - 1;
}

void utf8_append(std::string& out, uint32_t code_point) {
  DCHECK(code_point <= 0x10FFFF && (code_point < 0xD800 || code_point > 0xDFFF)) << code_point;
  const auto put = [&out](uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 0x3F));
    put(0x80 | (code_point >> 6 & 0x3F));
    put(0x80 | (code_point & 0x3F));
  }
}

bool utf8_is_valid(std::string_view text) {
  for (size_t offset = 0; offset < text.size();) {
    const DecodedChar c = utf8_decode(text, offset);
    if (!c.valid) return false;
    offset += c.length;
  }
  return true;
}

size_t utf8_length(std::string_view text) {
  size_t n = 0;
  for (size_t i = 0; i < text.size(); ++n) i += utf8_decode(text, i).length;
  return n;
}

size_t utf8_incomplete_tail(std::string_view text) {
  for (size_t n = 1; n <= 3 && n <= text.size(); ++n) {
    const size_t offset = text.size() - n;
    const auto byte = static_cast<unsigned char>(text[offset]);
    if ((byte & 0xC0) == 0x80) continue;  // a continuation byte: the lead byte of the character is earlier in the text
    const LeadByte lead = classify(byte);
    return n < lead.length && matching_bytes(text, offset, lead) == n ? n : 0;
  }
  return 0;
}

std::string utf8_sanitize(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t offset = 0; offset < text.size();) {
    const DecodedChar c = utf8_decode(text, offset);
    if (c.valid) {
      out.append(text.substr(offset, c.length));
    } else {
      utf8_append(out, kReplacementCharacter);
    }
    offset += c.length;
  }
  return out;
}

}  // namespace ibid
