// Reference kernels of linear layers: the formulas of kernels.h, one output at a time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/dtype.h"
#include "kernels/reference/ref.h"

namespace ibid {

namespace {

// One block of 32 columns in one row of a quantised panel.
struct Block {
  const std::byte* chunk;
  const PanelFormat* format;
  size_t index;  // index of the block in the chunk
  size_t lane;   // row within the panel

  // Converts the index of a group in the block (0, or 0 and 1 if a scale covers 16 columns) to its index in the chunk.
  size_t group_of_chunk(size_t group) const { return index * (kQuantBlock / format->group) + group; }
  float scale(size_t group) const { return panel_scale(*format, chunk, group_of_chunk(group), lane); }
  float min(size_t group) const { return panel_min(*format, chunk, group_of_chunk(group), lane); }

  int code(size_t k) const {
    const std::byte* codes = chunk + format->codes_at() + index * format->block_code_bytes();
    if (format->bits == 8) return byte_at(codes, k / 4, k % 4) - format->offset;
    if (format->bits == 2) return (byte_at(codes, k / 16, k % 4) >> (2 * (k % 16 / 4)) & 3) - format->offset;
    const int byte = byte_at(codes, k % 16 / 4, k % 4);
    int value = k < 16 ? byte & 15 : byte >> 4;
    const std::byte* more = codes + kQuantBlock * kPanelRows / 2;
    if (format->bits == 5) {
      uint32_t fifth = 0;
      std::memcpy(&fifth, more + 4 * lane, 4);
      value |= static_cast<int>((fifth >> (8 * (k % 4) + k / 4)) & 1u) << 4;
    }
    if (format->table != CodeTable::kNoTable) return code_values(format->table)[static_cast<size_t>(value)];
    if (format->bits == 6) value |= (byte_at(more, k / 16, k % 4) >> (2 * (k % 16 / 4)) & 3) << 4;
    return value - format->offset;
  }
  int byte_at(const std::byte* codes, size_t j, size_t i) const {
    return std::to_integer<int>(codes[(j * kPanelRows + lane) * 4 + i]);
  }
};

float float_weight(const PackedMatrix& w, const std::byte* panel, size_t k, size_t lane) {
  if (panel_is_f8(w.type)) return f8_value(w.type, panel, k, lane);
  const size_t index = k * kPanelRows + lane;
  if (w.type == PanelType::kPF) {
    float value = 0;
    std::memcpy(&value, panel + 4 * index, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, panel + 2 * index, 2);
  return w.type == PanelType::kPH ? fp16_to_float(bits) : bf16_to_float(bits);
}

// Computes one output of a quantised layer.
float dot_int8(const PanelFormat& format, const std::byte* panel, size_t lane, const QuantizedRows& x, size_t row) {
  const size_t chunk_bytes = format.chunk_bytes(), chunk_blocks = format.chunk_blocks();
  float acc = 0.0f;
  for (size_t b = 0; b < x.blocks(); ++b) {
    const Block block{panel + b / chunk_blocks * chunk_bytes, &format, b % chunk_blocks, lane};
    const size_t at = x.at(row, b);
    const int8_t* q = x.q + at * kQuantBlock;
    for (size_t group = 0; group < kQuantBlock / format.group; ++group) {
      int32_t sum = 0, sum_of_q = 0;
      for (size_t k = group * format.group; k < (group + 1) * format.group; ++k) {
        sum += block.code(k) * q[k];
        sum_of_q += q[k];
      }
      acc = std::fma(static_cast<float>(sum), block.scale(group) * x.scale[at], acc);
      if (format.has_mins) acc = std::fma(block.min(group), x.scale[at] * static_cast<float>(sum_of_q), acc);
    }
  }
  return acc;
}

void linear_int8(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride, std::byte*) {
  const PanelFormat format = panel_format(w.type);
  for (size_t p = panels.begin; p < panels.end; ++p) {
    const std::byte* panel = w.data + p * panel_bytes(w.type, w.n_cols);
    for (size_t row = 0; row < x.n_rows; ++row) {
      for (size_t lane = 0; lane < kPanelRows; ++lane) {
        y[row * y_stride + p * kPanelRows + lane] = dot_int8(format, panel, lane, x, row);
      }
    }
  }
}

void linear_float(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, Range panels, float* y,
                  size_t y_stride) {
  for (size_t p = panels.begin; p < panels.end; ++p) {
    const std::byte* panel = w.data + p * panel_bytes(w.type, w.n_cols);
    for (size_t row = 0; row < n_rows; ++row) {
      for (size_t lane = 0; lane < kPanelRows; ++lane) {
        float acc = 0;
        for (size_t k = 0; k < w.n_cols; ++k) {
          acc = std::fma(float_weight(w, panel, k, lane), x[row * x_stride + k], acc);
        }
        y[row * y_stride + p * kPanelRows + lane] = acc;
      }
    }
  }
}

// The oracle's version, for kPF panels. The product of two floats is exact in double, so a multiplication and an
// addition give the result of a fused operation, and the compiler can vectorise the lanes.
void linear_double(const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows, Range panels, float* y,
                   size_t y_stride) {
  CHECK(w.type == PanelType::kPF);
  for (size_t p = panels.begin; p < panels.end; ++p) {
    const float* panel = reinterpret_cast<const float*>(w.data + p * panel_bytes(w.type, w.n_cols));
    for (size_t row = 0; row < n_rows; ++row) {
      double sums[kPanelRows] = {};
      for (size_t k = 0; k < w.n_cols; ++k) {
        const double value = double{x[row * x_stride + k]};
        for (size_t lane = 0; lane < kPanelRows; ++lane) sums[lane] += double{panel[k * kPanelRows + lane]} * value;
      }
      float* out = y + row * y_stride + p * kPanelRows;
      for (size_t lane = 0; lane < kPanelRows; ++lane) out[lane] = static_cast<float>(sums[lane]);
    }
  }
}

void widen_panels(const PackedMatrix& w, Range panels, Range columns, float* out) {
  for (size_t k = columns.begin; k < columns.end; ++k) {
    for (size_t p = panels.begin; p < panels.end; ++p) {
      const std::byte* panel = w.data + p * panel_bytes(w.type, w.n_cols);
      for (size_t lane = 0; lane < kPanelRows; ++lane) *out++ = float_weight(w, panel, k, lane);
    }
  }
}

void quantize_blocks(const float* x, size_t row, Range blocks, QuantizedRows& out) {
  for (size_t b = blocks.begin; b < blocks.end; ++b) {
    const size_t at = out.at(row, b);
    int8_t* q = out.q + at * kQuantBlock;
    float block[kQuantBlock] = {};
    if (b < out.n_cols / kQuantBlock) std::memcpy(block, x + b * kQuantBlock, sizeof(block));
    float largest = 0.0f;
    for (float value : block) largest = std::fmax(largest, std::fabs(value));
    const bool is_zero = largest < kMinBlockMagnitude;
    const float inverse = is_zero ? 0.0f : 127.0f / largest;
    int32_t sums[2] = {0, 0};
    for (size_t k = 0; k < kQuantBlock; ++k) {
      q[k] = static_cast<int8_t>(std::nearbyint(block[k] * inverse));
      sums[k / 16] += q[k];
    }
    out.scale[at] = is_zero ? 0.0f : largest / 127.0f;
    out.scaled_sum[at] = out.scale[at] * static_cast<float>(sums[0] + sums[1]);
    out.offset16[out.half_at(row, b, 0)] = -128 * sums[0];
    out.offset16[out.half_at(row, b, 1)] = -128 * sums[1];
    out.offset32[at] = -128 * (sums[0] + sums[1]);
  }
}

}  // namespace

void fill_ref_linear(Kernels& table) {
  table.linear_int8 = linear_int8;
  table.linear_float = linear_float;
  table.widen_panels = widen_panels;
  table.quantize_blocks = quantize_blocks;
}

void fill_reference_linear(Kernels& table) { table.linear_float = linear_double; }

}  // namespace ibid
