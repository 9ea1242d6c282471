#include "model/architectures/gguf_conversion.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/check.h"
#include "model/architectures/gguf_rows.h"
#include "model/architectures/rules.h"
#include "model/tensors/tensor_source.h"
#include "weights/block_formats.h"
#include "weights/gguf_format.h"

namespace ibid {

namespace {

using enum TensorRole;

// Returns the order of rows that changes a head from rotated halves, as in the checkpoint, to adjacent pairs: row i of
// a head is row order[i] of that head in the checkpoint.
std::vector<size_t> rows_of_pairs(const ModelConfig& config) {
  std::vector<size_t> order(config.layers.front().head_dim);
  const size_t rotary_dim = config.ropes.empty() ? order.size() : config.ropes.front().rotary_dim;
  const RowOrder halves = RowOrder::halves_of_pairs(config.layers.front().head_dim, rotary_dim);
  for (size_t i = 0; i < order.size(); ++i) order[halves.source_row(i)] = i;
  return order;
}

class Lister {
 public:
  Lister(const ModelFile& file, const ModelConfig& config, const Architecture& to)
      : file_(file), config_(config), unread_(config), written_(config), to_(to) {
    if (is_in(to.adjacent_pairs, true) && config.attends()) heads_ = rows_of_pairs(config);
    written_.recurrent.fused = to.recurrent.gguf_fused;
    for (LayerConfig& layer : unread_.layers) layer.writes_kv = true;
  }

  Result<std::vector<GgufTensor>> list() {
    TRY(add_roles(false, 0));
    TRY(add_folded_head());
    add_rope_factors();
    for (size_t l = 0; l < config_.n_layers; ++l) TRY(add_roles(true, l));
    return std::move(tensors_);
  }

