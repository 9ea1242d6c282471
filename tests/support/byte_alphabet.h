// Converts text to the alphabet of byte-level BPE, for files that tests write. The product only converts back
// (tokenizer/byte_alphabet.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/utf8.h"

namespace ibid {

inline std::string bytes_to_alphabet(std::string_view bytes) {
  const auto is_printable = [](unsigned b) { return (b > 0x20 && b < 0x7F) || (b > 0xA0 && b != 0xAD); };
  std::string out;
  for (const char c : bytes) {
    const unsigned byte = static_cast<unsigned char>(c);
    uint32_t character = byte;
    if (!is_printable(byte)) {  // bytes that are not printable are mapped to consecutive characters from U+0100 on
      character = 0x100;
      for (unsigned lower = 0; lower < byte; ++lower) character += is_printable(lower) ? 0 : 1;
    }
    utf8_append(out, character);
  }
  return out;
}

}  // namespace ibid
