#include "weights/assembled_tensors.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/text.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

constexpr size_t kGroup = 32;  // number of values of a group of Q4_0 and Q5_0
constexpr uint64_t kPerWord = 8;
constexpr int kMiddle = 8;  // zero point of a symmetric matrix, which stores none

uint32_t word_at(const TensorView& tensor, uint64_t index) {
  uint32_t word = 0;
  std::memcpy(&word, tensor.data.data() + 4 * index, sizeof word);
  return word;
}

// Returns element `index` of a row of packed words. AWQ stores elements of even index in the lower half of a word,
// elements of odd index in the upper half.
int nibble_of(uint32_t word, uint64_t index, Int4Packing packing) {
  const uint64_t i = index % kPerWord;
  const uint64_t place = packing == Int4Packing::kAwq ? i / 2 + i % 2 * 4 : i;
  return static_cast<int>(word >> (4 * place) & 15u);
}

struct Layout {
  Int4Packing packing;
  uint64_t n_in = 0, n_out = 0, n_groups = 0, group = 0;
  int zero_point_correction = 0;          // 1 if each stored zero point is one too small (GPTQ's first version), else 0
  std::vector<uint32_t> group_of_column;  // group of each column (g_idx); empty: columns are in the order of the groups
};

class PackedInt4Rows : public RowSource {
 public:
  PackedInt4Rows(const Int4Parts& parts, Layout layout, DType presented)
      : words_(*parts.words), scales_(*parts.scales), layout_(std::move(layout)), presented_(presented) {
    if (parts.zeros != nullptr) zeros_ = *parts.zeros;
  }

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    std::vector<int8_t> codes(layout_.n_in);
    std::vector<float> scales(layout_.n_groups);
    std::vector<int> zeros(layout_.n_groups);
    for (const uint64_t row : rows) {
      for (uint64_t g = 0; g < layout_.n_groups; ++g) {
        scales[g] = scale(row, g);
        zeros[g] = zero(row, g);
      }
      for (uint64_t k = 0; k < layout_.n_in; ++k) {
        codes[k] = static_cast<int8_t>(integer(row, k) - zeros[group_of(k)]);
      }
      out = presented_ == DType::kF32 ? write_floats(codes, scales, out) : write_blocks(codes, scales, out);
    }
  }

  std::vector<std::span<const std::byte>> parts() const override { return {words_.data, scales_.data, zeros_.data}; }

 private:
  uint64_t group_of(uint64_t column) const {
    return layout_.group_of_column.empty() ? column / layout_.group : layout_.group_of_column[column];
  }

  int integer(uint64_t row, uint64_t k) const {
    switch (layout_.packing) {
      case Int4Packing::kGptq:
        return nibble_of(word_at(words_, k / kPerWord * layout_.n_out + row), k, layout_.packing);
      case Int4Packing::kAwq:
        return nibble_of(word_at(words_, k * (layout_.n_out / kPerWord) + row / kPerWord), row, layout_.packing);
      case Int4Packing::kCompressed:
        return nibble_of(word_at(words_, row * (layout_.n_in / kPerWord) + k / kPerWord), k, layout_.packing);
    }
    return 0;
  }

  int zero(uint64_t row, uint64_t group) const {
    if (zeros_.data.empty()) return kMiddle;
    const bool compressed = layout_.packing == Int4Packing::kCompressed;
    const uint64_t index =
        compressed ? row / kPerWord * layout_.n_groups + group : group * (layout_.n_out / kPerWord) + row / kPerWord;
    return (nibble_of(word_at(zeros_, index), row, layout_.packing) + layout_.zero_point_correction) & 15;
  }

  float scale(uint64_t row, uint64_t group) const {
    const bool compressed = layout_.packing == Int4Packing::kCompressed;
    const uint64_t index = compressed ? row * layout_.n_groups + group : group * layout_.n_out + row;
    const size_t size = dtype_block(scales_.dtype).bytes;
    float value = 0;
    dequantize_row(scales_.dtype, scales_.data.subspan(index * size, size), {&value, 1});
    return value;
  }

  std::byte* write_floats(const std::vector<int8_t>& codes, const std::vector<float>& scales, std::byte* out) const {
    for (uint64_t k = 0; k < codes.size(); ++k, out += sizeof(float)) {
      const float value = scales[group_of(k)] * static_cast<float>(codes[k]);
      std::memcpy(out, &value, sizeof value);
    }
    return out;
  }

  // Writes blocks of Q4_0 or Q5_0 (weights/block_formats.h).
  std::byte* write_blocks(const std::vector<int8_t>& codes, const std::vector<float>& scales, std::byte* out) const {
    const bool fifth = presented_ == DType::kQ5_0;
    const int offset = fifth ? 16 : 8;
    for (uint64_t k = 0; k < codes.size(); k += kGroup) {
      const uint16_t d = float_to_fp16(scales[group_of(k)]);
      uint32_t high = 0;
      std::array<uint8_t, kGroup / 2> low{};
      for (size_t i = 0; i < kGroup; ++i) {
        const auto stored = static_cast<unsigned>(codes[k + i] + offset);
        high |= (stored >> 4) << i;
        low[i % 16] = static_cast<uint8_t>(low[i % 16] | (stored & 15u) << (i < 16 ? 0 : 4));
      }
      std::memcpy(out, &d, sizeof d);
      out += sizeof d;
      if (fifth) std::memcpy(out, &high, sizeof high);
      out += fifth ? sizeof high : 0;
      std::memcpy(out, low.data(), low.size());
      out += low.size();
    }
    return out;
  }

  TensorView words_, zeros_, scales_;
  Layout layout_;
  DType presented_;
};

