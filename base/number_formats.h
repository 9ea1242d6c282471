// The registry of number formats: one row per DType, which determines its name, sizes, GGUF number, decoder and panel
// format (kernels/layout/panel.h: packed weights). A new type needs a row here, a decoder (weights/block_formats.h)
// and, if no existing panel format can hold its codes and scales unchanged, a panel format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace ibid {

// How the scale of a group of values is stored.
enum class ScaleKind : uint8_t {
  kNone,          // not quantised: a float or a plain number
  kHalf,          // an FP16 number
  kBfloat,        // a BF16 number: a power of two
  kHalfByCode,    // FP16 scale of the block times an int8 of the group; the product is exact in float
  kEighthByCode,  // product as for kHalfByCode, times 1/8
};

// Tables of the values of 4-bit codes, for codes that are not consecutive integers. Values in a table are integers:
// factors 1/2 and 1/8 of the file formats are moved to the scale.
enum class CodeTable : uint8_t {
  kNoTable,  // no table: a code is its value
  kFp4,      // E2M1 values times 2: 0 1 2 3 4 6 8 12 and their negatives
  kIq4,      // the non-uniform steps of IQ4_NL
  kIq3s,     // odd numbers up to 15, times 2
  kIq3xxs,   // 4 12 20 28 36 44 52 62 and their negatives
  kIq2,      // 8 25 43 and their negatives
  kIq1,      // 1, 7, 9 and their negatives
};
inline constexpr size_t kCodeTableSize = 16;

// Returns the value of each stored code; unused codes repeat the last value. REQUIRES: table != kNoTable.
std::span<const int8_t, kCodeTableSize> code_values(CodeTable table);

// How the values of a quantised type are stored along a row. min_code and max_code are: for a symmetric type the signed
// codes (Q4_0: -8..7), for a type with mins the stored codes (Q4_1: 0..15), with a table the values.
struct QuantLayout {
  size_t group_size = 0;
  bool has_mins = false;
  int min_code = 0, max_code = 0;
  ScaleKind scales = ScaleKind::kNone;
  CodeTable table = CodeTable::kNoTable;
};

struct NumberFormat {
  DType dtype;
  std::string_view name;
  int gguf_number;  // enum ggml_type; -1: not a GGUF type
  BlockSize block;
  QuantLayout layout;  // only for quantised types
};

const NumberFormat& number_format(DType dtype);
std::span<const NumberFormat> all_number_formats();

// REQUIRES: dtype_is_quantized(dtype).
QuantLayout quant_layout(DType dtype);

}  // namespace ibid
