#include "weights/assembled_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/json_limits.h"
#include "base/text.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// --- One-byte floats (safetensors F8_E4M3, F8_E5M2) with one scale per tensor, row or block.

constexpr size_t kScaledGroup = 32;  // values per scale in the number formats kF8E4M3Scaled and kF8E5M2Scaled

// The scales of a matrix. Each scale is for one tile, which is a block of rows and columns.
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
      for (uint64_t col = 0; col < n_cols; col += kScaledGroup) {
        out = read_group(row, col, codes + col, std::min<uint64_t>(kScaledGroup, n_cols - col), out);
      }
    }
  }

  std::vector<std::span<const std::byte>> parts() const override { return {codes_.data, scale_bytes_}; }

 private:
  // Writes the n values of a row that are stored in `codes` and begin at column `col`. Returns the end of the output.
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
  return " has scales " + scale.shape.to_string() + ", expected " + wanted.to_string();
}

// Derives the size of the tiles (blocks of values with one scale) from the shape of `scale`.
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
                                           ", expected F32, F16 or BF16");
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

// Assembles a matrix `codes` with its scales (null: no scales). Errors: kBadShape, kBadType, kNonFinite.
Result<AssembledTensor> make_fp8(const std::string& name, const TensorView& codes, const TensorView* scale,
                                 const QuantizationConfig& config, std::string_view path) {
  const std::string field = std::string(path) + ": tensor " + in_quotes(name);
  if (codes.shape.rank != 2) {
    return Status(ErrorCode::kBadShape, field + " of type " + std::string(dtype_name(codes.dtype)) + " is " +
                                            codes.shape.to_string() + ", expected a matrix");
  }
  Scales scales;
  DType presented = DType::kF16;
  if (scale != nullptr) {
    TRY_ASSIGN(scales, read_scales(codes, *scale, config, field));
    const bool whole =
        codes.shape[1] % kScaledGroup == 0 && (scales.tile_cols % kScaledGroup == 0 || scales.tiles_per_row == 1);
    const bool e4m3 = codes.dtype == DType::kF8E4M3;
    presented = !whole ? DType::kF32 : e4m3 ? DType::kF8E4M3Scaled : DType::kF8E5M2Scaled;
  }
  AssembledTensor made;
  made.name = name;
  made.source = std::make_unique<Fp8Rows>(codes, scale == nullptr ? std::span<const std::byte>() : scale->data,
                                          std::move(scales), presented);
  made.view.dtype = presented;
  made.view.shape = codes.shape;
  made.view.source = made.source.get();
  return made;
}

// --- Blocks of 4-bit floats.

constexpr uint64_t kMxBlockBytes = 16;

// Rows of gpt-oss's MXFP4 blocks. A block is an exponent and 16 bytes for 32 values; byte j has values 2 j, 2 j + 1.
class MxBlockRows : public RowSource {
 public:
  MxBlockRows(const TensorView& blocks, const TensorView& scales, uint64_t blocks_per_row)
      : blocks_(blocks), scales_(scales), blocks_per_row_(blocks_per_row) {}

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    for (const uint64_t row : rows) {
      const std::byte* packed = blocks_.data.data() + row * blocks_per_row_ * kMxBlockBytes;
      for (uint64_t b = 0; b < blocks_per_row_; ++b, packed += kMxBlockBytes) {
        *out++ = scales_.data[row * blocks_per_row_ + b];
        // The rows are presented in ggml's layout: byte j holds values j and j + 16.
        for (size_t j = 0; j < kMxBlockBytes; ++j) *out++ = value(packed, j) | value(packed, j + 16) << 4;
      }
    }
  }

  std::vector<std::span<const std::byte>> parts() const override { return {blocks_.data, scales_.data}; }

 private:
  static std::byte value(const std::byte* packed, size_t i) { return packed[i / 2] >> (i % 2 * 4) & std::byte{15}; }

  TensorView blocks_, scales_;
  uint64_t blocks_per_row_;
};

class Maker {
 public:
  Maker(const StoredTensors& stored, const QuantizationConfig& config) : stored_(stored), config_(config) {}

