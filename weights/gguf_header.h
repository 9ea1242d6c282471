// The header of a GGUF file as a validated index: all keys and tensors, and where their bytes are.
//
// A pure function of bytes: no file, no clock, no randomness, so a fuzzer can call it directly. Every number from the
// file is checked against the remaining bytes before it is used for an allocation or a read. Names are copied, values
// are views, so the size of the index is at most a small multiple of the header's.
//
// The bytes may change at any time (base/mapped_file.h), so the code never relies on reading the same value twice.
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

// One metadata value. `payload` has a scalar's bytes, a string's characters or all elements of an array.
struct GgufEntry {
  std::string key;
  GgufType type;
  GgufType element_type;  // element type of an array; else equal to `type`
  uint64_t count;         // number of elements of an array; else 1
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
  std::vector<uint32_t> by_key;         // indices into `entries`, in the order of the keys
  std::vector<GgufTensorInfo> tensors;  // in file order
  std::vector<std::string> warnings;

  const GgufEntry* find(std::string_view key) const;  // returns nullptr if the key is absent; O(log keys)
};

// Parses and validates the header of `file` (the whole file's bytes). `what` names the file in messages. If
// with_tensors is false, parses only the metadata, so the tensors may be missing, truncated or of unknown types.
//
// Rules beyond the specification: keys are valid UTF-8 without NUL; arrays do not nest; tensors are contiguous except
// for padding; bytes after the last tensor cause a warning. A part of a split model is parsed like any other file (see
// GgufSplit of weights/gguf_reader.h). Errors: kTruncated, kBadMagic, kUnsupportedVersion, kLimitExceeded, kBadString,
// kDuplicate, kBadType, kUnsupported (a known but unsupported tensor type), kBadShape, kOverflow, kBadAlignment,
// kBadOffset.
Result<GgufHeader> parse_gguf_header(std::span<const std::byte> file, std::string_view what, bool with_tensors);

// Calls visit(string_view) for each element of an array of strings that parse_gguf_header() accepted. Visits fewer if
// the file has changed since, so that the lengths no longer fit.
template <typename Visitor>
void visit_gguf_strings(const GgufEntry& entry, Visitor visit) {
  std::span<const std::byte> rest = entry.payload;
  for (uint64_t i = 0; i < entry.count && rest.size() >= sizeof(uint64_t); ++i) {
    uint64_t length = 0;
    std::memcpy(&length, rest.data(), sizeof(length));
    rest = rest.subspan(sizeof(length));
    if (length > rest.size()) return;
    visit(std::string_view(reinterpret_cast<const char*>(rest.data()), length));
    rest = rest.subspan(length);
  }
}

}  // namespace ibid
