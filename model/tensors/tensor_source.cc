#include "model/tensors/tensor_source.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/text.h"
#include "model/tensors/tensor_table.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

using enum TensorRole;

// Returns all spellings of a role in files of one container, in order of preference.
std::string_view spellings(bool gguf, std::span<const TensorName> names, TensorRole role) {
  for (const TensorName& name : names) {
    const char* own = gguf ? name.gguf : name.hf;
    if (name.role == role && *own != '\0') return own;
  }
  return gguf ? tensor_row(role).gguf : tensor_row(role).hf;
}

std::string_view spellings(const ModelFile& file, const ModelConfig& config, TensorRole role) {
  return spellings(file.container() == Container::kGguf, config.tensor_names, role);
}

std::string fill_in(std::string_view spelling, std::string_view prefix, size_t layer, size_t copy) {
  std::string name;
  for (const char c : spelling) {
    if (c == '#') {
      name += std::to_string(layer);
    } else if (c == '%') {
      name += std::to_string(copy);
    } else if (c == '@') {
      name += prefix;
    } else {
      name += c;
    }
  }
  return name;
}

struct Found {
  std::string name;
  std::string spelling;  // the spelling with '%', if each head's part is a tensor of its own
  const TensorView* tensor = nullptr;
  bool all_copies = false;
};

// Finds the tensor of a role. If the file does not have it, the result has the first spelling.
Found find(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer, size_t copy) {
  Found found;
  for_each_piece(spellings(file, config, role), '|', [&](std::string_view spelling) {
    std::string name = fill_in(spelling, config.name_prefix, layer, copy);
    found.tensor = file.find_tensor(name);
    const bool several = tensor_row(role).copies != Copies::kNone;
    const bool numbered = spelling.find('%') != std::string_view::npos;
    found.all_copies = several && !numbered;
    found.spelling = !several && numbered ? std::string(spelling) : "";
    if (found.tensor != nullptr || found.name.empty()) found.name = std::move(name);
    return found.tensor != nullptr;
  });
  return found;
}

// True if the shapes are equal except for dimensions of 1, which files may omit.
bool same_but_for_ones(const Shape& a, const Shape& b) {
  const auto without_ones = [](const Shape& shape) {
    Shape rest;
    for (size_t i = 0; i < shape.rank; ++i) {
      if (shape[i] != 1) rest.dims[rest.rank++] = shape[i];
    }
    return rest;
  };
  return without_ones(a) == without_ones(b);
}

Status check(const ModelFile& file, const Found& found, const Shape& wanted) {
  const TensorView& tensor = *found.tensor;
  if (!same_but_for_ones(tensor.shape, wanted)) {
    return {ErrorCode::kBadShape, file.path() + ": tensor " + found.name + " is " + tensor.shape.to_string() +
                                      ", expected " + wanted.to_string()};
  }
  if (!can_dequantize(tensor.dtype)) {
    return {ErrorCode::kUnsupported, file.path() + ": tensor " + found.name + " has type " +
                                         std::string(dtype_name(tensor.dtype)) +
                                         ", which is not supported for weights"};
  }
  return {};
}

// Returns an error if `wanted` has rows of another width than the tensor, because rows that a RowSource produces cannot
// be split.
Status check_made_rows(const ModelFile& file, const Found& found, const Shape& wanted) {
  const Shape& own = found.tensor->shape;
  if (found.tensor->source == nullptr) return {};
  if (own.rank > 0 && own[own.rank - 1] == wanted[wanted.rank - 1]) return {};
  return {ErrorCode::kBadShape, file.path() + ": tensor " + found.name + " of type " +
                                    std::string(dtype_name(found.tensor->dtype)) + " is " + own.to_string() +
                                    ", expected " + wanted.to_string() + ": rows of this type cannot be reshaped"};
}

// Returns the shape that the tensor in the file must have. n_copies: number of copies that the tensor contains; 0: one,
// without a dimension for copies.
Shape wanted_shape(const TensorRow& row, const TensorSource& source, size_t file_rows, size_t n_copies) {
  Shape shape;
  if (n_copies > 0) shape.dims[shape.rank++] = n_copies;
  const bool transposed = source.transposed;
  shape.dims[shape.rank++] = transposed ? source.n_cols : file_rows;
  if (row.is_matrix()) shape.dims[shape.rank++] = transposed ? file_rows : source.n_cols;
  return shape;
}

// Returns the part of one copy, for example of one expert, from the tensor that holds all copies.
TensorView of_copy(const TensorView& all, const Shape& shape, size_t copy) {
  if (all.source != nullptr) {
    const uint64_t n_rows = shape.rank == 2 ? 1 : shape[1];
    return all.row_range(copy * n_rows, n_rows);
  }
  TensorView one = all;
  one.shape = Shape{{shape[1], shape[2]}, shape.rank - 1};
  const size_t bytes = all.data.size() / shape[0];
  one.data = all.data.subspan(copy * bytes, bytes);
  return one;
}

}  // namespace

