#include "model/weights/packing_list.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "kernels/layout/pack.h"
#include "model/weights/finite_check.h"
#include "model/weights/pack_blocks.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// Size of the windows of packed memory that threads take in turn: two huge pages, large enough that two threads rarely
// share a huge page, small enough that all threads finish at about the same time.
constexpr size_t kWindowBytes = size_t{4} << 20;

size_t quotient_up(size_t a, size_t b) { return (a + b - 1) / b; }

// Copies a column of a tensor of floats to consecutive values at `out`.
const std::byte* copy_column(const TensorView& tensor, size_t column, std::byte* out) {
  const size_t value_bytes = dtype_block(tensor.dtype).bytes, row_bytes = tensor.row_bytes();
  for (size_t i = 0; i < tensor.shape[0]; ++i) {
    std::memcpy(out + i * value_bytes, &tensor.data[i * row_bytes + column * value_bytes], value_bytes);
  }
  return out;
}

// Returns the panels that begin in bytes [begin, end) of a matrix with n_panels panels.
Range panels_in(size_t begin, size_t end, size_t stride, size_t n_panels) {
  return {quotient_up(begin, stride), std::min(n_panels, quotient_up(end, stride))};
}

// Tests the 16-bit scales and mins at the start of each chunk; integer factors cannot make them infinite.
bool scales_are_finite(PanelType type, const std::byte* panel, size_t n_cols) {
  const PanelFormat format = panel_format(type);
  const size_t sides = format.has_mins ? 2 : 1;
  const size_t n = (format.super_scales() ? format.scale_codes_at() : sides * format.mins_at()) / sizeof(uint16_t);
  const uint16_t exponent = format.scales == ScaleKind::kBfloat ? 0x7f80 : 0x7c00;  // if all are set: infinite or NaN
  for (size_t col = 0; col < n_cols; col += format.chunk_cols(), panel += format.chunk_bytes()) {
    const auto* bits = reinterpret_cast<const uint16_t*>(panel);
    unsigned bad = 0;
    for (size_t i = 0; i < n; ++i) bad |= (bits[i] & exponent) == exponent;
    if (bad != 0) return false;
  }
  return true;
}

// Checks a packed panel. In blocks only a scale or a min can be infinite or NaN. The exception is MXFP4, in which a
// scale can make codes overflow.
bool packed_are_finite(DType dtype, PanelType type, std::span<const std::byte* const> rows, size_t row_bytes,
                       size_t n_cols, const std::byte* panel) {
  if (dtype_is_quantized(dtype) && dtype != DType::kMXFP4) return scales_are_finite(type, panel, n_cols);
  return std::ranges::all_of(rows, [&](const std::byte* row) { return all_finite(dtype, {row, row_bytes}); });
}

}  // namespace

void PackingList::add(std::string name, const TensorView& tensor, RowOrder order, bool transposed,
                      const PackedMatrix& packed, const TiledHeads& tiles) {
  const auto address = reinterpret_cast<uintptr_t>(packed.data);
  if (jobs_.empty()) origin_ = address / kWindowBytes * kWindowBytes;
  const size_t begin = address - origin_;
  CHECK(jobs_.empty() || begin >= jobs_.back().end);
  const size_t stride = panel_bytes(packed.type, packed.n_cols);
  jobs_.push_back(
      {std::move(name), tensor, order, transposed, packed, tiles, begin, begin + packed.n_panels() * stride, stride});
}

size_t PackingList::bytes_of_row(const Job& job) {
  const BlockSize block = dtype_block(job.tensor.dtype);
  return job.packed.n_cols * block.bytes / block.values;
}

