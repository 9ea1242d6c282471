#include "kernels/layout/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/check.h"

namespace ibid {

namespace {

void store_half(std::byte* at, size_t index, uint16_t half) { std::memcpy(at + 2 * index, &half, 2); }

template <typename T>
T load(const std::byte* at, size_t index) {
  T value;
  std::memcpy(&value, at + sizeof(T) * index, sizeof(T));
  return value;
}

// Byte offsets and bit positions of one code in a chunk's codes (kernels/layout/panel.h).
struct CodePlace {
  size_t byte;
  unsigned shift;    // shift of the code, or of its low bits, in the byte
  size_t high_byte;  // 5 and 6 bit types: byte with the bits above the low four
  unsigned high_shift;
};

CodePlace code_place(const PanelFormat& format, size_t column, size_t lane) {
  const size_t k = column % kQuantBlock;
  const size_t block = column / kQuantBlock * format.block_code_bytes();
  if (format.bits == 8) return {block + (k / 4 * kPanelRows + lane) * 4 + k % 4, 0, 0, 0};
  const unsigned pair_shift = static_cast<unsigned>(2 * (k % 16 / 4));
  if (format.bits == 2) return {block + (k / 16 * kPanelRows + lane) * 4 + k % 4, pair_shift, 0, 0};
  const size_t nibbles = kQuantBlock * kPanelRows / 2;
  const size_t low = block + (k % 16 / 4 * kPanelRows + lane) * 4 + k % 4;
  const size_t high = block + nibbles + lane * 4 + k % 4;
  const unsigned shift = k < 16 ? 0 : 4;
  if (format.bits == 6) return {low, shift, high + k / 16 * kPanelRows * 4, pair_shift};
  return {low, shift, high, static_cast<unsigned>(k / 4)};
}

int load_code(const PanelFormat& format, const std::byte* codes, size_t column, size_t lane) {
  const CodePlace place = code_place(format, column, lane);
  const unsigned byte = std::to_integer<unsigned>(codes[place.byte]);
  const unsigned mask_of_byte = format.bits == 8 ? 255 : format.bits == 2 ? 3 : 15;
  unsigned code = byte >> place.shift & mask_of_byte;
  if (format.bits == 5 || format.bits == 6) {
    const unsigned mask = format.bits == 5 ? 1 : 3;
    code |= ((std::to_integer<unsigned>(codes[place.high_byte]) >> place.high_shift) & mask) << 4;
  }
  if (format.table != CodeTable::kNoTable) return code_values(format.table)[code];
  return static_cast<int>(code) - format.offset;
}

// Maps every value, cast to a byte, to its stored code. If a value occurs twice in the table, its first code is used.
using StoredCodes = std::array<uint8_t, 256>;

StoredCodes stored_codes(const PanelFormat& format) {
  StoredCodes stored{};
  if (format.table == CodeTable::kNoTable) {
    for (int code = format.min_code(); code <= format.max_code(); ++code) {
      stored[static_cast<uint8_t>(code)] = static_cast<uint8_t>(code + format.offset);
    }
    return stored;
  }
  const auto values = code_values(format.table);
  for (size_t i = values.size(); i-- > 0;) stored[static_cast<uint8_t>(values[i])] = static_cast<uint8_t>(i);
  return stored;
}

// Packs bits shift and shift + 1 of each column's code; a byte holds four columns, 4 apart (kernels/layout/panel.h).
void pack_pairs(const uint8_t* stored, unsigned shift, size_t lane, std::byte* out) {
  for (size_t v = 0; v < 2; ++v) {
    uint8_t pairs[4] = {};
    for (size_t k = 0; k < 16; ++k) {
      pairs[k % 4] = static_cast<uint8_t>(pairs[k % 4] | stored[16 * v + k] >> shift << (2 * (k / 4)));
    }
    std::memcpy(out + (v * kPanelRows + lane) * 4, pairs, 4);
  }
}

// Packs the codes of one block of 32 columns of one lane. Packs a whole block at a time, because loading spends most of
// its time here.
void pack_block(const PanelFormat& format, const StoredCodes& stored_codes, const int8_t* codes, size_t lane,
                std::byte* out) {
  uint8_t stored[kQuantBlock];
  for (size_t k = 0; k < kQuantBlock; ++k) {
    DCHECK(codes[k] >= format.min_code() && codes[k] <= format.max_code()) << int{codes[k]};
    stored[k] = stored_codes[static_cast<uint8_t>(codes[k])];
  }
  if (format.bits == 8) {
    for (size_t j = 0; j < 8; ++j) std::memcpy(out + (j * kPanelRows + lane) * 4, stored + 4 * j, 4);
    return;
  }
  if (format.bits == 2) return pack_pairs(stored, 0, lane, out);
  uint8_t nibbles[16];
  for (size_t k = 0; k < 16; ++k) nibbles[k] = static_cast<uint8_t>((stored[k] & 15) | (stored[16 + k] << 4));
  for (size_t j = 0; j < 4; ++j) std::memcpy(out + (j * kPanelRows + lane) * 4, nibbles + 4 * j, 4);
  if (format.bits == 5) {
    uint32_t fifth = 0;
    for (size_t k = 0; k < kQuantBlock; ++k) {
      fifth |= static_cast<uint32_t>(stored[k] >> 4) << (8 * (k % 4) + k / 4);
    }
    std::memcpy(out + kQuantBlock * kPanelRows / 2 + 4 * lane, &fifth, 4);
  }
  if (format.bits == 6) pack_pairs(stored, 4, lane, out + kQuantBlock * kPanelRows / 2);
}

uint16_t scale_bits(const PanelFormat& format, float scale) {
  if (format.scales == ScaleKind::kHalf) return float_to_fp16(scale);
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(scale) >> 16);
}

// Packs scales and mins of one lane of a chunk with `n` groups. `first`: index of the chunk's first group in the row.
void pack_scales(const PanelFormat& format, const PanelRows& rows, size_t row_groups, size_t first, size_t n,
                 size_t lane, std::byte* chunk) {
  if (format.super_scales()) {
    const size_t chunks = (row_groups + format.groups_per_chunk() - 1) / format.groups_per_chunk();
    const size_t at = lane * chunks + first / format.groups_per_chunk();
    store_half(chunk, lane, rows.super_scales[at]);
    if (format.has_mins) store_half(chunk + format.super_mins_at(), lane, rows.super_mins[at]);
  }
  for (size_t g = 0; g < n; ++g) {
    const size_t source = lane * row_groups + first + g, index = g * kPanelRows + lane;
    if (format.super_scales()) {
      chunk[format.scale_codes_at() + index] = static_cast<std::byte>(rows.scale_codes[source]);
      if (format.has_mins) chunk[format.min_codes_at() + index] = static_cast<std::byte>(rows.min_codes[source]);
    } else {
      store_half(chunk, index, scale_bits(format, rows.scales[source]));
      if (format.has_mins) store_half(chunk + format.mins_at(), index, float_to_fp16(rows.mins[source]));
    }
  }
}

void pack_chunk(const PanelFormat& format, const StoredCodes& stored, const PanelRows& rows, size_t n_cols,
                size_t first_col, size_t lane, std::byte* chunk) {
  const size_t groups = n_cols / format.group;
  const size_t end = std::min(first_col + format.chunk_cols(), n_cols);
  for (size_t col = first_col; col < end; col += kQuantBlock) {
    const size_t block = (col - first_col) / kQuantBlock * format.block_code_bytes();
    pack_block(format, stored, &rows.codes[lane * n_cols + col], lane, chunk + format.codes_at() + block);
  }
  pack_scales(format, rows, groups, first_col / format.group, (end - first_col) / format.group, lane, chunk);
}

template <typename T>
void pack_plain(std::span<const T> values, size_t n_rows, size_t n_cols, std::byte* out) {
  CHECK_EQ(values.size(), n_rows * n_cols);
  auto* panel = reinterpret_cast<T*>(out);
  for (size_t k = 0; k < n_cols; ++k) {
    for (size_t lane = 0; lane < n_rows; ++lane) panel[k * kPanelRows + lane] = values[lane * n_cols + k];
  }
}

void pack_f8(PanelType type, const PanelRows& rows, size_t n_cols, std::byte* out) {
  CHECK_EQ(rows.codes.size(), rows.n_rows * n_cols);
  CHECK_EQ(rows.scales.size() * kQuantBlock, rows.codes.size());
  for (size_t col = 0; col < n_cols; col += kQuantBlock, out += kF8ChunkBytes) {
    for (size_t lane = 0; lane < rows.n_rows; ++lane) {
      const size_t at = lane * n_cols + col;
      const float scale = rows.scales[at / kQuantBlock] * f8_scale_factor(type);
      std::memcpy(out + lane * sizeof scale, &scale, sizeof scale);
      std::byte* codes = out + kPanelRows * sizeof scale + lane;
      for (size_t k = 0; k < kQuantBlock; ++k) codes[k * kPanelRows] = static_cast<std::byte>(rows.codes[at + k]);
    }
  }
}

float plain_value(PanelType type, const std::byte* panel, size_t index) {
  if (type == PanelType::kPF) return load<float>(panel, index);
  const auto bits = load<uint16_t>(panel, index);
  return type == PanelType::kPH ? fp16_to_float(bits) : bf16_to_float(bits);
}

}  // namespace

