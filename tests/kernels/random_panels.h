// Random weights and inputs for tests of kernels, in the form that a decoder of quantised blocks gives the packer.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/layout/pack.h"
#include "kernels/ops/dispatch.h"

namespace ibid {

inline constexpr PanelType kQuantizedPanels[] = {PanelType::kP4,   PanelType::kP4m, PanelType::kP4k, PanelType::kP5,
                                                 PanelType::kP5m,  PanelType::kP5k, PanelType::kP8,  PanelType::kP6k,
                                                 PanelType::kP2k,  PanelType::kP4e, PanelType::kP4f, PanelType::kP4n,
                                                 PanelType::kP4nk, PanelType::kP3s, PanelType::kP3x, PanelType::kP2x,
                                                 PanelType::kP2s,  PanelType::kP1s, PanelType::kP1m};
inline constexpr PanelType kFloatPanels[] = {PanelType::kPH, PanelType::kPB, PanelType::kPF};
inline constexpr PanelType kF8Panels[] = {PanelType::kPE4, PanelType::kPE5};

// A 64-byte aligned array, filled with a pattern by which tests detect elements that were not written.
template <typename T>
class AlignedArray {
 public:
  explicit AlignedArray(size_t n)
      : bytes_((n * sizeof(T) + 63) / 64 * 64), data_(static_cast<T*>(std::aligned_alloc(64, bytes_ + 64))), n_(n) {
    std::memset(static_cast<void*>(data_.get()), 0x5a, bytes_ + 64);
  }
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  T& operator[](size_t i) { return data_.get()[i]; }
  const T& operator[](size_t i) const { return data_.get()[i]; }
  size_t size() const { return n_; }