  Result<std::vector<AssembledTensor>> make() {
    for (const std::string& name : *stored_.names) {
      const TensorView& tensor = *stored_.find(name);
      if (tensor.dtype == DType::kF8E4M3 || tensor.dtype == DType::kF8E5M2) TRY(add(made_fp8(name, tensor)));
      if (name.ends_with("_blocks") && tensor.dtype == DType::kU8) TRY(add_mx_blocks(name, tensor));
      if (name.ends_with(".qweight")) TRY(add(made_words(base(name, ".qweight"), tensor)));
      if (name.ends_with(".weight_packed")) TRY(add(made_compressed(base(name, ".weight_packed"), tensor)));
    }
    return std::move(assembled_);
  }

 private:
  static std::string base(const std::string& name, std::string_view suffix) {
    return name.substr(0, name.size() - suffix.size());
  }

  Status add(Result<AssembledTensor> tensor) {
    TRY(tensor.status());
    assembled_.push_back(std::move(tensor).value());
    return {};
  }

  Result<AssembledTensor> made_fp8(const std::string& name, const TensorView& codes) const {
    const TensorView* scale = stored_.find(name + "_scale_inv");
    if (scale == nullptr) scale = stored_.find(name + "_scale");
    return make_fp8(name, codes, scale, config_, stored_.path);
  }

  Result<AssembledTensor> made_words(const std::string& stem, const TensorView& words) const {
    const bool awq = config_.method == "awq";
    if (!awq && config_.method != "gptq") {
      return Status(ErrorCode::kUnsupported, std::string(stored_.path) + ": tensor " + in_quotes(stem + ".qweight") +
                                                 " has packed integers, and config.json names neither gptq nor awq");
    }
    const Int4Parts parts{&words, stored_.find(stem + ".qzeros"), stored_.find(stem + ".scales"),
                          awq ? nullptr : stored_.find(stem + ".g_idx")};
    return make_int4(stem + ".weight", awq ? Int4Packing::kAwq : Int4Packing::kGptq, parts, config_, stored_.path);
  }

  Result<AssembledTensor> made_compressed(const std::string& stem, const TensorView& words) const {
    const Int4Parts parts{&words, stored_.find(stem + ".weight_zero_point"), stored_.find(stem + ".weight_scale"),
                          stored_.find(stem + ".weight_g_idx")};
    return make_int4(stem + ".weight", Int4Packing::kCompressed, parts, config_, stored_.path);
  }

  Status add_mx_blocks(const std::string& name, const TensorView& blocks) {
    const TensorView* scales = stored_.find(base(name, "_blocks") + "_scales");
    if (scales == nullptr) return {};
    const std::string field = std::string(stored_.path) + ": tensor " + in_quotes(name);
    const size_t rank = blocks.shape.rank;
    if (rank < 3 || blocks.shape[rank - 1] != kMxBlockBytes) {
      return {ErrorCode::kBadShape, field + " is " + blocks.shape.to_string() + ", expected blocks of 16 bytes"};
    }
    Shape wanted = blocks.shape;
    wanted.dims[--wanted.rank] = 0;
    if (scales->dtype != DType::kU8 || scales->shape != wanted) {
      return {ErrorCode::kBadShape, field + " has scales " + std::string(dtype_name(scales->dtype)) + " " +
                                        scales->shape.to_string() + ", expected U8 " + wanted.to_string()};
    }
    const uint64_t per_row = wanted[rank - 2];
    if (std::ranges::find(scales->data, std::byte{255}) != scales->data.end()) {
      return {ErrorCode::kNonFinite, field + " has a scale of 255, which is NaN"};
    }
    AssembledTensor made;
    made.name = name;
    made.source = std::make_unique<MxBlockRows>(blocks, *scales, per_row);
    made.view.dtype = DType::kMXFP4;
    made.view.shape = wanted;
    made.view.shape.dims[rank - 2] = 2 * kMxBlockBytes * per_row;
    made.view.source = made.source.get();
    assembled_.push_back(std::move(made));
    return {};
  }

  const StoredTensors& stored_;
  const QuantizationConfig& config_;
  std::vector<AssembledTensor> assembled_;
};

