#include "model/weights/pack_blocks.h"

#include <cstring>
#include <vector>

#include "kernels/layout/pack.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

static_assert(kSuperChunkCols == kMaxValuesPerBlock);  // so that a chunk has one super scale

// Decoded codes and scales of up to 16 rows. The panel's groups may be smaller than the blocks' groups.
struct Decoded {
  Decoded(DType dtype, PanelFormat panel, size_t n_rows, size_t n_cols)
      : format(panel), layout(quant_layout(dtype)), codes(n_rows * n_cols) {
    const size_t groups = codes.size() / layout.group_size;
    if (has_super_scales(dtype)) {
      d.resize(codes.size() / kMaxValuesPerBlock);
      dmin.resize(layout.has_mins ? d.size() : 0);
      scale_codes.resize(groups);
      min_codes.resize(layout.has_mins ? groups : 0);
    } else {
      scales.resize(groups);
      mins.resize(layout.has_mins ? groups : 0);
    }
  }

  PanelFormat format;
  QuantLayout layout;
  std::vector<int8_t> codes, scale_codes, min_codes;
  std::vector<float> scales, mins;
  std::vector<uint16_t> d, dmin;
};

// Returns the part of `all` that belongs to row r; all parts have equal size.
template <typename T>
std::span<T> part(std::vector<T>& all, size_t r, size_t n_rows) {
  const size_t n = all.size() / n_rows;
  return std::span(all).subspan(r * n, n);
}

// Repeats each value `times` times.
template <typename T>
std::vector<T> repeated(const std::vector<T>& values, size_t times) {
  std::vector<T> out;
  out.reserve(values.size() * times);
  for (const T value : values) out.insert(out.end(), times, value);
  return out;
}

}  // namespace

void pack_decoded(DType dtype, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out) {
  const PanelType type = panel_type_for(dtype);
  const size_t n = rows.size();
  const size_t row_bytes = n_cols / dtype_block(dtype).values * dtype_block(dtype).bytes;
  Decoded decoded(dtype, panel_format(type), n, n_cols);
  for (size_t r = 0; r < n; ++r) {
    const std::span<int8_t> codes = part(decoded.codes, r, n);
    if (has_super_scales(dtype)) {
      unpack_super_row(dtype, {rows[r], row_bytes}, codes,
                       {part(decoded.d, r, n), part(decoded.dmin, r, n), part(decoded.scale_codes, r, n),
                        part(decoded.min_codes, r, n)});
    } else {
      unpack_row(dtype, {rows[r], row_bytes}, codes, part(decoded.scales, r, n), part(decoded.mins, r, n));
    }
  }
  const size_t per_group = decoded.layout.group_size / decoded.format.group;
  const std::vector<float> scales = repeated(decoded.scales, per_group), mins = repeated(decoded.mins, per_group);
  const std::vector<int8_t> scale_codes = repeated(decoded.scale_codes, per_group);
  const std::vector<int8_t> min_codes = repeated(decoded.min_codes, per_group);
  PanelRows panel;
  panel.n_rows = n;
  panel.codes = decoded.codes;
  panel.scales = scales;
  panel.mins = mins;
  panel.super_scales = decoded.d;
  panel.super_mins = decoded.dmin;
  panel.scale_codes = scale_codes;
  panel.min_codes = min_codes;
  pack_panel(type, n_cols, panel, out);
}

void pack_f8(PanelType type, std::span<const std::byte* const> rows, size_t n_cols, std::byte* out) {
  constexpr size_t kBlockBytes = sizeof(float) + kQuantBlock;
  std::vector<int8_t> codes(rows.size() * n_cols);
  std::vector<float> scales(codes.size() / kQuantBlock);
  for (size_t r = 0; r < rows.size(); ++r) {
    const std::byte* block = rows[r];
    for (size_t b = r * n_cols / kQuantBlock; b < (r + 1) * n_cols / kQuantBlock; ++b, block += kBlockBytes) {
      std::memcpy(&scales[b], block, sizeof(float));
      std::memcpy(&codes[b * kQuantBlock], block + sizeof(float), kQuantBlock);
    }
  }
  PanelRows panel;
  panel.n_rows = rows.size();
  panel.codes = codes;
  panel.scales = scales;
  pack_panel(type, n_cols, panel, out);
}

using namespace lanes;

namespace {

// Packs floats: a panel has the transposed rows. A word has one number of 32 bits, or two of 16.
template <typename T>
void pack_floats(RowCursor& rows, size_t n_cols, std::byte* out) {
  constexpr size_t kPerWord = 4 / sizeof(T);
  for (; n_cols >= 4 * kPerWord; n_cols -= 4 * kPerWord, out += sizeof(Word[4])) {
    Word words[4];
    gather<4>(rows.blocks, 0, words);
    rows.advance(sizeof(FourWords));
    if constexpr (kPerWord == 1) {
      std::memcpy(out, words, sizeof words);
    } else {
      for (size_t w = 0; w < 4; ++w) {
        store_halves(words[w], 0, out + sizeof(Word) * w);
        store_halves(words[w], 16, out + sizeof(Word) * w + sizeof(Word) / 2);
      }
    }
  }
  for (size_t col = 0; col < n_cols; ++col, out += kLanes * sizeof(T)) {
    for (size_t r = 0; r < kLanes; ++r) std::memcpy(out + r * sizeof(T), rows.blocks[r] + col * sizeof(T), sizeof(T));
  }
}

}  // namespace

void pack_float_panel(PanelType type, RowCursor& rows, size_t n_rows, size_t n_cols, std::byte* out) {
  const size_t bytes = type == PanelType::kPF ? 4 : 2;
  std::byte* end = out + kLanes * bytes * n_cols;
  if (bytes == 4) {
    pack_floats<uint32_t>(rows, n_cols, out);
  } else {
    pack_floats<uint16_t>(rows, n_cols, out);
  }
  if (n_rows < kLanes) clear_lanes(n_rows, out, end, bytes);
  std::memset(end, 0, panel_bytes(type, n_cols) - kLanes * bytes * n_cols);
}

}  // namespace ibid
