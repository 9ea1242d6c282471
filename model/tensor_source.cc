#include "model/tensor_source.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "weights/block_formats.h"

namespace ibid {

using enum TensorRole;

namespace {

// Every spelling of a role in files of one container, in order.
std::string_view spellings(bool gguf, std::span<const TensorName> names, TensorRole role) {
  for (const TensorName& name : names) {
    const char* own = gguf ? name.gguf : name.hf;
    if (name.role == role && *own != '\0') return own;
  }
  return gguf ? tensor_row(role).gguf : tensor_row(role).hf;
}

std::string_view spellings(const ModelFile& file, const ModelConfig& config, TensorRole role) {
  return spellings(file.container() == Container::kGguf, config.names, role);
}

std::string fill_in(std::string_view spelling, std::string_view prefix, size_t layer, size_t expert) {
  std::string name;
  for (const char c : spelling) {
    if (c == '#') {
      name += std::to_string(layer);
    } else if (c == '%') {
      name += std::to_string(expert);
    } else if (c == '@') {
      name += prefix;
    } else {
      name += c;
    }
  }
  return name;
}

// Calls visit(spelling) for each until one returns true.
template <typename Visit>
void for_each_spelling(std::string_view all, Visit&& visit) {
  for (size_t begin = 0; begin <= all.size();) {
    const size_t end = std::min(all.find('|', begin), all.size());
    if (visit(all.substr(begin, end - begin))) return;
    begin = end + 1;
  }
}

struct Found {
  std::string name;
  const TensorView* tensor = nullptr;
  bool all_experts = false;
};

// Without a tensor: the first spelling.
Found find(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer, size_t expert) {
  Found found;
  for_each_spelling(spellings(file, config, role), [&](std::string_view spelling) {
    std::string name = fill_in(spelling, config.name_prefix, layer, expert);
    found.tensor = file.find_tensor(name);
    found.all_experts = tensor_row(role).of_each_expert && spelling.find('%') == std::string_view::npos;
    if (found.tensor != nullptr || found.name.empty()) found.name = std::move(name);
    return found.tensor != nullptr;
  });
  return found;
}

// The same but for dimensions of 1, which some files have and others leave out.
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
                                      ", wanted " + wanted.to_string()};
  }
  if (!can_dequantize(tensor.dtype)) {
    return {ErrorCode::kUnsupported, file.path() + ": tensor " + found.name + " has type " +
                                         std::string(dtype_name(tensor.dtype)) +
                                         ", which is not supported for weights"};
  }
  return {};
}

// What the file has to have: a matrix or a vector, of all experts or of one.
Shape wanted_shape(const ModelConfig& config, const TensorRow& row, const TensorSource& source, size_t file_rows,
                   bool all_experts) {
  Shape shape;
  if (all_experts) shape.dims[shape.rank++] = config.moe.router.n_experts;
  const bool turned = source.transposed;
  shape.dims[shape.rank++] = turned ? source.n_cols : file_rows;
  if (row.is_matrix()) shape.dims[shape.rank++] = turned ? file_rows : source.n_cols;
  return shape;
}

// One expert's part of the tensor of all.
TensorView of_expert(const TensorView& all, const Shape& shape, size_t expert) {
  if (all.source != nullptr) return all.row_range(expert * shape[1], shape[1]);
  TensorView one = all;
  one.shape = Shape{{shape[1], shape[2]}, shape.rank - 1};
  const size_t bytes = all.data.size() / shape[0];
  one.data = all.data.subspan(expert * bytes, bytes);
  return one;
}