// Returns the order of the rows of `row` in its fused tensor, whose parts are stored in the order of the tensor table.
RowOrder order_in_fused(const ModelConfig& config, const TensorRow& row, size_t layer) {
  if (const std::optional<RowOrder> order = recurrent_part_order(config, row)) return *order;
  const bool is_query = row.role == kWq || row.role == kBq;
  if (config.gate_beside_query && (is_query || row.part_of == kWqGate || row.part_of == kBqGate)) {
    const size_t head_dim = config.layers[layer].head_dim;
    return {.first = is_query ? 0 : head_dim, .block = head_dim, .stride = 2 * head_dim};
  }
  size_t first = 0;
  for (const TensorRow& other : tensor_table()) {
    if (other.role == row.role) break;
    if (other.part_of == row.part_of && other.role != row.part_of) first += other.rows(config, layer);
  }
  const bool of_expert = row.part_of == kExpertGateUp || row.part_of == kBExpertGateUp;
  if (of_expert && config.experts_interleaved) return {.first = first == 0 ? size_t{0} : 1, .block = 1, .stride = 2};
  const bool heads_are_grouped = row.part_of == kWqkv || row.part_of == kBqkv;
  if (!heads_are_grouped || !config.qkv_by_group) return {.first = first};
  const size_t n_groups = config.layers[layer].n_kv_heads;
  return {.first = first / n_groups,
          .block = row.rows(config, layer) / n_groups,
          .stride = tensor_row(row.part_of).rows(config, layer) / n_groups};
}

namespace {

// Finds the parts of a vector that is stored as one tensor per head.
Status find_parts(const ModelFile& file, const ModelConfig& config, const Found& found, size_t layer,
                  TensorSource& source) {
  const size_t head_dim = config.layers[layer].head_dim;
  for (size_t head = 0; head < source.n_rows / head_dim; ++head) {
    Found part{fill_in(found.spelling, config.name_prefix, layer, head), "", nullptr, false};
    part.tensor = file.find_tensor(part.name);
    if (part.tensor == nullptr) {
      return {ErrorCode::kMissingTensor, file.path() + ": tensor " + part.name + " is missing"};
    }
    TRY(check(file, part, Shape{{head_dim}, 1}));
    source.parts.push_back(*part.tensor);
  }
  source.name = found.name;
  source.tensor = source.parts.front();
  return {};
}

// If a part is consecutive rows of a matrix, reduces source.tensor to a view of these rows.
void cut(TensorSource& source) {
  if (source.transposed || source.order.block != 0 || source.tensor.shape.rank != 2) return;
  source.tensor = source.tensor.row_range(source.order.first, source.n_rows);
  source.order.first = 0;
}

}  // namespace

std::string tensor_name(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer, size_t copy) {
  const std::string_view all = spellings(file, config, role);
  return fill_in(all.substr(0, all.find('|')), config.name_prefix, layer, copy);
}

std::vector<std::string> gguf_names(std::span<const TensorName> names, TensorRole role, size_t layer) {
  std::vector<std::string> all;
  for_each_piece(spellings(true, names, role), '|', [&](std::string_view spelling) {
    all.push_back(fill_in(spelling, "", layer, 0));
    return false;
  });
  return all;
}

namespace {

// Returns the role of the fused tensor that may contain the row's tensor; otherwise the row's own role.
TensorRole fused_role(const ModelConfig& config, const TensorRow& row) {
  if (row.role == kWq && config.gate_beside_query) return kWqGate;
  if (row.role == kBq && config.gate_beside_query) return kBqGate;
  return row.part_of == kBqGate && !config.gate_beside_query ? row.role : row.part_of;
}

// True if an adapter belongs to the block whose weights the layer stores.
bool is_of_block(const ModelConfig& config, size_t layer, size_t adapter) {
  return adapter % config.common.n_blocks == config.layers[layer].adapter % config.common.n_blocks;
}

// True for the weight of a recurrent layer's norm that is stored as a matrix, with one row for each normed part.
bool is_by_part(const ModelConfig& config, const TensorRow& row, const TensorView& tensor) {
  return row.role == kMixNorm && !config.recurrent.norm_is_shared && tensor.shape.rank == 2;
}

// True if the file may have a separate tensor for this role. False if the model's files store the role only as a part
// of a fused tensor. A tensor with a name of the role then has another role: it is, for example, the value projection
// of attention, in a layer that also has a recurrent mixer.
bool may_stand_alone(const ModelConfig& config, const TensorRow& row) {
  if (row.role == kWq || row.role == kBq) return !config.gate_beside_query;
  const FusedInputs fused = config.recurrent.fused;
  const bool always_fused = fused == FusedInputs::kZvkq || fused == FusedInputs::kVz || fused == FusedInputs::kKqv;
  return row.part_of != kMixIn || !always_fused;
}

// True if the file has the tensor as [in, out]. Published checkpoints store experts as [in, out], but those saved by
// transformers 5 may have [out, in]. So the shape decides; square experts count as [in, out].
bool is_transposed(const ModelConfig& config, const TensorRow& row, const TensorView& tensor, size_t n_rows,
                   size_t n_cols) {
  if (!row.is_matrix() || !row.per_layer()) return false;
  if (row.copies != Copies::kExperts) return config.transposed;
  if (!config.experts_transposed || !dtype_is_float(tensor.dtype)) return false;
  const bool is_upright = tensor.shape.rank == 3 && tensor.shape[1] == n_rows && tensor.shape[2] == n_cols;
  return !is_upright || n_rows == n_cols;
}

}  // namespace