Status unsupported(std::string_view path, const std::string& words) {
  return {ErrorCode::kUnsupported, std::string(path) + ": quantization_config " + words};
}

Status check_bits(const JsonValues& config, std::string_view path, const std::string& method) {
  TRY_ASSIGN(const std::optional<int64_t> bits, config.get_int("quantization_config.bits"));
  if (bits.value_or(4) == 4) return {};
  return unsupported(path, "names " + method + " with " + std::to_string(*bits) + " bits; only 4 bits are supported");
}

// Checks a quantization_config of the method compressed-tensors. Error: kUnsupported unless it describes packed 4-bit
// integers (pack-quantized), or one-byte floats.
Status check_compressed(const JsonValues& config, std::string_view path) {
  TRY_ASSIGN(const std::optional<std::string_view> format, config.get_string("quantization_config.format"));
  const std::string_view name = format.value_or("pack-quantized");
  if (name != "pack-quantized" && name != "float-quantized" && name != "naive-quantized") {
    return unsupported(path, "has the format " + in_quotes(name) + " of compressed-tensors, which is not supported");
  }
  const Json* groups = config.find("quantization_config.config_groups");
  if (groups == nullptr || !groups->is_object()) return {};
  for (const auto& [key, group] : groups->items()) {
    const auto weights = group.is_object() ? group.find("weights") : group.end();
    if (!group.is_object() || weights == group.end() || !weights->is_object()) continue;
    const auto bits = weights->find("num_bits");
    if (bits == weights->end() || !bits->is_number_integer()) continue;
    const int64_t wanted = name == "pack-quantized" ? 4 : 8;
    if (bits->get<int64_t>() != wanted) {
      return unsupported(path, "has weights of " + std::to_string(bits->get<int64_t>()) + " bits in " +
                                   in_quotes(name) + "; only " + std::to_string(wanted) + " bits are supported");
    }
  }
  return {};
}

}  // namespace

Result<QuantizationConfig> read_quantization_config(const JsonValues& config, std::string_view path) {
  QuantizationConfig quantization;
  const Json* found = config.find("quantization_config");
  if (found == nullptr || (found->is_object() && found->empty())) return quantization;
  TRY_ASSIGN(const std::optional<std::string_view> method, config.get_string("quantization_config.quant_method"));
  if (!method) return unsupported(path, "has no quant_method");
  quantization.method = *method;
  static constexpr std::array<std::string_view, 6> kRead = {"mxfp4", "fp8", "fbgemm_fp8", "compressed-tensors",
                                                            "gptq",  "awq"};
  if (std::ranges::find(kRead, *method) == kRead.end()) {
    return unsupported(path, "names the method " + in_quotes(*method) +
                                 ", which is not supported; use the unquantised model or a GGUF file");
  }
  if (*method == "gptq" || *method == "awq") TRY(check_bits(config, path, quantization.method));
  if (*method == "compressed-tensors") TRY(check_compressed(config, path));
  TRY_ASSIGN(const auto checkpoint, config.get_string("quantization_config.checkpoint_format"));
  quantization.zeros_minus_one = checkpoint.value_or("gptq") != "gptq_v2";
  TRY_ASSIGN(const auto version, config.get_string("quantization_config.version"));
  if (*method == "awq" && version.value_or("gemm") != "gemm" && version.value_or("gemm") != "GEMM") {
    return unsupported(path, "has the version " + in_quotes(*version) + " of awq; only gemm is supported");
  }
  TRY_ASSIGN(const auto block, config.get_ints("quantization_config.weight_block_size"));
  if (block) {
    if (block->size() != 2 || (*block)[0] < 1 || (*block)[1] < 1) {
      return Status(ErrorCode::kBadNumber, std::string(path) +
                                               ": quantization_config.weight_block_size is not a "
                                               "pair of positive numbers");
    }
    quantization.block_rows = static_cast<uint64_t>((*block)[0]);
    quantization.block_cols = static_cast<uint64_t>((*block)[1]);
  }
  return quantization;
}

Result<std::vector<AssembledTensor>> make_tensors(const StoredTensors& stored, const QuantizationConfig& config) {
  return Maker(stored, config).make();
}

}  // namespace ibid