 private:
  struct Free {
    void operator()(T* p) const { std::free(p); }
  };
  size_t bytes_;
  std::unique_ptr<T, Free> data_;
  size_t n_;
};

// A packed matrix, with its values as floats.
struct TestWeights {
  PackedMatrix packed;
  std::vector<float> values;  // [n_rows, n_cols]
  AlignedArray<std::byte> bytes;
};

enum class Codes { kRandom, kLowest, kHighest };

inline float random_f16(std::mt19937& rng, float magnitude) {
  std::uniform_real_distribution<float> uniform(-magnitude, magnitude);
  return fp16_to_float(float_to_fp16(uniform(rng)));
}

// Codes, scales and mins of n_rows rows, in the ranges of the panel type.
struct TestRows {
  std::vector<int8_t> codes;
  std::vector<float> scales, mins;
  std::vector<uint16_t> super_scales, super_mins;
  std::vector<int8_t> scale_codes, min_codes;
};

inline void add_random_scales(const PanelFormat& format, size_t n_cols, std::mt19937& rng, TestRows& rows) {
  std::uniform_int_distribution<int> code(format.has_mins ? 0 : -128, format.has_mins ? 63 : 127);
  for (size_t col = 0; col < n_cols; col += format.group) {
    if (!format.super_scales()) {
      rows.scales.push_back(format.scales == ScaleKind::kBfloat ? std::ldexp(1.0f, static_cast<int>(rng() % 8) - 12)
                                                                : random_f16(rng, 0.05f));
      if (format.has_mins) rows.mins.push_back(random_f16(rng, 0.2f));
      continue;
    }
    if (col % kSuperChunkCols == 0) {
      rows.super_scales.push_back(float_to_fp16(random_f16(rng, 0.002f)));
      if (format.has_mins) rows.super_mins.push_back(float_to_fp16(random_f16(rng, 0.005f)));
    }
    rows.scale_codes.push_back(static_cast<int8_t>(code(rng)));
    rows.scales.push_back(fp16_to_float(rows.super_scales.back()) * static_cast<float>(rows.scale_codes.back()) *
                          format.scale_factor());
    if (!format.has_mins) continue;
    rows.min_codes.push_back(static_cast<int8_t>(code(rng)));
    rows.mins.push_back(-(fp16_to_float(rows.super_mins.back()) * static_cast<float>(rows.min_codes.back())));
  }
}

inline TestRows random_quantized_rows(PanelType type, size_t n_rows, size_t n_cols, Codes codes, std::mt19937& rng) {
  const PanelFormat format = panel_format(type);
  const int low = format.min_code(), high = format.max_code();
  std::uniform_int_distribution<int> any(low, high);
  std::uniform_int_distribution<size_t> entry(0, kCodeTableSize - 1);
  const auto code = [&](std::mt19937& r) -> int {
    return format.table == CodeTable::kNoTable ? any(r) : code_values(format.table)[entry(r)];
  };
  TestRows rows;
  for (size_t i = 0; i < n_rows * n_cols; ++i) {
    const int value = codes == Codes::kRandom ? code(rng) : codes == Codes::kLowest ? low : high;
    rows.codes.push_back(static_cast<int8_t>(value));
  }
  for (size_t row = 0; row < n_rows; ++row) add_random_scales(format, n_cols, rng, rows);
  return rows;
}

inline void expect_values(const PanelFormat& format, const TestRows& rows, std::vector<float>& values) {
  for (size_t i = 0; i < rows.codes.size(); ++i) {
    const size_t group = i / format.group;  // rows are whole groups, so this is the index of the group
    const float product = rows.scales[group] * static_cast<float>(rows.codes[i]);
    values.push_back(format.has_mins ? product + rows.mins[group] : product);
  }
}

// Bytes without NaN and infinities, and scales of approximately 0.01.
inline TestRows random_f8_rows(PanelType type, size_t n_rows, size_t n_cols, std::mt19937& rng) {
  TestRows rows;
  for (size_t i = 0; i < n_rows * n_cols; ++i) {
    uint8_t byte = static_cast<uint8_t>(rng());
    if (type == PanelType::kPE4 ? (byte & 0x7f) == 0x7f : (byte & 0x7c) == 0x7c) byte &= 0x8f;
    rows.codes.push_back(static_cast<int8_t>(byte));
    if (i % kQuantBlock == 0) rows.scales.push_back(random_f16(rng, 0.01f) * 1.37f);
  }
  return rows;
}

inline void expect_f8_values(PanelType type, const TestRows& rows, std::vector<float>& values) {
  for (size_t i = 0; i < rows.codes.size(); ++i) {
    const float half = fp16_to_float(f8_half(type, static_cast<uint8_t>(rows.codes[i])));
    values.push_back(half * f8_scale_factor(type) * rows.scales[i / kQuantBlock]);
  }
}

inline TestWeights random_weights(PanelType type, size_t n_rows, size_t n_cols, unsigned seed,
                                  Codes codes = Codes::kRandom) {
  std::mt19937 rng(seed);
  TestWeights w{{type, n_rows, n_cols, nullptr}, {}, AlignedArray<std::byte>(packed_bytes(type, n_rows, n_cols))};
  w.packed.data = w.bytes.data();
  for (size_t row = 0; row < n_rows; row += kPanelRows) {
    const size_t count = std::min(kPanelRows, n_rows - row);
    PanelRows rows;
    rows.n_rows = count;
    TestRows quantized;
    std::vector<uint16_t> halves;
    const size_t first_value = w.values.size();
    if (panel_is_f8(type)) {
      quantized = random_f8_rows(type, count, n_cols, rng);
      expect_f8_values(type, quantized, w.values);
      rows.codes = quantized.codes;
      rows.scales = quantized.scales;
    } else if (panel_is_float(type)) {
      for (size_t i = 0; i < count * n_cols; ++i) {
        float value = random_f16(rng, 1.0f);
        if (type == PanelType::kPF) value *= 1.37f;
        uint16_t bits = float_to_fp16(value);
        if (type == PanelType::kPB) {
          bits = static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16);
          value = bf16_to_float(bits);
        }
        halves.push_back(bits);
        w.values.push_back(value);
      }
      rows.halves = halves;
      rows.floats = std::span<const float>(w.values).subspan(first_value);
    } else {
      quantized = random_quantized_rows(type, count, n_cols, codes, rng);
      expect_values(panel_format(type), quantized, w.values);
      rows.codes = quantized.codes;
      if (panel_format(type).super_scales()) {
        rows.super_scales = quantized.super_scales;
        rows.super_mins = quantized.super_mins;
        rows.scale_codes = quantized.scale_codes;
        rows.min_codes = quantized.min_codes;
      } else {
        rows.scales = quantized.scales;
        rows.mins = quantized.mins;
      }
    }
    pack_panel(type, n_cols, rows, w.bytes.data() + row / kPanelRows * panel_bytes(type, n_cols));
  }
  return w;
}

