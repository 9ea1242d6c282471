// GGUF models cut into several files, NAME-00001-of-00003.gguf and so on, as llama-gguf-split writes them: the first
// has all of the metadata, every one its own tensors. Pure functions of a header and a path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "weights/gguf_header.h"

namespace ibid {

inline constexpr uint64_t kMaxGgufParts = 4096;  // each is an open file and a mapping

// What a part's keys split.no, split.count and split.tensors.count say.
struct GgufSplit {
  uint64_t number = 0;                      // from 0
  uint64_t count = 1;
  std::optional<uint64_t> tensors_of_all;   // in all parts together
};

// One part of one where the keys are missing. Errors: kBadType, kBadNumber (a part that is not one of them),
// kLimitExceeded; `what` names the file.
Result<GgufSplit> read_gguf_split(const GgufHeader& header, std::string_view what);

// The file name of part `number` of the model that `path` is part `split.number` of. Errors: kMissingShard when the
// name of `path` does not end as such a part's does.
Result<std::string> gguf_part_name(std::string_view path, const GgufSplit& split, uint64_t number);

}  // namespace ibid
