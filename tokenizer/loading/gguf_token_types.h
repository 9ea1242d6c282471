// The values of GGUF's tokenizer.ggml.token_type (ggml, docs/gguf.md).
#pragma once

#include <cstdint>

namespace ibid {

enum class GgufTokenType : int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

}  // namespace ibid