// Input rows as floats, and quantised by `kernels`.
struct TestInput {
  size_t n_rows, n_cols, stride;
  AlignedArray<float> values;
  AlignedArray<std::byte> memory;
  QuantizedRows quantized;
};

inline TestInput make_input(const Kernels& kernels, size_t n_rows, size_t n_cols, const std::vector<float>& values) {
  const size_t stride = (n_cols + 15) / 16 * 16 + 16;
  TestInput in{n_rows, n_cols, stride, AlignedArray<float>(n_rows * stride), AlignedArray<std::byte>(0), {}};
  for (size_t r = 0; r < n_rows; ++r) {
    std::memcpy(&in.values[r * stride], &values[r * n_cols], n_cols * sizeof(float));
  }
  if (n_cols % kQuantBlock != 0) return in;
  in.memory = AlignedArray<std::byte>(QuantizedRows::bytes(n_rows, n_cols));
  in.quantized = QuantizedRows::from(in.memory.data(), n_rows, n_cols);
  const Range all{0, in.quantized.blocks()};
  for (size_t r = 0; r < n_rows; ++r) kernels.quantize_blocks(&in.values[r * stride], r, all, in.quantized);
  return in;
}

inline std::vector<float> random_floats(size_t n, unsigned seed, float magnitude = 2.0f) {
  std::mt19937 rng(seed);
  std::normal_distribution<float> normal(0.0f, magnitude);
  std::vector<float> values(n);
  for (float& value : values) value = normal(rng);
  return values;
}

// Returns the instruction sets of this machine, to be compared with the scalar kernels. If IBID_FORCE_ISA forces one,
// returns only that one: a run without it compares all of them.
inline std::vector<Isa> supported_isas() {
  const char* forced = std::getenv("IBID_FORCE_ISA");
  if (forced != nullptr && *forced != '\0') return {*active_isa()};
  std::vector<Isa> isas;
  for (Isa isa : kAllIsas) {
    if (isa_supported(isa)) isas.push_back(isa);
  }
  return isas;
}

// Returns y[n_rows, 16 * n_panels] of one call of the table's linear function.
inline AlignedArray<float> run_linear(const Kernels& kernels, const TestWeights& w, const TestInput& in, Range panels,
                                      Range rows) {
  const size_t stride = w.packed.n_panels() * kPanelRows;
  AlignedArray<float> y(rows.size() * stride);
  if (panel_is_float(w.packed.type)) {
    kernels.linear_float(w.packed, in.values.data() + rows.begin * in.stride, in.stride, rows.size(), panels, y.data(),
                         stride);
    return y;
  }
  // Rows are stored in groups, so a subrange must be quantised anew.
  AlignedArray<std::byte> memory(QuantizedRows::bytes(rows.size(), in.n_cols));
  QuantizedRows x = QuantizedRows::from(memory.data(), rows.size(), in.n_cols);
  for (size_t r = rows.begin; r < rows.end; ++r) {
    kernels.quantize_blocks(&in.values[r * in.stride], r - rows.begin, {0, x.blocks()}, x);
  }
  const size_t scratch_bytes = linear_scratch_bytes(w.packed.n_cols);
  AlignedArray<std::byte> scratch(scratch_bytes + kPanelRows * sizeof(float));
  kernels.linear_int8(w.packed, x, panels, y.data(), stride, scratch.data());
  for (size_t i = scratch_bytes; i < scratch.size(); ++i) {
    CHECK(scratch[i] == std::byte{0x5a}) << kernels.name << " writes after the end of its scratch";
  }
  return y;
}

}  // namespace ibid
