// The alphabet of byte-level BPE (GPT-2, encoder.py): every byte as one printable character, so that tokens
// can be written in JSON. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace ibid {

// Appends the bytes that `token` spells; false, with some of them appended, when it holds a character outside the
// alphabet.
bool append_alphabet_bytes(std::string_view token, std::string& out);
// The same as a text of its own, or nothing.
std::optional<std::string> alphabet_to_bytes(std::string_view token);

}  // namespace ibid