// Checks the parts of one matrix for consistency.
class Int4Checker {
 public:
  Int4Checker(const std::string& name, Int4Packing packing, const Int4Parts& parts, const QuantizationConfig& config,
              std::string_view path)
      : parts_(parts), field_(std::string(path) + ": tensor " + in_quotes(name)) {
    layout_.packing = packing;
    layout_.zero_point_correction = packing == Int4Packing::kGptq && config.zeros_minus_one ? 1 : 0;
  }

  Status check() {
    TRY(check_words());
    TRY(check_scales());
    TRY(check_zeros());
    return check_order();
  }

  DType presented() const {
    const bool whole = layout_.group % kGroup == 0 && layout_.n_in % kGroup == 0;
    if (!whole || !layout_.group_of_column.empty() || !scales_are_halves_) return DType::kF32;
    return symmetric_ ? DType::kQ4_0 : DType::kQ5_0;
  }

  Layout take_layout() { return std::move(layout_); }

 private:
  Status fail(ErrorCode code, const std::string& words) const { return {code, field_ + words}; }

  Status check_part(const TensorView* part, const char* what, bool is_type, const Shape& wanted) const {
    if (!is_type) {
      return fail(ErrorCode::kBadType,
                  std::string(" has ") + what + " of type " + std::string(dtype_name(part->dtype)));
    }
    if (part->shape == wanted) return {};
    return fail(ErrorCode::kBadShape, std::string(" has ") + what + " of shape " + part->shape.to_string() +
                                          ", expected " + wanted.to_string());
  }

  Status check_words() {
    const TensorView& words = *parts_.words;
    if (words.dtype != DType::kI32 || words.shape.rank != 2 || words.data.empty()) {
      return fail(ErrorCode::kBadShape, " has packed integers of type " + std::string(dtype_name(words.dtype)) +
                                            " and shape " + words.shape.to_string() + ", expected a matrix of I32");
    }
    const uint64_t rows = words.shape[0], cols = words.shape[1];
    switch (layout_.packing) {
      case Int4Packing::kGptq: layout_.n_in = rows * kPerWord, layout_.n_out = cols; break;
      case Int4Packing::kAwq: layout_.n_in = rows, layout_.n_out = cols * kPerWord; break;
      case Int4Packing::kCompressed: layout_.n_in = cols * kPerWord, layout_.n_out = rows; break;
    }
    return {};
  }

