// model.safetensors.index.json: says which file holds which tensor of a model that was cut into shards. A pure
// function of text. It does not check the names of the files; MappedFile::open_in refuses unsafe ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct ShardIndex {
  struct Shard {
    std::string file;
    std::vector<std::string> tensors;  // sorted
  };
  std::vector<Shard> shards;            // sorted by file, as their numbers are
  std::optional<uint64_t> total_bytes;  // of all tensors, where the index says so
};

// {"metadata": {"total_size": n}, "weight_map": {"tensor": "file", ...}}
// Errors: those of parse_json; kBadHeader where a member is not what it should be; kLimitExceeded for more
// than 4096 files.
Result<ShardIndex> parse_shard_index(std::string_view text, std::string_view what);

}  // namespace ibid
