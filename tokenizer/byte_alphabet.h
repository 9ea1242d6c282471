// The alphabet of byte-level BPE (GPT-2, encoder.py): every byte as one printable character, so that tokens
// can be written in JSON. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ibid {

// The bytes that `token` spells; nothing when it holds a character outside the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view token);

// The other way round.
std::string bytes_to_alphabet(std::string_view bytes);

}  // namespace ibid
