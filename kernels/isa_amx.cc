// What AMX changes of AVX-512's table: linear layers of many rows. Nothing but fill_amx() is visible outside.

// The vectors come first: the bodies are written in them.
// clang-format off
#include "kernels/vec_avx512.h"
#include "kernels/linear_amx-inl.h"
// clang-format on
#include "kernels/ref.h"

namespace ibid {

namespace avx512 {
namespace {

// Below it a tile is not full, and unpacking a panel costs more than multiplying it.
constexpr size_t kAmxMinRows = kRowGroup;

void (*linear_few_rows)(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                        std::byte* scratch);

void linear_int8(const PackedMatrix& w, const QuantizedRows& x, Range panels, float* y, size_t y_stride,
                 std::byte* scratch) {
  if (x.n_rows < kAmxMinRows) return linear_few_rows(w, x, panels, y, y_stride, scratch);
  switch (w.type) {
    case PanelType::kP4: return amx_format<P4>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP4m: return amx_format<P4m>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP4k: return amx_format<P4k>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP5: return amx_format<P5>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP5m: return amx_format<P5m>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP5k: return amx_format<P5k>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP8: return amx_format<P8>(w, x, panels, y, y_stride, scratch);
    case PanelType::kP6k: return amx_format<P6k>(w, x, panels, y, y_stride, scratch);
    case PanelType::kPH:
    case PanelType::kPB:
    case PanelType::kPF: break;  // linear_float's
  }
}

}  // namespace
}  // namespace avx512

void fill_amx(Kernels& table) {
  fill_avx512(table);
  table.name = "amx";
  avx512::linear_few_rows = table.linear_int8;
  table.linear_int8 = avx512::linear_int8;
}

}  // namespace ibid
