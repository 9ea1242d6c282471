// Writes the fields of one block in order, for the encoders (weights/block_quantize.cc, weights/k_quantize.cc).
#pragma once

#include <cstddef>
#include <cstring>

#include "base/dtype.h"

namespace ibid {

class BlockWriter {
 public:
  explicit BlockWriter(std::byte* at) : at_(at) {}

  void u8(int value) { *at_++ = static_cast<std::byte>(value); }
  void f16(float value) { raw(float_to_fp16(value)); }
  template <typename T>
  void raw(T value) {
    std::memcpy(at_, &value, sizeof(value));
    at_ += sizeof(value);
  }

 private:
  std::byte* at_;
};

}  // namespace ibid