Result<TensorSource> find_source(const ModelFile& file, const ModelConfig& config, const TensorRow& row, size_t layer,
                                 size_t copy) {
  const Presence presence = row.presence(config, layer);
  if (presence == Presence::kNo) return TensorSource();
  if (row.copies == Copies::kAdapters && !is_of_block(config, layer, copy)) return TensorSource();
  TensorSource source;
  source.n_rows = row.rows(config, layer);
  source.n_cols = row.is_matrix() ? row.cols(config, layer) : 1;

  Found found = may_stand_alone(config, row) ? find(file, config, row.role, layer, copy) : Found();
  size_t file_rows = source.n_rows;
  // GGUF uses one name for up and for fused gate|up: the tensor is fused if the file has no gate.
  const bool own = found.tensor != nullptr &&
                   (row.role != kWUp || !config.gated || find(file, config, kWGate, layer, 0).tensor != nullptr);
  const TensorRole part_of = fused_role(config, row);
  if (!own && part_of != row.role) {
    Found fused = find(file, config, part_of, layer, copy);
    if (fused.tensor != nullptr) {
      const size_t fused_rows = tensor_row(part_of).rows(config, layer);
      const RowOrder order = order_in_fused(config, row, layer);
      // A fused tensor may lack a part: q|k|v has no gates.
      if (source.n_rows == 0 || order.source_row(source.n_rows - 1) < fused_rows) {
        found = std::move(fused);
        file_rows = fused_rows;
        source.order = order;
        source.of_fused = true;
      }
    }
  }
  if (found.tensor == nullptr) {
    if (found.name.empty()) found.name = tensor_name(file, config, row.part_of, layer, copy);
    if (presence == Presence::kMay) return TensorSource();
    return Status(ErrorCode::kMissingTensor, file.path() + ": tensor " + found.name + " is missing");
  }
  source.transposed = is_transposed(config, row, *found.tensor, file_rows, source.n_cols);
  if (!found.spelling.empty()) {
    TRY(find_parts(file, config, found, layer, source));
    return source;
  }
  const Shape wanted = wanted_shape(row, source, file_rows, found.all_copies ? n_copies(row, config, layer) : 0);
  // One weight per head may be stored as a matrix with a row for each head.
  const bool by_head = config.qk_norm == QkNorm::kEachHead && (row.role == kQNorm || row.role == kKNorm);
  const size_t head_dim = config.layers[layer].head_dim;
  const size_t n_parts = config.recurrent.norm_parts;
  const Shape by_part{{n_parts, source.n_rows / n_parts}, 2};
  const Shape usual = by_head ? Shape{{source.n_rows / head_dim, head_dim}, 2} : wanted;
  TRY(check(file, found, is_by_part(config, row, *found.tensor) ? by_part : usual));
  if (source.transposed && (!dtype_is_float(found.tensor->dtype) || found.tensor->source != nullptr)) {
    return Status(ErrorCode::kUnsupported, file.path() + ": tensor " + found.name + " is [in, out] and of type " +
                                               std::string(dtype_name(found.tensor->dtype)) +
                                               ", expected floats: quantised [in, out] weights cannot be transposed");
  }
  TRY(check_made_rows(file, found, wanted));
  source.name = std::move(found.name);
  source.tensor = *found.tensor;
  source.tensor.shape = wanted;
  if (found.all_copies) source.tensor = of_copy(source.tensor, wanted, copy);
  cut(source);
  if (row.is_rotated() && config.adjacent_pairs) {
    const LayerConfig& of_layer = config.layers[layer];
    source.order.head_dim = of_layer.head_dim;
    const size_t rope = of_layer.rope == kNoRope ? 0 : of_layer.rope;
    // If no rope defines the rotated share, converters permute whole heads.
    source.order.rotary_dim = config.ropes.empty() ? of_layer.head_dim : config.ropes[rope].rotary_dim;
  }
  if (config.recurrent.tiled_heads && !config.recurrent.tiled_in_file) source.tiles = tiled_heads(config, row.role);
  return source;
}

}  // namespace ibid
