// The header of a GGUF file as a checked index: which keys and tensors there are, and where their bytes lie.
//
// A pure function of bytes: no file, no clock, no randomness, so a fuzzer drives it directly. Every number
// from the file is compared with the bytes that are left before anything is allocated or read from it, and
// the index holds views, no copies: its size is bounded by a small multiple of the header's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"
#include "weights/gguf_format.h"

namespace ibid {

// One metadata value. `payload` begins at the scalar, at a string's first byte or at an array's first element
// and ends where the value ends.
struct GgufEntry {
  std::string_view key;
  GgufType type;
  GgufType element_type;  // of an array; otherwise as `type`
  uint64_t count;         // elements of an array; otherwise 1
  std::span<const std::byte> payload;
};

struct GgufTensorInfo {
  std::string_view name;
  TensorView view;
};

struct GgufHeader {
  uint32_t version = 0;
  uint64_t alignment = kGgufDefaultAlignment;
  std::vector<GgufEntry> entries;       // in file order
  std::vector<uint32_t> by_key;         // indices into entries, sorted by key
  std::vector<GgufTensorInfo> tensors;  // in file order
  std::vector<std::string> warnings;

  const GgufEntry* find(std::string_view key) const;  // nullptr: not there; O(log keys)
};

// Reads and checks the header of `file` (the whole file's bytes). `what` names it in messages.
// with_tensors false stops after the metadata: the tensors may then be missing, cut off or of unknown types.
//
// Rules beyond the spec's: keys are valid UTF-8 without NUL; arrays do not nest; tensors follow each other
// without overlaps and without holes other than padding; bytes after the last one are a warning.
// Errors: kTruncated, kBadMagic, kUnsupportedVersion, kLimitExceeded, kBadString, kDuplicate, kBadType,
// kUnsupported (a tensor type that exists and is not read, a file that is one part of several), kBadShape,
// kOverflow, kBadAlignment, kBadOffset.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view what,
                                     bool with_tensors);

// Calls visit(string_view) for each element of an array of strings that parse_gguf_header accepted.
template <typename Visitor>
void visit_gguf_strings(const GgufEntry& entry, Visitor visit) {
  const char* at = reinterpret_cast<const char*>(entry.payload.data());
  for (uint64_t i = 0; i < entry.count; ++i) {
    uint64_t length;
    std::memcpy(&length, at, sizeof(length));
    visit(std::string_view(at + sizeof(length), length));
    at += sizeof(length) + length;
  }
}

}  // namespace ibid