 private:
  Status add_roles(bool per_layer, size_t layer) {
    first_of_layer_ = tensors_.size();
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

  // Adds the embedding tensor a second time, as the LM head, if embedding and head get different factors.
  Status add_folded_head() {
    const auto is_head = [](const GgufTensor& tensor) { return tensor.name == "output.weight"; };
    if (!to_.recurrent.gguf_folds_factors || std::ranges::any_of(tensors_, is_head)) return {};
    if (folded_factor(config_, kEmbed) == folded_factor(config_, kLmHead)) return {};
    TRY_ASSIGN(TensorSource source, find_source(file_, config_, tensor_row(kEmbed)));
    return add(tensor_row(kLmHead), 0, std::move(source));
  }

  // True for the key and value tensors of a layer that reads the KV of another layer. The layer does not use these
  // tensors, but llama.cpp requires them for Gemma 3n, so they are converted too.
  bool is_unread(const TensorRow& row, size_t layer) const {
    const bool of_kv = row.role == kWk || row.role == kWv || row.role == kKNorm;
    return of_kv && !config_.layers[layer].writes_kv &&
           file_.find_tensor(tensor_name(file_, config_, row.role, layer)) != nullptr;
  }

  // True for tensors that llama.cpp's converters keep fused.
  bool stays_fused(const TensorRow& row, const TensorSource& source) const {
    if (!source.of_fused) return false;
    return row.part_of == kWqkv || row.part_of == kBqkv || (row.part_of == kWGateUp && !to_.gguf_splits_gate_up);
  }

  // Returns a role's name in GGUF. A name may belong to two roles: the only norm of some Falcon models has the name
  // that the MLP's norm has in Falcon models with two norms. If the model lacks the other role, the name is the one for
  // this role.
  Result<std::string> name_of(TensorRole role, size_t layer) const {
    const std::vector<std::string> names = gguf_names(to_.tensor_names, role, layer);
    for (const TensorName& other : to_.tensor_names) {
      if (names.size() < 2 || other.role == role || *other.gguf == '\0') continue;
      const std::string name = gguf_names(to_.tensor_names, other.role, layer).front();
      if (std::ranges::find(names, name) == names.end()) continue;
      TRY_ASSIGN(const TensorSource source, find_source(file_, config_, tensor_row(other.role), layer));
      if (!source.found()) return name;
    }
    return names[std::min(gguf_spelling(config_, role), names.size() - 1)];
  }

  // Returns the layer's tensor with this name, which is added first if it does not exist.
  GgufTensor& tensor_of(const std::string& name) {
    for (size_t i = first_of_layer_; i < tensors_.size(); ++i) {
      if (tensors_[i].name == name) return tensors_[i];
    }
    tensors_.emplace_back();
    tensors_.back().name = name;
    return tensors_.back();
  }

  // Returns the role of the fused GGUF tensor into which this row of the tensor table is written; nullopt: not fused.
  std::optional<TensorRole> fused_role(const TensorRow& row, const TensorSource& source) const {
    return source.of_fused ? gguf_fused_role(written_, row) : std::nullopt;
  }

  Status refuse_folded(const TensorSource& source) const {
    return {ErrorCode::kUnsupported,
            file_.path() + ": bias " + source.name +
                " cannot be converted: a GGUF file of this model has its multipliers inside its weights, "
                "but none for a bias; "
                "use the original checkpoint"};
  }

  Status add(const TensorRow& row, size_t layer, TensorSource source) {
    const std::optional<TensorRole> fused = fused_role(row, source);
    const TensorRole role = fused ? *fused : stays_fused(row, source) ? row.part_of : row.role;
    TRY_ASSIGN(const std::string name, name_of(role, layer));
    GgufTensor& tensor = tensor_of(name);
    const std::optional<RowOrder> places = fused ? std::optional(order_in_fused(written_, row, layer)) : std::nullopt;
    std::vector<size_t> heads = row.is_rotated() ? heads_ : std::vector<size_t>();
    const bool folds = to_.recurrent.gguf_folds_factors;
    if (folds && is_folded_bias(row.role)) return refuse_folded(source);
    GgufPart part(std::move(source), std::move(heads), folds ? folded_factor(config_, row.role) : 1);
    // llama.cpp treats a matrix with one row as a vector.
    const bool is_matrix = row.is_matrix() && row.role != kSharedRouter && !is_gguf_floats(row.role);
    return is_matrix ? add_matrix(row, std::move(part), places, tensor) : add_floats(row, layer, part, places, tensor);
  }

  Status add_matrix(const TensorRow& row, GgufPart part, const std::optional<RowOrder>& places, GgufTensor& tensor) {
    const TensorSource source = part.source();
    if (tensor.rows == nullptr) tensor.rows = std::make_unique<GgufRows>();
    auto& rows = static_cast<GgufRows&>(*tensor.rows);
    if (rows.n_rows() != 0 && rows.stored_type() != source.tensor.dtype) {
      return {ErrorCode::kUnsupported, file_.path() + ": tensor " + source.name + " has type " +
                                           std::string(dtype_name(source.tensor.dtype)) + ", other parts of " +
                                           tensor.name + " have " + std::string(dtype_name(rows.stored_type()))};
    }
    if (places) {
      rows.add(std::move(part), *places);
    } else {
      rows.add(std::move(part));
    }
    // LayerInputs uses row 0 for token ids that have no row. llama.cpp requires a row for every token, so repeat row 0.
    if (row.role == kLayerEmbed && rows.n_rows() < config_.vocab_size) {
      rows.add(GgufPart::repeated(source, config_.vocab_size - source.n_rows));
    }
    tensor.view.dtype = rows.as_floats() ? DType::kF32 : source.tensor.dtype;
    tensor.view.source = tensor.rows.get();
    tensor.view.shape = Shape{{rows.n_rows(), source.n_cols}, 2};
    if (row.copies != Copies::kNone) {
      tensor.view.shape = Shape{{rows.n_rows() / source.n_rows, source.n_rows, source.n_cols}, 3};
    }
    const bool is_float =
        row.role == kRouter || row.role == kPositions || row.role == kAltUpPredict || row.role == kAltUpCorrect;
    const bool has_type = gguf_tensor_type_number(tensor.view.dtype).has_value();
    tensor.dtype = is_float || !has_type ? DType::kF32 : tensor.view.dtype;
    return {};
  }

  // Adds vectors, and matrices that are stored as floats.
  Status add_floats(const TensorRow& row, size_t layer, const GgufPart& part, const std::optional<RowOrder>& places,
                    GgufTensor& tensor) {
    const TensorSource& source = part.source();
    std::vector<float> stored;
    for (const TensorView& of_head : source.parts.empty() ? std::vector{source.tensor} : source.parts) {
      const size_t filled = stored.size();
      stored.resize(filled + of_head.shape.elements());
      dequantize_tensor(of_head, std::span(stored).subspan(filled));
    }
    const size_t n_cols = row.is_matrix() ? source.n_cols : 1, n = source.n_rows * n_cols;
    const size_t filled = tensor.values.size();
    const float missing = row.is_norm() && config_.norms_minus_one ? 1.0f : 0.0f;
    const bool is_log = row.is_decay() && config_.recurrent.logs_of_decays;
    for (size_t i = 0; i < n; ++i) {
      const float number = stored[part.source_row(i / n_cols) * n_cols + i % n_cols];
      const float value = is_log ? static_cast<float>(-std::exp(double{number})) : number + missing;
      if (!std::isfinite(value)) {
        return {ErrorCode::kNonFinite,
                file_.path() + ": tensor " + source.name + " holds a value that is not finite at " + std::to_string(i)};
      }
      const size_t place = places ? places->source_row(i / n_cols) * n_cols + i % n_cols : filled + i;
      if (place >= tensor.values.size()) tensor.values.resize(place + 1);
      tensor.values[place] = value;
    }
    const bool by_head = config_.qk_norm == QkNorm::kEachHead && (row.role == kQNorm || row.role == kKNorm);
    const size_t width = by_head ? config_.layers[layer].head_dim : n;
    CHECK(width > 0);
    const bool is_list = row.copies != Copies::kNone || by_head;
    set_values(tensor, is_list ? Shape{{tensor.values.size() / width, width}, 2}
                               : gguf_float_shape(config_, row.role, tensor.values.size() / n_cols, n_cols));
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
    std::vector<float> rotated(rule.n_rotated_pairs, 1.0f);
    if (rule.n_rotated_pairs != 0) rotated.resize(rule.rotary_dim / 2, kUnrotated);
    add_factors(longrope ? kLongRopeFactors : kRopeFactors,
                rule.n_rotated_pairs != 0 ? rotated : rule.frequency_factors);
    add_factors(kShortRopeFactors, rule.short_factors);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  ModelConfig unread_;   // config_, but all layers write KV: with it find_source() finds the is_unread() tensors
  ModelConfig written_;  // config_ with the GGUF's order of fused tensors
  const Architecture& to_;
  std::vector<size_t> heads_;
  size_t first_of_layer_ = 0;
  std::vector<GgufTensor> tensors_;  // pointers to rows and values stay valid when the vector moves its elements
};

}  // namespace

Result<std::vector<GgufTensor>> gguf_tensors(const ModelFile& file, const ModelConfig& config, const Architecture& to) {
  return Lister(file, config, to).list();
}

}  // namespace ibid
