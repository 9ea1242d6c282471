#include "weights/fp8_rows.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "weights/block_formats.h"
#include "weights/in_quotes.h"

namespace ibid {

namespace {

constexpr size_t kGroup = 32;  // of the formats with scales

// One scale for each tile of rows and columns.
struct Scales {
  std::vector<float> values;
  uint64_t tile_rows = 1, tile_cols = 1, tiles_per_row = 1;

  float at(uint64_t row, uint64_t col) const { return values[row / tile_rows * tiles_per_row + col / tile_cols]; }
};

class Fp8Rows : public RowSource {
 public:
  Fp8Rows(const TensorView& codes, std::span<const std::byte> scale_bytes, Scales scales, DType presented)
      : codes_(codes), scale_bytes_(scale_bytes), scales_(std::move(scales)), presented_(presented) {}

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    const uint64_t n_cols = codes_.shape[1];
    for (const uint64_t row : rows) {
      const std::byte* codes = codes_.data.data() + row * n_cols;
      for (uint64_t col = 0; col < n_cols; col += kGroup) {
        out = read_group(row, col, codes + col, std::min<uint64_t>(kGroup, n_cols - col), out);
      }
    }
  }

  std::vector<std::span<const std::byte>> parts() const override { return {codes_.data, scale_bytes_}; }

 private:
  // n values from column `col` on, where `codes` are; returns the end of what it wrote.
  std::byte* read_group(uint64_t row, uint64_t col, const std::byte* codes, size_t n, std::byte* out) const {
    if (presented_ == DType::kF8E4M3Scaled || presented_ == DType::kF8E5M2Scaled) {
      const float scale = scales_.at(row, col);
      std::memcpy(out, &scale, sizeof scale);
      std::memcpy(out + sizeof scale, codes, n);
      return out + sizeof scale + n;
    }
    for (size_t i = 0; i < n; ++i) {
      const auto byte = std::to_integer<uint8_t>(codes[i]);
      const float value = codes_.dtype == DType::kF8E4M3 ? e4m3_to_float(byte) : e5m2_to_float(byte);
      if (presented_ == DType::kF16) {
        const uint16_t half = float_to_fp16(value);
        std::memcpy(out, &half, sizeof half);
        out += sizeof half;
      } else {
        const float scaled = scales_.at(row, col + i) * value;
        std::memcpy(out, &scaled, sizeof scaled);
        out += sizeof scaled;
      }
    }
    return out;
  }

  TensorView codes_;
  std::span<const std::byte> scale_bytes_;
  Scales scales_;
  DType presented_;
};

uint64_t quotient_up(uint64_t a, uint64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

std::string shapes(const TensorView& scale, const Shape& wanted) {
  return " has scales " + scale.shape.to_string() + ", wanted " + wanted.to_string();
}

// Which tiles the scales are of, by their shape.
Result<Scales> tile(const TensorView& codes, const TensorView& scale, const QuantizationConfig& config,
                    const std::string& field) {
  const uint64_t rows = codes.shape[0], cols = codes.shape[1];
  Scales tiles;
  const uint64_t n = scale.shape.elements();
  const bool column = scale.shape.rank == 1 || (scale.shape.rank == 2 && scale.shape[1] == 1);
  if (n == 1) {
    tiles.tile_rows = std::max<uint64_t>(rows, 1), tiles.tile_cols = std::max<uint64_t>(cols, 1);
    return tiles;
  }
  if (column && n == rows) {
    tiles.tile_cols = std::max<uint64_t>(cols, 1);
    return tiles;
  }
  const Shape blocks{{quotient_up(rows, config.block_rows), quotient_up(cols, config.block_cols)}, 2};
  if (scale.shape != blocks) return Status(ErrorCode::kBadShape, field + shapes(scale, blocks));
  tiles.tile_rows = config.block_rows, tiles.tile_cols = config.block_cols, tiles.tiles_per_row = blocks[1];
  return tiles;
}

Result<Scales> read_scales(const TensorView& codes, const TensorView& scale, const QuantizationConfig& config,
                           const std::string& field) {
  if (!dtype_is_float(scale.dtype)) {
    return Status(ErrorCode::kBadType, field + " has scales of type " + std::string(dtype_name(scale.dtype)) +
                                           ", wanted F32, F16 or BF16");
  }
  TRY_ASSIGN(Scales scales, tile(codes, scale, config, field));
  scales.values.resize(scale.shape.elements());
  dequantize_row(scale.dtype, scale.data, scales.values);
  for (size_t i = 0; i < scales.values.size(); ++i) {
    if (std::isfinite(scales.values[i])) continue;
    return Status(ErrorCode::kNonFinite, field + " has a scale that is not finite at " + std::to_string(i));
  }
  return scales;
}

}  // namespace

Result<MadeTensor> make_fp8(const std::string& name, const TensorView& codes, const TensorView* scale,
                            const QuantizationConfig& config, std::string_view path) {
  const std::string field = std::string(path) + ": tensor " + in_quotes(name);
  if (codes.shape.rank != 2) {
    return Status(ErrorCode::kBadShape, field + " of type " + std::string(dtype_name(codes.dtype)) + " is " +
                                            codes.shape.to_string() + ", wanted a matrix");
  }
  Scales scales;
  DType presented = DType::kF16;
  if (scale != nullptr) {
    TRY_ASSIGN(scales, read_scales(codes, *scale, config, field));
    const bool whole = codes.shape[1] % kGroup == 0 && (scales.tile_cols % kGroup == 0 || scales.tiles_per_row == 1);
    const bool e4m3 = codes.dtype == DType::kF8E4M3;
    presented = !whole ? DType::kF32 : e4m3 ? DType::kF8E4M3Scaled : DType::kF8E5M2Scaled;
  }
  MadeTensor made;
  made.name = name;
  made.source = std::make_unique<Fp8Rows>(codes, scale == nullptr ? std::span<const std::byte>() : scale->data,
                                          std::move(scales), presented);
  made.view.dtype = presented;
  made.view.shape = codes.shape;
  made.view.source = made.source.get();
  return made;
}

}  // namespace ibid
