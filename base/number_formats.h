// The registry of number formats: one row for each DType, from which names, sizes, GGUF's numbers, decoding and the
// choice of a panel (kernels/layout/panel.h) follow. A new type is a row here, a decoder (weights/block_formats.h)
// and, where no panel holds its codes and scales as they are, a panel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/dtype.h"

namespace ibid {

// How the scale of a group is stored.
enum class ScaleKind : uint8_t {
  kNone,          // no codes: a float or a plain number
  kHalf,          // exactly a half
  kBfloat,        // exactly a bfloat: a power of two
  kHalfByCode,    // a half of the block by an int8 of the group, exact in float
  kEighthByCode,  // the same by 1/8
};

// The values of codes of four bits, where they are not consecutive integers. The values are integers: halves and
// eighths of a file's format are moved to the scale.
enum class CodeTable : uint8_t {
  kNumbers,  // none: codes are the numbers themselves
  kFp4,      // E2M1, doubled: 0 1 2 3 4 6 8 12 and their negatives
  kIq4,      // IQ4_NL's uneven steps
  kIq3s,     // the odd numbers to 15, doubled
  kIq3xxs,   // 4 12 20 28 36 44 52 62 and their negatives
  kIq2,      // 8 25 43 and their negatives
  kIq1,      // 1 7 9 and their negatives
};
inline constexpr size_t kCodeTableSize = 16;

// By stored code; unused codes repeat the last value. REQUIRES: not kNumbers.
std::span<const int8_t, kCodeTableSize> code_values(CodeTable table);

// How the codes of a quantised type are grouped along a row. Codes are given without their offset where the type is
// symmetric (Q4_0: -8..7), as stored where it has mins (Q4_1: 0..15), and by value where there is a table.
struct QuantLayout {
  size_t group_size = 0;
  bool has_mins = false;
  int min_code = 0, max_code = 0;
  ScaleKind scales = ScaleKind::kNone;
  CodeTable table = CodeTable::kNumbers;
};

struct NumberFormat {
  DType dtype;
  std::string_view name;
  int gguf_number;     // enum ggml_type; -1: GGUF has no such tensors
  BlockSize block;
  QuantLayout layout;  // quantised types
};

const NumberFormat& number_format(DType dtype);
std::span<const NumberFormat> all_number_formats();

// REQUIRES: dtype_is_quantized(dtype).
QuantLayout quant_layout(DType dtype);

}  // namespace ibid
