// Latent attention expands keys and values by one matrix. GGUF files store it as two tensors, because llama.cpp
// computes attention on the latents themselves:
//   blk.L.attn_k_b.weight  [heads, kv_rank, nope_dim]    the rows of keys, transposed
//   blk.L.attn_v_b.weight  [heads, value_dim, kv_rank]   the rows of values
// This file presents them as one tensor, blk.L.attn_kv_b.weight, [heads (nope_dim + value_dim), kv_rank]: for each head
// the rows of keys, then those of values. It has the type of both if that is F32, F16 or BF16. Otherwise it is F32,
// because the blocks of a transposed matrix are not blocks of its rows.
#include "weights/assembled_tensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/text.h"
#include "weights/block_formats.h"

namespace ibid {
namespace {

// Number of columns of keys that are decoded together if the type has no blocks: a cache line of FP16.
constexpr uint64_t kColumnsAtOnce = 32;

class ExpandingRows : public RowSource {
 public:
  // Shapes: keys [heads, kv_rank, nope_dim], values [heads, value_dim, kv_rank].
  ExpandingRows(const TensorView& keys, const TensorView& values, DType dtype)
      : keys_(keys), values_(values), dtype_(dtype) {}

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    const uint64_t nope_dim = keys_.shape[2], of_head = nope_dim + values_.shape[1];
    const size_t row_bytes = keys_.shape[1] * dtype_block(dtype_).bytes;
    const uint64_t at_once = std::max<uint64_t>(dtype_block(keys_.dtype).values, kColumnsAtOnce);
    for (size_t i = 0; i < rows.size();) {
      const uint64_t head = rows[i] / of_head, row = rows[i] % of_head;
      if (row >= nope_dim) {
        read_value(head * values_.shape[1] + row - nope_dim, out + i++ * row_bytes);
        continue;
      }
      // Read at once all following wanted rows that are in the same columns of the file.
      const uint64_t first = row / at_once * at_once, n = std::min(at_once, nope_dim - first);
      const size_t begin = i;
      const auto is_near = [&](uint64_t other) {
        return other / of_head == head && other % of_head >= first && other % of_head < first + n;
      };
      while (i < rows.size() && is_near(rows[i])) ++i;
      read_keys(head, {first, first + n}, rows.subspan(begin, i - begin), out + begin * row_bytes);
    }
  }

  std::vector<std::span<const std::byte>> parts() const override { return {keys_.data, values_.data}; }

 private:
  struct Columns {
    uint64_t begin, end;
  };

  void read_value(uint64_t row, std::byte* out) const {
    const std::span<const std::byte> bytes = values_.data.subspan(row * values_.row_bytes(), values_.row_bytes());
    if (values_.dtype == dtype_) {
      std::memcpy(out, bytes.data(), bytes.size());
      return;
    }
    std::vector<float> decoded(values_.shape[2]);
    dequantize_row(values_.dtype, bytes, decoded);
    std::memcpy(out, decoded.data(), decoded.size() * sizeof(float));
  }

  // Reads `rows` of the keys of one head. In the file each of them is a column, because keys are stored transposed.
  void read_keys(uint64_t head, Columns columns, std::span<const uint64_t> rows, std::byte* out) const {
    const uint64_t kv_rank = keys_.shape[1], of_head = keys_.shape[2] + values_.shape[1];
    const BlockSize block = dtype_block(keys_.dtype);
    const size_t skipped = columns.begin / block.values * block.bytes;
    const size_t n_bytes = (columns.end - columns.begin) / block.values * block.bytes;
    const size_t size = dtype_block(dtype_).bytes;
    std::vector<float> decoded(keys_.dtype == dtype_ ? 0 : columns.end - columns.begin);
    for (uint64_t j = 0; j < kv_rank; ++j) {
      const std::span<const std::byte> bytes =
          keys_.data.subspan((head * kv_rank + j) * keys_.row_bytes() + skipped, n_bytes);
      const std::byte* from = bytes.data();
      if (!decoded.empty()) {
        dequantize_row(keys_.dtype, bytes, decoded);
        from = reinterpret_cast<const std::byte*>(decoded.data());
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        std::memcpy(out + (r * kv_rank + j) * size, from + (rows[r] % of_head - columns.begin) * size, size);
      }
    }
  }

  TensorView keys_, values_;
  DType dtype_;
};

// Returns the view with a dimension for the heads, which files omit if there is one head.
TensorView of_heads(TensorView view) {
  if (view.shape.rank == 2) view.shape = Shape{{1, view.shape[0], view.shape[1]}, 3};
  return view;
}

Status check(const TensorView& keys, const TensorView& values, const std::string& name, std::string_view path) {
  const std::string field = std::string(path) + ": tensor " + in_quotes(name);
  for (const TensorView* tensor : {&keys, &values}) {
    if (!can_dequantize(tensor->dtype)) {
      return {ErrorCode::kUnsupported, field + " or its attn_v_b has type " + std::string(dtype_name(tensor->dtype)) +
                                           ", which is not supported for weights"};
    }
  }
  const Shape &k = keys.shape, &v = values.shape;
  if (k.rank == 3 && v.rank == 3 && k.elements() > 0 && v.elements() > 0 && k[0] == v[0] && k[1] == v[2]) return {};
  return {ErrorCode::kBadShape, field + " is " + k.to_string() + " and its attn_v_b " + v.to_string() +
                                    ", expected [heads, kv_rank, nope_dim] and [heads, value_dim, kv_rank]"};
}

}  // namespace

Result<std::vector<AssembledTensor>> make_expanding_tensors(const StoredTensors& stored) {
  constexpr std::string_view kKeys = ".attn_k_b.weight";
  constexpr std::array kAlike = {DType::kF32, DType::kF16, DType::kBF16};
  std::vector<AssembledTensor> all;
  for (const std::string& name : *stored.names) {
    if (!name.starts_with("blk.") || !name.ends_with(kKeys)) continue;
    const std::string stem = name.substr(0, name.size() - kKeys.size());
    const TensorView* stored_values = stored.find(stem + ".attn_v_b.weight");
    if (stored_values == nullptr || stored.find(stem + ".attn_kv_b.weight") != nullptr) continue;
    const TensorView keys = of_heads(*stored.find(name)), values = of_heads(*stored_values);
    TRY(check(keys, values, name, stored.path));
    const bool alike = keys.dtype == values.dtype && std::ranges::find(kAlike, keys.dtype) != kAlike.end();
    AssembledTensor made;
    made.name = stem + ".attn_kv_b.weight";
    made.view.dtype = alike ? keys.dtype : DType::kF32;
    made.view.shape = Shape{{keys.shape[0] * (keys.shape[2] + values.shape[1]), keys.shape[1]}, 2};
    made.source = std::make_unique<ExpandingRows>(keys, values, made.view.dtype);
    made.view.source = made.source.get();
    all.push_back(std::move(made));
  }
  return all;
}

}  // namespace ibid
