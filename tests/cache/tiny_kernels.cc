// A readable store and load of rows, by the description in kernels/kernels.h alone.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/dtype.h"
#include "tests/cache/tiny_kv.h"

namespace ibid {

namespace {

size_t element_bytes(KvDType dtype) { return dtype == KvDType::kF32 ? 4 : dtype == KvDType::kF16 ? 2 : 1; }

KvHeadBlock tiny_block(KvDType dtype, size_t head_dim) {
  const size_t v_dim = (head_dim + 15) / 16 * 16;
  const size_t k_dim = dtype == KvDType::kInt8 ? (head_dim + 3) / 4 * 4 : head_dim;
  const size_t scales = dtype == KvDType::kInt8 ? kPagePositions * sizeof(float) : 0;
  KvHeadBlock block{.dtype = dtype, .head_dim = head_dim};
  block.k_scale = block.k + k_dim * kPagePositions * element_bytes(dtype);
  block.v = block.k_scale + scales;
  block.v_scale = block.v + v_dim * kPagePositions * element_bytes(dtype);
  block.bytes = (block.v_scale + scales + 63) / 64 * 64;
  return block;
}

size_t k_index(const KvHeadBlock& block, size_t position, size_t dim) {
  const size_t group = position / kKeyGroup, lane = position % kKeyGroup;
  if (block.dtype == KvDType::kInt8) {
    return ((group * ((block.head_dim + 3) / 4) + dim / 4) * kKeyGroup + lane) * 4 + dim % 4;
  }
  return (group * block.head_dim + dim) * kKeyGroup + lane;
}

size_t v_index(const KvHeadBlock& block, size_t position, size_t dim) {
  return position * ((block.head_dim + 15) / 16 * 16) + dim;
}

void put(const KvHeadBlock& block, std::byte* part, size_t index, float x, float scale) {
  if (block.dtype == KvDType::kF32) {
    std::memcpy(part + 4 * index, &x, 4);
  } else if (block.dtype == KvDType::kF16) {
    const auto half = static_cast<uint16_t>(static_cast<int>(std::lround(x * 500.0f)));
    std::memcpy(part + 2 * index, &half, 2);
  } else {
    part[index] = static_cast<std::byte>(
        static_cast<int8_t>(scale == 0 ? 0 : static_cast<int>(std::nearbyint(x / scale))));
  }
}

float get(const KvHeadBlock& block, const std::byte* part, size_t index, float scale) {
  if (block.dtype == KvDType::kF32) {
    float x = 0;
    std::memcpy(&x, part + 4 * index, 4);
    return x;
  }
  if (block.dtype == KvDType::kF16) {
    int16_t half = 0;
    std::memcpy(&half, part + 2 * index, 2);
    return static_cast<float>(half) / 500.0f;
  }
  return static_cast<float>(static_cast<int8_t>(part[index])) * scale;
}

void store(const KvHeadBlock& block, std::byte* head, size_t position, const float* k, const float* v) {
  float k_max = 0, v_max = 0;
  for (size_t d = 0; d < block.head_dim; ++d) {
    k_max = std::max(k_max, std::fabs(k[d]));
    v_max = std::max(v_max, std::fabs(v[d]));
  }
  const float k_scale = k_max / 127, v_scale = v_max / 127;
  if (block.dtype == KvDType::kInt8) {
    std::memcpy(head + block.k_scale + 4 * position, &k_scale, 4);
    std::memcpy(head + block.v_scale + 4 * position, &v_scale, 4);
  }
  for (size_t d = 0; d < block.head_dim; ++d) {
    put(block, head + block.k, k_index(block, position, d), k[d], k_scale);
    put(block, head + block.v, v_index(block, position, d), v[d], v_scale);
  }
}

void load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v) {
  float k_scale = 0, v_scale = 0;
  if (block.dtype == KvDType::kInt8) {
    std::memcpy(&k_scale, head + block.k_scale + 4 * position, 4);
    std::memcpy(&v_scale, head + block.v_scale + 4 * position, 4);
  }
  for (size_t d = 0; d < block.head_dim; ++d) {
    k[d] = get(block, head + block.k, k_index(block, position, d), k_scale);
    v[d] = get(block, head + block.v, v_index(block, position, d), v_scale);
  }
}

}  // namespace

KvLayout tiny_layout(KvDType dtype) { return {2, 2, 8, tiny_block(dtype, 8)}; }

const Kernels& tiny_kernels() {
  static const Kernels kernels = [] {
    Kernels table{};
    table.name = "tiny";
    table.kv_store = store;
    table.kv_load = load;
    return table;
  }();
  return kernels;
}

}  // namespace ibid
