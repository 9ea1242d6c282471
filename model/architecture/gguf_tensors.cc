#include "model/architecture/gguf_tensors.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "model/architecture/rope_rules.h"
#include "model/weights/tensor_source.h"
#include "weights/block_formats.h"
#include "weights/gguf_format.h"

namespace ibid {

namespace {

using enum TensorRole;

// Row i of a tensor whose heads are in adjacent pairs is row order[i % order.size()] of its head here, where
// they are halves. Empty: rows stand as they are here.
std::vector<size_t> rows_of_pairs(const ModelConfig& config) {
  std::vector<size_t> order(config.layers.front().head_dim);
  const size_t rotary_dim = config.ropes.empty() ? 0 : config.ropes.front().rotary_dim;
  const RowOrder halves = RowOrder::halves_of_pairs(config.layers.front().head_dim, rotary_dim);
  for (size_t i = 0; i < order.size(); ++i) order[halves.source_row(i)] = i;
  return order;
}

// A part of a tensor that is written: rows of one place in the checkpoint.
class Part {
 public:
  Part(TensorSource source, std::vector<size_t> heads)
      : source_(std::move(source)), heads_(std::move(heads)) {}
  // Row 0 of the source, n times.
  static Part repeated(TensorSource source, size_t n) {
    source.n_rows = n;
    Part part(std::move(source), {});
    part.is_repeated_ = true;
    return part;
  }

  const TensorSource& source() const { return source_; }

  // The row of the checkpoint's tensor (its column where that is transposed).
  size_t source_row(size_t row) const {
    if (is_repeated_) row = 0;
    if (!heads_.empty()) row = row / heads_.size() * heads_.size() + heads_[row % heads_.size()];
    return source_.order.source_row(row);
  }

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const {
    const TensorView& tensor = source_.tensor;
    const BlockSize block = dtype_block(tensor.dtype);
    const size_t row_bytes = source_.n_cols / block.values * block.bytes;
    std::vector<uint64_t> from;
    for (const uint64_t row : rows) from.push_back(source_row(row));
    if (tensor.source != nullptr) {
      for (uint64_t& row : from) row += tensor.first_row;
      return tensor.source->read_rows(from, out);
    }
    if (!source_.transposed) {
      for (size_t i = 0; i < from.size(); ++i) {
        std::memcpy(out + i * row_bytes, &tensor.data[from[i] * row_bytes], row_bytes);
      }
      return;
    }
    // Column by column of what is written: the rows that are asked for stand side by side in the checkpoint.
    const size_t stride = tensor.row_bytes();
    for (size_t c = 0; c < source_.n_cols; ++c) {
      for (size_t i = 0; i < from.size(); ++i) {
        std::memcpy(out + i * row_bytes + c * block.bytes, &tensor.data[c * stride + from[i] * block.bytes],
                    block.bytes);
      }
    }
  }

 private:
  TensorSource source_;
  std::vector<size_t> heads_;
  bool is_repeated_ = false;
};

// The rows of several parts, one behind the other.
class PartRows : public RowSource {
 public:
  void add(Part part) {
    ends_.push_back(n_rows() + part.source().n_rows);
    parts_.push_back(std::move(part));
  }
  uint64_t n_rows() const { return ends_.empty() ? 0 : ends_.back(); }

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    std::vector<uint64_t> within;
    for (size_t i = 0; i < rows.size();) {
      const auto p = static_cast<size_t>(std::ranges::upper_bound(ends_, rows[i]) - ends_.begin());
      const uint64_t begin = p == 0 ? 0 : ends_[p - 1];
      within.clear();
      for (; i < rows.size() && rows[i] >= begin && rows[i] < ends_[p]; ++i)
        within.push_back(rows[i] - begin);
      parts_[p].read_rows(within, out);
      const TensorSource& source = parts_[p].source();
      const BlockSize block = dtype_block(source.tensor.dtype);
      out += within.size() * (source.n_cols / block.values * block.bytes);
    }
  }

  std::vector<std::span<const std::byte>> parts() const override {
    std::vector<std::span<const std::byte>> all;
    for (const Part& part : parts_) {
      const TensorView& tensor = part.source().tensor;
      if (tensor.source == nullptr) {
        all.push_back(tensor.data);
      } else {
        std::ranges::copy(tensor.source->parts(), std::back_inserter(all));
      }
    }
    return all;
  }

