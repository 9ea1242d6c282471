// Pages of one layer filled with random keys and values, as attention reads them.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "tests/kernels/float_bits.h"

namespace ibid {

// Zeroed bytes, 64-byte aligned.
class AlignedBytes {
 public:
  explicit AlignedBytes(size_t n) : data_(static_cast<std::byte*>(::operator new (n, std::align_val_t{64}))) {
    std::memset(data_.get(), 0, n);
  }
  std::byte* get() const { return data_.get(); }
  float* floats() const { return reinterpret_cast<float*>(data_.get()); }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

// Sets every byte to 0xff, which is NaN as a float, a half and a scale.
inline void fill_with_nan(std::byte* p, size_t n) { std::memset(p, 0xff, n); }

// Positions [0, n_positions) of n_kv_heads heads, which kv_store of `kernels` wrote; all later positions are NaN. Keeps
// the floats that were stored.
class StoredPages {
 public:
  StoredPages(const Kernels& kernels, KvRowFormat format, size_t n_kv_heads, size_t head_dim, size_t n_positions,
              uint64_t seed, float range = 2.0f)
      : block(KvHeadBlock::make(format, head_dim)), n_heads_(n_kv_heads), n_positions_(n_positions) {
    FloatSequence sequence(seed);
    k_ = sequence.vector(n_positions * n_kv_heads * head_dim, -range, range);
    v_ = sequence.vector(n_positions * n_kv_heads * head_dim, -range, range);
    const size_t n_pages = (n_positions + kPagePositions - 1) / kPagePositions;
    for (size_t i = 0; i < n_pages; ++i) {
      memory_.emplace_back(n_kv_heads * block.bytes);
      fill_with_nan(memory_.back().get(), n_kv_heads * block.bytes);
      pages.push_back(memory_.back().get());
    }
    for (size_t p = 0; p < n_positions; ++p) store(kernels, p);
  }

  void store(const Kernels& kernels, size_t p) {
    for (size_t h = 0; h < n_heads_; ++h) {
      kernels.kv_store(block, head(p / kPagePositions, h), p % kPagePositions, k(p, h), v(p, h));
    }
  }
  std::byte* head(size_t page, size_t h) const { return memory_[page].get() + h * block.bytes; }
  const float* k(size_t p, size_t h) const { return &k_[(p * n_heads_ + h) * block.head_dim]; }
  const float* v(size_t p, size_t h) const { return &v_[(p * n_heads_ + h) * block.head_dim]; }
  size_t n_positions() const { return n_positions_; }

  KvHeadBlock block;
  std::vector<const std::byte*> pages;

 private:
  size_t n_heads_;
  size_t n_positions_;
  std::vector<float> k_, v_;
  std::vector<AlignedBytes> memory_;
};

// The formats of all KV types, and those of layers that store keys or values in more bits.
inline constexpr KvRowFormat kKvFormats[] = {KvDType::kF32,
                                             KvDType::kF16,
                                             KvDType::kInt8,
                                             KvDType::kK8V4,
                                             KvDType::kInt4,
                                             {KvNumberFormat::kF16, KvNumberFormat::kInt8},
                                             {KvNumberFormat::kF16, KvNumberFormat::kInt4},
                                             {KvNumberFormat::kInt8, KvNumberFormat::kF16},
                                             {KvNumberFormat::kInt4, KvNumberFormat::kF16},
                                             {KvNumberFormat::kInt4, KvNumberFormat::kInt8}};

// "k_f16_v_int8"
inline std::string kv_format_name(KvRowFormat format) {
  constexpr const char* kNames[] = {"f32", "f16", "int8", "int4"};
  return std::string("k_") + kNames[static_cast<size_t>(format.keys)] + "_v_" +
         kNames[static_cast<size_t>(format.values)];
}

}  // namespace ibid