// Where the rows of `row` are in the fused tensor `fused`, whose parts stand in the table in their order.
RowOrder part_order(const ModelConfig& config, const TensorRow& row, size_t layer) {
  size_t first = 0;
  for (const TensorRow& other : tensor_table()) {
    if (other.role == row.role) break;
    if (other.part_of == row.part_of && other.role != row.part_of) first += other.rows(config, layer);
  }
  const bool of_expert = row.part_of == kExpertGateUp || row.part_of == kBExpertGateUp;
  if (of_expert && config.experts_interleaved) return {.first = first == 0 ? size_t{0} : 1, .block = 1, .stride = 2};
  const bool heads_are_grouped = row.part_of == kWqkv || row.part_of == kBqkv;
  if (!heads_are_grouped || !config.qkv_by_group) return {.first = first};
  return {.first = first / config.n_kv_heads,
          .block = row.rows(config, layer) / config.n_kv_heads,
          .stride = tensor_row(row.part_of).rows(config, layer) / config.n_kv_heads};
}

// A part that is consecutive rows of a matrix is a view of those.
void cut(TensorSource& source) {
  if (source.transposed || source.order.block != 0 || source.tensor.shape.rank != 2) return;
  source.tensor = source.tensor.row_range(source.order.first, source.n_rows);
  source.order.first = 0;
}

}  // namespace

std::string tensor_name(const ModelFile& file, const ModelConfig& config, TensorRole role, size_t layer,
                        size_t expert) {
  const std::string_view all = spellings(file, config, role);
  return fill_in(all.substr(0, all.find('|')), config.name_prefix, layer, expert);
}

std::vector<std::string> gguf_names(std::span<const TensorName> names, TensorRole role, size_t layer) {
  std::vector<std::string> all;
  for_each_spelling(spellings(true, names, role), [&](std::string_view spelling) {
    all.push_back(fill_in(spelling, "", layer, 0));
    return false;
  });
  return all;
}

Result<TensorSource> find_source(const ModelFile& file, const ModelConfig& config, const TensorRow& row,
                                 size_t layer, size_t expert) {
  const Presence presence = row.presence(config, layer);
  if (presence == Presence::kNo) return TensorSource();
  TensorSource source;
  source.n_rows = row.rows(config, layer);
  source.n_cols = row.is_matrix() ? row.cols(config, layer) : 1;

  Found found = find(file, config, row.role, layer, expert);
  size_t file_rows = source.n_rows;
  // GGUF calls gate|up what else is up alone: it is fused where there is no gate.
  const bool own = found.tensor != nullptr &&
                   (row.role != kWUp || !config.gated || find(file, config, kWGate, layer, 0).tensor != nullptr);
  if (!own && row.part_of != row.role) {
    Found fused = find(file, config, row.part_of, layer, expert);
    if (fused.tensor != nullptr) {
      found = std::move(fused);
      file_rows = tensor_row(row.part_of).rows(config, layer);
      source.order = part_order(config, row, layer);
      source.of_fused = true;
    }
  }
  if (found.tensor == nullptr) {
    if (presence == Presence::kMay) return TensorSource();
    return Status(ErrorCode::kMissingTensor, file.path() + ": tensor " + found.name + " is missing");
  }
  const bool is_float = dtype_is_float(found.tensor->dtype);
  source.transposed = row.is_matrix() && row.per_layer() &&
                      (row.of_each_expert ? config.experts_transposed && is_float : config.transposed);
  const Shape wanted = wanted_shape(config, row, source, file_rows, found.all_experts);
  TRY(check(file, found, wanted));
  if (source.transposed && (!is_float || found.tensor->source != nullptr)) {
    return Status(ErrorCode::kUnsupported, file.path() + ": tensor " + found.name + " is [in, out] and of type " +
                                               std::string(dtype_name(found.tensor->dtype)) +
                                               ", wanted floats: blocks of weights cannot be turned");
  }
  source.name = std::move(found.name);
  source.tensor = *found.tensor;
  source.tensor.shape = wanted;
  if (found.all_experts) source.tensor = of_expert(source.tensor, wanted, expert);
  cut(source);
  if (row.is_rotated() && config.adjacent_pairs) {
    source.order.head_dim = config.head_dim;
    source.order.rotary_dim = config.ropes.empty() ? 0 : config.ropes.front().rotary_dim;
  }
  return source;
}

}  // namespace ibid