void pack_panel(PanelType type, size_t n_cols, const PanelRows& rows, std::byte* out) {
  CHECK(rows.n_rows >= 1 && rows.n_rows <= kPanelRows) << rows.n_rows;
  std::memset(out, 0, panel_bytes(type, n_cols));
  if (panel_is_f8(type)) return pack_f8(type, rows, n_cols, out);
  if (type == PanelType::kPF) return pack_plain(rows.floats, rows.n_rows, n_cols, out);
  if (panel_is_float(type)) return pack_plain(rows.halves, rows.n_rows, n_cols, out);
  const PanelFormat format = panel_format(type);
  CHECK_EQ(n_cols % kQuantBlock, size_t{0});
  CHECK_EQ(rows.codes.size(), rows.n_rows * n_cols);
  const size_t groups = rows.n_rows * (n_cols / format.group);
  CHECK_EQ(format.super_scales() ? rows.scale_codes.size() : rows.scales.size(), groups);
  CHECK_EQ(format.super_scales() ? rows.min_codes.size() : rows.mins.size(), format.has_mins ? groups : 0);
  if (format.super_scales()) {
    const size_t chunks = rows.n_rows * ((n_cols + format.chunk_cols() - 1) / format.chunk_cols());
    CHECK_EQ(rows.super_scales.size(), chunks);
    CHECK_EQ(rows.super_mins.size(), format.has_mins ? chunks : 0);
  }
  const StoredCodes stored = stored_codes(format);
  for (size_t col = 0; col < n_cols; col += format.chunk_cols(), out += format.chunk_bytes()) {
    for (size_t lane = 0; lane < rows.n_rows; ++lane) pack_chunk(format, stored, rows, n_cols, col, lane, out);
  }
}

void unpack_row(const PackedMatrix& w, size_t row, float* out) {
  CHECK_LT(row, w.n_rows);
  const size_t lane = row % kPanelRows;
  const std::byte* panel = w.data + row / kPanelRows * panel_bytes(w.type, w.n_cols);
  if (panel_is_f8(w.type)) {
    for (size_t k = 0; k < w.n_cols; ++k) out[k] = f8_value(w.type, panel, k, lane);
    return;
  }
  if (panel_is_float(w.type)) {
    for (size_t k = 0; k < w.n_cols; ++k) out[k] = plain_value(w.type, panel, k * kPanelRows + lane);
    return;
  }
  const PanelFormat format = panel_format(w.type);
  for (size_t col = 0; col < w.n_cols; ++col) {
    const std::byte* chunk = panel + col / format.chunk_cols() * format.chunk_bytes();
    const size_t group = col % format.chunk_cols() / format.group;
    const int code = load_code(format, chunk + format.codes_at(), col % format.chunk_cols(), lane);
    const float product = panel_scale(format, chunk, group, lane) * static_cast<float>(code);
    out[col] = format.has_mins ? product + panel_min(format, chunk, group, lane) : product;
  }
}

}  // namespace ibid
