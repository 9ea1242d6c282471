// The header of a GGUF file as a checked index: which keys and tensors there are, and where their bytes lie.
//
// A pure function of bytes: no file, no clock, no randomness, so a fuzzer drives it directly. Every number
// from the file is compared with the bytes that are left before anything is allocated or read from it. Names are
// copied, values are views: the index's size is bounded by a small multiple of the header's.
//
// The bytes may change while they are read or later (base/mapped_file.h): nothing here is read twice and hoped equal.
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
  std::string key;
  GgufType type;
  GgufType element_type;  // of an array; otherwise as `type`
  uint64_t count;         // elements of an array; otherwise 1
  std::span<const std::byte> payload;
};

struct GgufTensorInfo {
  std::string name;
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
// without overlaps and without holes other than padding; bytes after the last one are a warning. A part of a split
// model is a file like any other here (GgufSplit of weights/gguf_reader.h).
// Errors: kTruncated, kBadMagic, kUnsupportedVersion, kLimitExceeded, kBadString, kDuplicate, kBadType,
// kUnsupported (a tensor type that exists and is not read), kBadShape,
// kOverflow, kBadAlignment, kBadOffset.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view what,
                                     bool with_tensors);

// Calls visit(string_view) for each element of an array of strings that parse_gguf_header accepted; fewer when
// the lengths are no longer what they were.
template <typename Visitor>
void visit_gguf_strings(const GgufEntry& entry, Visitor visit) {
  std::span<const std::byte> rest = entry.payload;
  for (uint64_t i = 0; i < entry.count && rest.size() >= sizeof(uint64_t); ++i) {
    uint64_t length;
    std::memcpy(&length, rest.data(), sizeof(length));
    rest = rest.subspan(sizeof(length));
    if (length > rest.size()) return;
    visit(std::string_view(reinterpret_cast<const char*>(rest.data()), length));
    rest = rest.subspan(length);
  }
}

}  // namespace ibid
