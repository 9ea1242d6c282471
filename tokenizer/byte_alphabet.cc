#include "tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>
#include <utility>

#include "base/utf8.h"

namespace ibid {
namespace {

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The bytes that are no printable Latin-1 characters follow one another from U+0100 on.
constexpr std::array<uint16_t, 256> kCharacter = [] {
  std::array<uint16_t, 256> out{};
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) out[b] = stands_for_itself(b) ? static_cast<uint16_t>(b) : next++;
  return out;
}();

constexpr size_t kCodePoints = 0x100 + 68;

constexpr std::array<int16_t, kCodePoints> kByteOf = [] {
  std::array<int16_t, kCodePoints> out{};
  for (int16_t& b : out) b = -1;
  for (unsigned b = 0; b < 256; ++b) out[kCharacter[b]] = static_cast<int16_t>(b);
  return out;
}();

}  // namespace

bool append_alphabet_bytes(std::string_view token, std::string& out) {
  for (size_t pos = 0; pos < token.size();) {
    const DecodedChar c = utf8_decode(token, pos);
    if (!c.valid || c.code_point >= kCodePoints || kByteOf[c.code_point] < 0) return false;
    out.push_back(static_cast<char>(kByteOf[c.code_point]));
    pos += c.length;
  }
  return true;
}

std::optional<std::string> alphabet_to_bytes(std::string_view token) {
  std::string bytes;
  return append_alphabet_bytes(token, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

}  // namespace ibid
