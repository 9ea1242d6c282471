#include "base/check.h"
#include "kernels/kernels.h"

namespace ibid {

KvHeadBlock KvHeadBlock::make(KvDType dtype, size_t head_dim) {
  CHECK(head_dim > 0);
  KvHeadBlock block;
  block.dtype = dtype;
  block.head_dim = head_dim;
  block.k_dim = (head_dim + 3) / 4 * 4;
  block.v_dim = (head_dim + 15) / 16 * 16;
  const bool scaled = dtype == KvDType::kInt8;
  const size_t value_bytes = dtype == KvDType::kF32 ? 4 : dtype == KvDType::kF16 ? 2 : 1;
  const size_t scales = scaled ? kPagePositions * sizeof(float) : 0;
  block.k = 0;
  block.k_scale = block.k + kPagePositions * (scaled ? block.k_dim : head_dim) * value_bytes;
  block.v = block.k_scale + scales;
  block.v_scale = block.v + kPagePositions * block.v_dim * value_bytes;
  block.bytes = block.v_scale + scales;
  return block;
}

}  // namespace ibid