 private:
  std::vector<Part> parts_;
  std::vector<uint64_t> ends_;
};

class Lister {
 public:
  Lister(const ModelFile& file, const ModelConfig& config, const Architecture& to)
      : file_(file), config_(config), unread_(config), to_(to) {
    if (is_in(to.adjacent_pairs, true)) heads_ = rows_of_pairs(config);
    for (LayerConfig& layer : unread_.layers) layer.writes_kv = true;
  }

  Result<std::vector<GgufTensor>> list() {
    TRY(add_roles(false, 0));
    add_rope_factors();
    for (size_t l = 0; l < config_.n_layers; ++l) TRY(add_roles(true, l));
    return std::move(tensors_);
  }

 private:
  Status add_roles(bool per_layer, size_t layer) {
    for (const TensorRow& row : tensor_table()) {
      const bool is_part = !std::holds_alternative<std::monostate>(row.place);
      if (!is_part || row.per_layer() != per_layer || (row.role == kLmHead && config_.tied)) continue;
      for (size_t copy = 0; copy < n_copies(row, config_, layer); ++copy) {
        const ModelConfig& config = is_unread(row, layer) ? unread_ : config_;
        TRY_ASSIGN(TensorSource source, find_source(file_, config, row, layer, copy));
        if (source.found()) TRY(add(row, layer, std::move(source)));
      }
    }
    return {};
  }

  // A layer that reads the keys and values of another may have matrices for its own all the same: llama.cpp wants
  // those of Gemma 3n to be there.
  bool is_unread(const TensorRow& row, size_t layer) const {
    const bool of_kv = row.role == kWk || row.role == kWv || row.role == kKNorm;
    return of_kv && !config_.layers[layer].writes_kv &&
           file_.find_tensor(tensor_name(file_, config_, row.role, layer)) != nullptr;
  }

  // The tensors that llama.cpp's converters keep fused.
  bool stays_fused(const TensorRow& row, const TensorSource& source) const {
    if (!source.of_fused) return false;
    return row.part_of == kWqkv || row.part_of == kBqkv ||
           (row.part_of == kWGateUp && !to_.gguf_cuts_gate_up);
  }

  // The first spelling, but one that another role of the table has where the model lacks that role: Falcon's
  // one norm is not called the second.
  Result<std::string> name_of(TensorRole role, size_t layer) const {
    const std::vector<std::string> names = gguf_names(to_.names, role, layer);
    for (const TensorName& other : to_.names) {
      if (names.size() < 2 || other.role == role || *other.gguf == '\0') continue;
      const std::string name = gguf_names(to_.names, other.role, layer).front();
      if (std::ranges::find(names, name) == names.end()) continue;
      TRY_ASSIGN(const TensorSource source, find_source(file_, config_, tensor_row(other.role), layer));
      if (!source.found()) return name;
    }
    return names.front();
  }

  Status add(const TensorRow& row, size_t layer, TensorSource source) {
    TRY_ASSIGN(const std::string name, name_of(stays_fused(row, source) ? row.part_of : row.role, layer));
    if (tensors_.empty() || tensors_.back().name != name) {
      tensors_.emplace_back();
      tensors_.back().name = name;
    }
    GgufTensor& tensor = tensors_.back();
    std::vector<size_t> heads = row.is_rotated() ? heads_ : std::vector<size_t>();
    // A matrix of one row is a vector to llama.cpp.
    if (row.is_matrix() && row.role != kSharedRouter) {
      return add_matrix(row, Part(std::move(source), std::move(heads)), tensor);
    }
    return add_vector(row, layer, Part(std::move(source), std::move(heads)), tensor);
  }

