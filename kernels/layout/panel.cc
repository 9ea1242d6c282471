#include "kernels/layout/panel.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "base/check.h"

namespace ibid {

namespace {

const PanelInfo& info_of(PanelType type) {
  const auto index = static_cast<size_t>(type);
  CHECK_LT(index, kPanelTypeCount);
  return kPanels[index];
}

constexpr size_t kPanelAlignment = 64;

size_t aligned(size_t bytes) { return (bytes + kPanelAlignment - 1) / kPanelAlignment * kPanelAlignment; }

}  // namespace

const char* panel_type_name(PanelType type) { return info_of(type).name; }

namespace {

// True if panels of this format store blocks of `layout` exactly.
bool holds(const PanelFormat& format, const QuantLayout& layout) {
  return format.scales == layout.scales && format.has_mins == layout.has_mins && format.table == layout.table &&
         layout.group_size % format.group == 0 && format.min_code() <= layout.min_code &&
         format.max_code() >= layout.max_code;
}

PanelType narrowest_panel(const QuantLayout& layout) {
  const PanelInfo* best = nullptr;
  for (const PanelInfo& panel : kPanels) {
    if (panel_is_float(panel.type) || !holds(panel.format, layout)) continue;
    if (best == nullptr || panel.format.bits < best->format.bits) best = &panel;
  }
  return best == nullptr ? PanelType::kPF : best->type;
}

}  // namespace

PanelType panel_type_for(DType dtype) {
  if (dtype_is_quantized(dtype)) return narrowest_panel(quant_layout(dtype));
  if (dtype == DType::kF16) return PanelType::kPH;
  if (dtype == DType::kBF16) return PanelType::kPB;
  if (dtype == DType::kF8E4M3Scaled) return PanelType::kPE4;
  if (dtype == DType::kF8E5M2Scaled) return PanelType::kPE5;
  CHECK(dtype == DType::kF32 || dtype == DType::kF64) << dtype_name(dtype);
  return PanelType::kPF;
}

int PanelFormat::min_code() const {
  if (table == CodeTable::kNoTable) return -offset;
  return std::ranges::min(code_values(table));
}

int PanelFormat::max_code() const {
  if (table == CodeTable::kNoTable) return (1 << bits) - 1 - offset;
  return std::ranges::max(code_values(table));
}

namespace {

struct alignas(64) Lookup {
  uint8_t bytes[4 * kCodeTableSize];
};

std::array<Lookup, kPanelTypeCount> make_lookups() {
  std::array<Lookup, kPanelTypeCount> lookups{};
  for (const PanelInfo& panel : kPanels) {
    if (panel.format.table == CodeTable::kNoTable) continue;
    const auto values = code_values(panel.format.table);
    uint8_t* bytes = lookups[static_cast<size_t>(panel.type)].bytes;
    for (size_t i = 0; i < 4 * kCodeTableSize; ++i) {
      bytes[i] = static_cast<uint8_t>(values[i % kCodeTableSize] + panel.format.offset);
    }
  }
  return lookups;
}

}  // namespace

const uint8_t* panel_lookup(PanelType type) {
  static const std::array<Lookup, kPanelTypeCount> lookups = make_lookups();
  if (info_of(type).format.table == CodeTable::kNoTable) return nullptr;
  return lookups[static_cast<size_t>(type)].bytes;
}

PanelFormat panel_format(PanelType type) {
  CHECK(!panel_is_float(type)) << panel_type_name(type);
  return info_of(type).format;
}

namespace {

uint16_t bits_at(const std::byte* p, size_t index) {
  uint16_t bits = 0;
  std::memcpy(&bits, p + 2 * index, 2);
  return bits;
}

float half_at(const std::byte* p, size_t index) { return fp16_to_float(bits_at(p, index)); }

float code_at(const std::byte* p, size_t index) {
  return static_cast<float>(static_cast<int8_t>(std::to_integer<uint8_t>(p[index])));
}

}  // namespace

float panel_scale(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane) {
  const size_t index = group * kPanelRows + lane;
  if (format.scales == ScaleKind::kBfloat) return bf16_to_float(bits_at(chunk, index));
  if (!format.super_scales()) return half_at(chunk, index);
  return half_at(chunk, lane) * format.scale_factor() * code_at(chunk + format.scale_codes_at(), index);
}

float panel_min(const PanelFormat& format, const std::byte* chunk, size_t group, size_t lane) {
  const size_t index = group * kPanelRows + lane;
  if (!format.super_scales()) return half_at(chunk + format.mins_at(), index);
  return -(half_at(chunk + format.super_mins_at(), lane) * code_at(chunk + format.min_codes_at(), index));
}

float f8_value(PanelType type, const std::byte* panel, size_t k, size_t lane) {
  const std::byte* chunk = panel + k / kQuantBlock * kF8ChunkBytes;
  float scale = 0;
  std::memcpy(&scale, chunk + lane * sizeof scale, sizeof scale);
  const std::byte code = chunk[kPanelRows * sizeof scale + k % kQuantBlock * kPanelRows + lane];
  return fp16_to_float(f8_half(type, std::to_integer<uint8_t>(code))) * scale;
}

size_t panel_bytes(PanelType type, size_t n_cols) {
  if (panel_is_f8(type)) return n_cols / kQuantBlock * kF8ChunkBytes;
  if (panel_is_float(type)) return aligned(n_cols * kPanelRows * info_of(type).bytes_per_value);
  const PanelFormat& format = info_of(type).format;
  const size_t chunks = (n_cols + format.chunk_cols() - 1) / format.chunk_cols();
  return aligned(chunks * format.chunk_bytes());
}

size_t packed_bytes(PanelType type, size_t n_rows, size_t n_cols) {
  return (n_rows + kPanelRows - 1) / kPanelRows * panel_bytes(type, n_cols);
}

size_t RowOrder::source_row(size_t row) const {
  if (rotary_dim != 0) {
    const size_t i = row % head_dim, half = rotary_dim / 2;
    if (i < rotary_dim) row = row - i + 2 * (i % half) + i / half;
  }
  return block == 0 ? first + row : first + row / block * stride + row % block;
}

}  // namespace ibid