  Status check_scales() {
    if (parts_.scales == nullptr) return fail(ErrorCode::kMissingTensor, " has no scales");
    const TensorView& scales = *parts_.scales;
    const bool compressed = layout_.packing == Int4Packing::kCompressed;
    layout_.n_groups = scales.shape.rank == 2 ? scales.shape[compressed ? 1 : 0] : 0;
    const Shape wanted =
        compressed ? Shape{{layout_.n_out, layout_.n_groups}, 2} : Shape{{layout_.n_groups, layout_.n_out}, 2};
    TRY(check_part(&scales, "scales", dtype_is_float(scales.dtype), wanted));
    if (layout_.n_groups == 0 || layout_.n_in % layout_.n_groups != 0) {
      return fail(ErrorCode::kBadShape, " has rows of " + std::to_string(layout_.n_in) + " in " +
                                            std::to_string(layout_.n_groups) + " groups, expected equal sizes");
    }
    layout_.group = layout_.n_in / layout_.n_groups;
    return check_scale_values(scales);
  }

  Status check_scale_values(const TensorView& scales) {
    const uint64_t n = scales.shape.elements();
    const size_t size = dtype_block(scales.dtype).bytes;
    std::vector<float> some(4096);
    for (uint64_t i = 0; i < n; i += some.size()) {
      const std::span<float> part = std::span(some).first(std::min<uint64_t>(some.size(), n - i));
      dequantize_row(scales.dtype, scales.data.subspan(i * size, part.size() * size), part);
      for (const float value : part) {
        if (!std::isfinite(value)) return fail(ErrorCode::kNonFinite, " has a scale that is not finite");
        scales_are_halves_ &= fp16_to_float(float_to_fp16(value)) == value;
      }
    }
    return {};
  }

  Status check_zeros() {
    if (parts_.zeros == nullptr) {
      if (layout_.packing == Int4Packing::kCompressed) return {};
      return fail(ErrorCode::kMissingTensor, " has no zero points");
    }
    const bool compressed = layout_.packing == Int4Packing::kCompressed;
    const uint64_t out_words = (layout_.n_out + kPerWord - 1) / kPerWord;
    const Shape wanted = compressed ? Shape{{out_words, layout_.n_groups}, 2} : Shape{{layout_.n_groups, out_words}, 2};
    TRY(check_part(parts_.zeros, "zero points", parts_.zeros->dtype == DType::kI32, wanted));
    if (layout_.n_out % kPerWord != 0 && !compressed) {
      return fail(ErrorCode::kBadShape, " has " + std::to_string(layout_.n_out) + " rows, expected a multiple of 8");
    }
    const uint32_t middles = 0x88888888u - 0x11111111u * static_cast<uint32_t>(layout_.zero_point_correction);
    for (uint64_t i = 0; i < wanted.elements(); ++i) symmetric_ &= word_at(*parts_.zeros, i) == middles;
    return {};
  }

  Status check_order() {
    if (parts_.group_of_column == nullptr) return {};
    const TensorView& order = *parts_.group_of_column;
    TRY(check_part(&order, "g_idx", order.dtype == DType::kI32, Shape{{layout_.n_in}, 1}));
    std::vector<uint32_t> groups(layout_.n_in);
    bool in_order = true;
    for (uint64_t k = 0; k < layout_.n_in; ++k) {
      groups[k] = word_at(order, k);
      if (groups[k] >= layout_.n_groups) {
        return fail(ErrorCode::kBadNumber, " has g_idx " + std::to_string(static_cast<int32_t>(groups[k])) +
                                               " for column " + std::to_string(k) + ", expected 0 to " +
                                               std::to_string(layout_.n_groups - 1));
      }
      in_order &= groups[k] == k / layout_.group;
    }
    if (!in_order) layout_.group_of_column = std::move(groups);
    return {};
  }

  const Int4Parts& parts_;
  std::string field_;
  Layout layout_;
  bool symmetric_ = true, scales_are_halves_ = true;
};

}  // namespace

Result<AssembledTensor> make_int4(const std::string& name, Int4Packing packing, const Int4Parts& parts,
                                  const QuantizationConfig& config, std::string_view path) {
  Int4Checker checker(name, packing, parts, config, path);
  TRY(checker.check());
  const DType presented = checker.presented();
  Layout layout = checker.take_layout();
  AssembledTensor made;
  made.name = name;
  made.view.dtype = presented;
  made.view.shape = Shape{{layout.n_out, layout.n_in}, 2};
  made.source = std::make_unique<PackedInt4Rows>(parts, std::move(layout), presented);
  made.view.source = made.source.get();
  return made;
}

}  // namespace ibid
