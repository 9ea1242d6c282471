// The codebooks of ggml's IQ formats. They say which combinations of four or eight values an index may stand for.
#pragma once

#include <cstdint>

namespace ibid {

enum class Codebook {
  kIq2xxs,  // 256 entries of 8: 8, 25, 43
  kIq2xs,   // 512 entries of 8
  kIq2s,    // 1024 entries of 8
  kIq3xxs,  // 256 entries of 4: 4, 12, 20, 28, 36, 44, 52, 62
  kIq3s,    // 512 entries of 4: 2, 6, 10 .. 30 (twice the format's)
  kIq1,     // 2048 entries of 8: -1, 0, 1
};

// The entries' values, one entry behind the other. Expanded at first use; thread-safe.
const int8_t* codebook(Codebook book);

}  // namespace ibid
