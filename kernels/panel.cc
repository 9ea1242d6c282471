#include "kernels/panel.h"

#include <cstring>
#include <iterator>

#include "base/check.h"

namespace ibid {

namespace {

struct PanelInfo {
  PanelType type;
  const char* name;
  PanelFormat format;      // quantised types
  size_t bytes_per_value;  // float types
};

constexpr PanelInfo kPanels[] = {
    {PanelType::kP4, "P4", {32, 4, 8, false, false}, 0},
    {PanelType::kP4m, "P4m", {32, 4, 0, true, false}, 0},
    {PanelType::kP4k, "P4k", {32, 4, 0, true, true}, 0},
    {PanelType::kP5, "P5", {32, 5, 16, false, false}, 0},
    {PanelType::kP5m, "P5m", {32, 5, 0, true, false}, 0},
    {PanelType::kP5k, "P5k", {32, 5, 0, true, true}, 0},
    {PanelType::kP8, "P8", {32, 8, 128, false, false}, 0},
    {PanelType::kP6k, "P6k", {16, 6, 32, false, true}, 0},
    {PanelType::kPH, "PH", {}, 2},
    {PanelType::kPB, "PB", {}, 2},
    {PanelType::kPF, "PF", {}, 4},
};

const PanelInfo& info_of(PanelType type) {
  const auto index = static_cast<size_t>(type);
  CHECK_LT(index, std::size(kPanels));
  DCHECK(kPanels[index].type == type);
  return kPanels[index];
}

constexpr size_t kPanelAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment; }

}  // namespace

const char* panel_type_name(PanelType type) { return info_of(type).name; }

PanelType panel_type_for(DType dtype) {
  switch (dtype) {
    case DType::kQ4_0: return PanelType::kP4;
    case DType::kQ4_1: return PanelType::kP4m;
    case DType::kQ4_K: return PanelType::kP4k;
    case DType::kQ5_0: return PanelType::kP5;
    case DType::kQ5_1: return PanelType::kP5m;
    case DType::kQ5_K: return PanelType::kP5k;
    case DType::kQ8_0: return PanelType::kP8;
    case DType::kQ6_K:
    case DType::kQ3_K: return PanelType::kP6k;  // Q3_K: codes -4..3, scales as Q6_K has them
    case DType::kF16: return PanelType::kPH;
    case DType::kBF16: return PanelType::kPB;
    default: break;
  }
  CHECK(dtype == DType::kF32 || dtype == DType::kQ2_K) << dtype_name(dtype);  // Q2_K: mins per 16 columns
  return PanelType::kPF;
}

PanelFormat panel_format(PanelType type) {
  CHECK(!panel_is_float(type)) << panel_type_name(type);
  return info_of(type).format;
}

namespace {

float half_at(const std::byte* p, size_t index) {
  uint16_t bits;
  std::memcpy(&bits, p + 2 * index, 2);
  return fp16_to_float(bits);
}

float code_at(const std::byte* p, size_t index) {
  return static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(p[index])));
}

}  // namespace

float panel_scale(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane) {
  const size_t index = group * kPanelRows + lane;
  if (!format.super_scales) return half_at(chunk, index);
  return half_at(chunk, lane) * code_at(chunk + format.scale_codes_at(), index);
}

float panel_min(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane) {
  const size_t index = group * kPanelRows + lane;
  if (!format.super_scales) return half_at(chunk + format.mins_at(), index);
  return -(half_at(chunk + format.super_mins_at(), lane) * code_at(chunk + format.min_codes_at(), index));
}

size_t panel_bytes(PanelType type, size_t n_cols) {
  if (panel_is_float(type)) return aligned(n_cols * kPanelRows * info_of(type).bytes_per_value);
  const size_t chunks = (n_cols + kChunkCols - 1) / kChunkCols;
  return aligned(chunks * info_of(type).format.chunk_bytes());
}

size_t packed_bytes(PanelType type, size_t n_rows, size_t n_cols) {
  return (n_rows + kPanelRows - 1) / kPanelRows * panel_bytes(type, n_cols);
}

size_t RowOrder::source_row(size_t row) const {
  if (kind == kAsIs) return row;
  const size_t head = row / head_dim, i = row % head_dim;
  const size_t half = head_dim / 2;
  return head * head_dim + 2 * (i % half) + i / half;
}

}  // namespace ibid
