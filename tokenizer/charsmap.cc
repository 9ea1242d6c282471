#include "tokenizer/charsmap.h"

#include <cstring>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

bool is_control(uint32_t c) { return in_classes(c, kJoinsNothingClass); }
bool joins_previous(uint32_t c) { return in_classes(c, kJoinsPreviousClass); }
bool joins_next(uint32_t c) { return in_classes(c, kJoinsNextClass); }

// Where the grapheme cluster at `begin` ends, exact for those of fewer than six bytes: no syllable, flag or sequence of
// emoji is shorter.
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
  if (size > 0) std::memcpy(out.units_.data(), bytes.data() + sizeof(size), size);  // of nothing there is no pointer
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

}  // namespace ibid