  Status add_matrix(const TensorRow& row, Part part, GgufTensor& tensor) {
    const TensorSource source = part.source();
    if (tensor.rows == nullptr) tensor.rows = std::make_unique<PartRows>();
    auto& rows = static_cast<PartRows&>(*tensor.rows);
    if (rows.n_rows() != 0 && tensor.view.dtype != source.tensor.dtype) {
      return {ErrorCode::kUnsupported, file_.path() + ": tensor " + source.name + " has type " +
                                           std::string(dtype_name(source.tensor.dtype)) + ", others of " +
                                           tensor.name + " have " +
                                           std::string(dtype_name(tensor.view.dtype))};
    }
    rows.add(std::move(part));
    // Ids behind the rows of layer inputs count as 0 (model/forward/layer_inputs.h); llama.cpp wants a row for each.
    if (row.role == kLayerEmbed && rows.n_rows() < config_.vocab_size) {
      rows.add(Part::repeated(source, config_.vocab_size - source.n_rows));
    }
    tensor.view.dtype = source.tensor.dtype;
    tensor.view.source = tensor.rows.get();
    tensor.view.shape = Shape{{rows.n_rows(), source.n_cols}, 2};
    if (row.copies != Copies::kOne) {
      tensor.view.shape = Shape{{rows.n_rows() / source.n_rows, source.n_rows, source.n_cols}, 3};
    }
    const bool is_float = row.role == kRouter || row.role == kPositions || row.role == kAltUpPredict ||
                          row.role == kAltUpCorrect;
    const bool has_type = gguf_tensor_type_number(source.tensor.dtype).has_value();
    tensor.dtype = is_float || !has_type ? DType::kF32 : source.tensor.dtype;
    return {};
  }

  Status add_vector(const TensorRow& row, size_t layer, const Part& part, GgufTensor& tensor) {
    const TensorSource& source = part.source();
    std::vector<float> stored;
    for (const TensorView& of_head : source.parts.empty() ? std::vector{source.tensor} : source.parts) {
      const size_t filled = stored.size();
      stored.resize(filled + of_head.shape.elements());
      dequantize_row(of_head.dtype, of_head.data, std::span(stored).subspan(filled));
    }
    const size_t n = row.is_matrix() ? source.n_cols : source.n_rows;
    const float missing = row.is_norm() && config_.norms_minus_one ? 1.0f : 0.0f;
    for (size_t i = 0; i < n; ++i) {
      const float value = stored[row.is_matrix() ? i : part.source_row(i)] + missing;
      if (!std::isfinite(value)) {
        return {ErrorCode::kNonFinite, file_.path() + ": tensor " + source.name +
                                           " holds a value that is not finite at " + std::to_string(i)};
      }
      tensor.values.push_back(value);
    }
    const bool by_head = config_.qk_norm == QkNorm::kEachHead && (row.role == kQNorm || row.role == kKNorm);
    const size_t width = by_head ? config_.layers[layer].head_dim : n;
    set_values(tensor, row.copies != Copies::kOne || by_head ? Shape{{tensor.values.size() / width, width}, 2}
                                                             : Shape{{tensor.values.size()}, 1});
    return {};
  }

  static void set_values(GgufTensor& tensor, const Shape& shape) {
    tensor.view.shape = shape;
    tensor.view.data = std::as_bytes(std::span(tensor.values));
  }

  void add_rope_factors() {
    if (config_.ropes.empty()) return;
    const RopeRule& rule = config_.ropes.front();
    const bool longrope = rule.kind == RopeRule::Kind::kLongrope;
    const auto add_factors = [&](const char* name, const std::vector<float>& factors) {
      if (factors.empty()) return;
      GgufTensor& tensor = tensors_.emplace_back();
      tensor.name = name;
      tensor.values = factors;
      set_values(tensor, Shape{{factors.size()}, 1});
    };
    std::vector<float> turning(rule.n_turning, 1.0f);
    if (rule.n_turning != 0) turning.resize(rule.rotary_dim / 2, kUnturned);
    add_factors(longrope ? kLongRopeFactors : kRopeFactors,
                rule.n_turning != 0 ? turning : rule.frequency_factors);
    add_factors(kShortRopeFactors, rule.short_factors);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  ModelConfig unread_;  // with keys and values of all layers
  const Architecture& to_;
  std::vector<size_t> heads_;
  std::vector<GgufTensor> tensors_;  // moving one moves neither its rows nor its values
};

}  // namespace

Result<std::vector<GgufTensor>> gguf_tensors(const ModelFile& file, const ModelConfig& config,
                                             const Architecture& to) {
  return Lister(file, config, to).list();
}

}  // namespace ibid
