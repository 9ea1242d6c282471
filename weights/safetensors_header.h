// The validated header of a safetensors file.
// Spec: https://github.com/huggingface/safetensors, README and safetensors/src/tensor.rs. A file is
//   u64    length of the header, at most 100 000 000
//   u8[]   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//                 "__metadata__": {"key": "value"}}, padded with spaces
//   data   the tensors, back to back
// A pure function of bytes, so a fuzzer can call it directly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/tensor_view.h"

namespace ibid {

inline constexpr uint64_t kSafetensorsMaxHeaderBytes = 100'000'000;

struct SafetensorsTensor {
  std::string name;
  TensorView view;
};

struct SafetensorsHeader {
  std::vector<SafetensorsTensor> tensors;                     // tensors in the order of their data
  std::vector<std::pair<std::string, std::string>> metadata;  // entries of __metadata__
};

// Parses and validates the header of `file` (the whole file's bytes). `what` names the file in messages.
//
// Enforces all rules of the container: the header begins with '{' and only spaces follow its '}'; keys are unique;
// offsets are contiguous, from 0 to exactly the end of the file (so that no data can be hidden in it); a tensor has as
// many bytes as its dtype and shape need; __metadata__ maps strings to strings. Errors: kTruncated, kBadHeader,
// kLimitExceeded (JSON depth and size), kDuplicate, kBadString, kBadType, kUnsupported (a known but unsupported dtype),
// kBadNumber, kBadShape, kOverflow, kBadOffset.
Result<SafetensorsHeader> parse_safetensors_header(std::span<const std::byte> file, std::string_view what);

// model.safetensors.index.json, which maps tensors to the files of a sharded model. parse_shard_index() is a pure
// function of text. It does not check file names; MappedFile::open_in() rejects unsafe ones.
struct ShardIndex {
  struct Shard {
    std::string file;
    std::vector<std::string> tensors;  // sorted
  };
  std::vector<Shard> shards;            // sorted by file name, and so by number
  std::optional<uint64_t> total_bytes;  // size of all tensors, if the index has it
};

// Parses {"metadata": {"total_size": n}, "weight_map": {"tensor": "file", ...}}. Errors: those of parse_json;
// kBadHeader for a member of the wrong type; kLimitExceeded for more than 4096 files.
Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view what);

}  // namespace ibid