bool PackingList::pack(const Job& job, Range panels) {
  const TensorView& tensor = job.tensor;
  const PackedMatrix& packed = job.packed;
  const size_t n_cols = packed.n_cols;
  const BlockSize block = dtype_block(tensor.dtype);
  const size_t row_bytes = bytes_of_row(job);
  const bool directly = can_pack_blocks(tensor.dtype) && packed.type == panel_type_for(tensor.dtype);
  std::vector<std::byte> made(tensor.source == nullptr ? 0 : kPanelRows * row_bytes);
  std::vector<float> floats(directly ? 0 : kPanelRows * n_cols);
  std::vector<std::byte> columns(job.transposed ? kPanelRows * row_bytes : 0);
  const HeadTiles& tiles = job.tiles.columns;
  const bool by_block = tiles.used() && tiles.width % block.values == 0;
  std::vector<std::byte> tiled(by_block ? kPanelRows * row_bytes : 0);
  std::vector<float> untiled(tiles.used() && !by_block ? n_cols : 0);
  for (size_t p = panels.begin; p < panels.end; ++p) {
    auto* out = const_cast<std::byte*>(packed.data) + p * job.panel_stride;
    const size_t first = p * kPanelRows;
    const size_t n = std::min(kPanelRows, packed.n_rows - first);
    std::array<const std::byte*, kPanelRows> rows;
    std::array<uint64_t, kPanelRows> indices;
    for (size_t r = 0; r < n; ++r) {
      const size_t source = job.order.source_row(job.tiles.rows.source(first + r));
      indices[r] = tensor.first_row + source;
      rows[r] = tensor.source != nullptr ? &made[r * row_bytes]
                : job.transposed         ? copy_column(tensor, source, &columns[r * row_bytes])
                                         : &tensor.data[source * row_bytes];
    }
    if (tensor.source != nullptr) tensor.source->read_rows(std::span(indices).first(n), made.data());
    for (size_t r = 0; by_block && r < n; ++r) {
      tiles.take_heads(rows[r], tiles.width / block.values * block.bytes, &tiled[r * row_bytes]);
      rows[r] = &tiled[r * row_bytes];
    }
    if (directly) {
      pack_blocks(tensor.dtype, std::span(rows).first(n), n_cols, out);
      if (!packed_are_finite(tensor.dtype, packed.type, {rows.data(), n}, row_bytes, n_cols, out)) return false;
      continue;
    }
    for (size_t r = 0; r < n; ++r) {
      const std::span<float> out_row = std::span(floats).subspan(r * n_cols, n_cols);
      dequantize_row(tensor.dtype, {rows[r], row_bytes}, untiled.empty() ? out_row : std::span(untiled));
      if (untiled.empty()) continue;
      tiles.take_heads(std::as_bytes(std::span(untiled)).data(), tiles.width * sizeof(float),
                       std::as_writable_bytes(out_row).data());
    }
    if (!all_finite(std::span<const float>(floats).first(n * n_cols))) return false;
    PanelRows decoded;
    decoded.n_rows = n;
    decoded.floats = std::span(floats).first(n * n_cols);
    pack_panel(PanelType::kPF, n_cols, decoded, out);
  }
  return true;
}

TensorView PackingList::rows_of(const Job& job, Range panels) {
  const size_t end = std::min(panels.end * kPanelRows, job.packed.n_rows);
  size_t first = SIZE_MAX, last = 0;
  for (size_t row = panels.begin * kPanelRows; row < end; ++row) {
    const size_t source = job.order.source_row(job.tiles.rows.source(row));
    first = std::min(first, source);
    last = std::max(last, source);
  }
  const size_t row_bytes = bytes_of_row(job);
  TensorView rows = job.tensor;
  rows.data = rows.data.subspan(first * row_bytes, (last - first + 1) * row_bytes);
  return rows;
}

Status PackingList::run(ThreadTeam& team, const std::function<void(const TensorView&)>& done) const {
  if (jobs_.empty()) return {};
  std::vector<std::atomic<size_t>> left(jobs_.size());  // number of panels of each job that are not packed yet
  for (size_t j = 0; j < jobs_.size(); ++j) left[j] = jobs_[j].packed.n_panels();
  const size_t n_windows = quotient_up(jobs_.back().end, kWindowBytes);
  std::atomic<size_t> next_window = 0, first_bad = jobs_.size();
  team.run([&](const Worker&) {
    size_t first_job = 0;  // index of the first job in this thread's window; it never decreases
    for (size_t w = next_window++; w < n_windows; w = next_window++) {
      const size_t begin = w * kWindowBytes, end = begin + kWindowBytes;
      while (first_job < jobs_.size() && jobs_[first_job].end <= begin) ++first_job;
      for (size_t j = first_job; j < jobs_.size() && jobs_[j].begin < end; ++j) {
        const Job& job = jobs_[j];
        const Range panels =
            panels_in(saturating_sub(begin, job.begin), end - job.begin, job.panel_stride, job.packed.n_panels());
        if (panels.empty()) continue;
        if (!pack(job, panels)) {
          for (size_t known = first_bad; j < known && !first_bad.compare_exchange_weak(known, j);) {
          }
        }
        const bool by_row = job.tensor.source == nullptr && !job.transposed;
        // Before `left` is reduced, so that another thread does not report the tensor first.
        if (by_row && panels.size() < job.packed.n_panels()) done(rows_of(job, panels));
        if (left[j].fetch_sub(panels.size()) == panels.size()) done(job.tensor);
      }
    }
  });
  if (first_bad == jobs_.size()) return {};
  const char* what = dtype_is_quantized(jobs_[first_bad].tensor.dtype) ? "scale" : "value";
  return {ErrorCode::kNonFinite, "tensor " + jobs_[first_bad].name + " holds a " + what + " that is not finite"};
}

}  // namespace ibid
