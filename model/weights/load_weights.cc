#include "model/weights/load_weights.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/checked.h"
#include "kernels/layout/pack.h"
#include "model/tensors/tensor_source.h"
#include "model/weights/each_tensor.h"
#include "model/weights/finite_check.h"
#include "model/weights/packing_list.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// --- W_kvb, which expands the latents of keys and values, in the form that attention over latent rows reads: the
// values as stored, the keys transposed (model/config/latent_attention.h). Blocks extend along the rows of the file, so
// the transposed part of quantised weights is decoded to F32, which is exact; floats keep their type.

// The keys, transposed: rows [H row_value_dim, nope_dim]. Row r of a head is column r of its key rows; rows from
// kv_rank on are zero.
class TransposedKeys : public RowSource {
 public:
  TransposedKeys(const TensorView& whole, const LatentAttention& shape, DType dtype)
      : whole_(whole),
        dtype_(dtype),
        rank_(shape.kv_rank),
        width_(shape.row_value_dim()),
        nope_(shape.nope_dim),
        of_head_(shape.nope_dim + shape.value_dim) {}

  void read_rows(std::span<const uint64_t> rows, std::byte* out) const override {
    for (size_t i = 0; i < rows.size();) {
      const uint64_t head = rows[i] / width_;
      size_t n = 1;
      while (i + n < rows.size() && rows[i + n] / width_ == head) ++n;
      read_columns(head, rows.subspan(i, n), out + i * nope_ * number_bytes());
      i += n;
    }
  }

  std::vector<std::span<const std::byte>> parts() const override {
    return whole_.source == nullptr ? std::vector{whole_.data} : whole_.source->parts();
  }

 private:
  size_t number_bytes() const { return dtype_block(dtype_).bytes; }

  // Reads rows of this source, all of one head. They are columns of the head's key rows in the file.
  void read_columns(uint64_t head, std::span<const uint64_t> rows, std::byte* out) const {
    const BlockSize block = dtype_block(whole_.dtype);
    uint64_t first = width_, end = 0;  // columns of the whole blocks that contain the wanted columns
    for (const uint64_t row : rows) {
      first = std::min(first, row % width_ / block.values * block.values);
      end = std::max(end, (row % width_ / block.values + 1) * block.values);
    }
    end = std::min<uint64_t>(end, rank_);
    std::vector<float> decoded(dtype_ == whole_.dtype || first >= end ? 0 : end - first);
    std::vector<std::byte> made(whole_.source == nullptr ? 0 : whole_.row_bytes());
    for (uint64_t k = 0; k < nope_; ++k) {
      const std::byte* from = row_of(head * of_head_ + k, made) + first / block.values * block.bytes;
      if (!decoded.empty()) {
        dequantize_row(whole_.dtype, {from, (end - first) / block.values * block.bytes}, decoded);
        from = reinterpret_cast<const std::byte*>(decoded.data());
      }
      for (size_t r = 0; r < rows.size(); ++r) {
        std::byte* to = out + (r * nope_ + k) * number_bytes();
        const uint64_t column = rows[r] % width_;
        if (column < rank_) {
          std::memcpy(to, from + (column - first) * number_bytes(), number_bytes());
        } else {
          std::memset(to, 0, number_bytes());
        }
      }
    }
  }

  // Returns a row of the file's matrix. made: buffer for the row, used if a RowSource produces it.
  const std::byte* row_of(uint64_t row, std::span<std::byte> made) const {
    if (whole_.source == nullptr) return whole_.data.data() + row * whole_.row_bytes();
    const uint64_t index = whole_.first_row + row;
    whole_.source->read_rows({&index, 1}, made.data());
    return made.data();
  }

  TensorView whole_;
  DType dtype_;
  uint64_t rank_, width_, nope_, of_head_;
};

struct LatentExpansionSources {
  TensorSource keys, values;
  std::unique_ptr<RowSource> transposed;  // source of `keys.tensor`
};

// Splits W_kvb into its keys and values. whole: [H (nope_dim + value_dim), kv_rank]; for each head its key rows, then
// its value rows.
LatentExpansionSources split_latent_expansion(const ModelConfig& config, const TensorSource& whole) {
  const LatentAttention& shape = config.latent;
  LatentExpansionSources parts;
  parts.values = whole;
  parts.values.n_rows = config.n_heads * shape.value_dim;
  parts.values.order = {.first = shape.nope_dim, .block = shape.value_dim, .stride = shape.nope_dim + shape.value_dim};
  const DType stored = whole.tensor.dtype;
  const DType dtype = dtype_is_float(stored) && dtype_block(stored).values == 1 ? stored : DType::kF32;
  parts.transposed = std::make_unique<TransposedKeys>(whole.tensor, shape, dtype);
  parts.keys.name = whole.name;
  parts.keys.n_rows = config.n_heads * shape.row_value_dim();
  parts.keys.n_cols = shape.nope_dim;
  parts.keys.tensor.dtype = dtype;
  parts.keys.tensor.shape = Shape{{parts.keys.n_rows, parts.keys.n_cols}, 2};
  parts.keys.tensor.source = parts.transposed.get();
  return parts;
}

// --- Tensors and their destinations.

PanelType panel_type(const TensorSource& source, Numerics numerics) {
  const DType dtype = source.tensor.dtype;
  // Heads cannot be reordered if a block has columns of two of them. Then the matrix is expanded to floats.
  const HeadTiles& columns = source.tiles.columns;
  const bool fits = !columns.used() || columns.width % dtype_block(dtype).values == 0;
  return numerics == Numerics::kReference || !fits ? PanelType::kPF : panel_type_for(dtype);
}

// Returns the object within `weights` that has the member to which the tensor is loaded.
template <typename T, typename Owner>
Owner& owner(T Owner::*, const TensorRow& row, size_t layer, size_t copy, TransformerWeights& all) {
  if constexpr (std::is_same_v<Owner, TransformerWeights>) {
    return all;
  } else if constexpr (std::is_same_v<Owner, StreamWeights>) {
    return all.streams[copy];
  } else {
    LayerWeights& of = all.layers[layer];
    if constexpr (std::is_same_v<Owner, Expert>) {
      return row.copies == Copies::kExperts ? of.moe.experts[copy] : of.moe.shared;
    } else if constexpr (std::is_same_v<Owner, AdapterWeights>) {
      return of.common.adapters[copy];
    } else {
      return std::get<Owner&>(std::tie(of, of.latent, of.recurrent, of.common, of.altup, of.input, of.moe));
    }
  }
}

// Assigns memory in one arena to the tensors of one file. Reads vectors at once, and lists matrices for pack().
class Binder {
 public:
  Binder(const ModelFile& file, const ModelConfig& config, Numerics numerics, Arena& arena)
      : file_(file), config_(config), numerics_(numerics), arena_(arena) {}

  // Binds the tensor of `row` to its member of `weights`, which stays empty if the model does not have the tensor.
  Status bind(const TensorRow& row, size_t layer, size_t copy, TransformerWeights& weights) {
    TRY_ASSIGN(const TensorSource source, find_source(file_, config_, row, layer, copy));
    if (!source.found()) return {};
    const auto put = [&]<typename Place>(Place place) -> Status {
      if constexpr (!std::is_same_v<Place, std::monostate>) {
        auto& at = owner(place, row, layer, copy, weights).*place;
        if constexpr (std::is_same_v<decltype(at), PackedMatrix&>) {
          at = matrix(source);
        } else if constexpr (std::is_same_v<decltype(at), LatentExpansion&>) {
          LatentExpansionSources parts = split_latent_expansion(config_, source);
          at.keys = matrix(parts.keys);
          at.values = matrix(parts.values);
          transposed_.push_back(std::move(parts.transposed));
        } else {
          TRY_ASSIGN(at, vector(row, source));
        }
      }
      return {};
    };
    return std::visit(put, row.place);
  }

  // REQUIRES: called once, after the last bind(). Error: kNonFinite.
  Status pack(ThreadTeam& team) const {
    // Release the file's pages on the way; otherwise the whole file would stay resident.
    const Status status = packing_.run(team, [this](const TensorView& tensor) { file_.release(tensor); });
    if (status.ok()) return status;
    TRY(check_finite_weights(file_, config_, team));  // its error names the element, that of packing only the tensor
    return {status.code(), file_.path() + ": " + status.message()};
  }

 private:
  PackedMatrix matrix(const TensorSource& source) {
    PackedMatrix out;
    out.type = panel_type(source, numerics_);
    out.n_rows = source.n_rows;
    out.n_cols = source.n_cols;
    out.data = arena_.allocate(packed_bytes(out.type, out.n_rows, out.n_cols));
    packing_.add(source.name, source.tensor, source.order, source.transposed, out, source.tiles);
    return out;
  }

  Result<WeightVector> vector(const TensorRow& of, const TensorSource& source) {
    const size_t n = source.n_rows * source.n_cols;
    const std::span<float> values = arena_.allocate_array<float>(round_up(n, kPanelRows)).first(n);
    TRY(read_vector(file_, config_, of, source, values));
    return WeightVector(values);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  const Numerics numerics_;
  Arena& arena_;
  std::vector<std::unique_ptr<RowSource>> transposed_;  // sources from which packing_ reads
  PackingList packing_;
};

void mark_quantized(InputOf input, QuantizedInputs& inputs) {
  switch (input) {
    case InputOf::kNone: return;
    case InputOf::kH: inputs.h = true; return;
    case InputOf::kAttended: inputs.attended = true; return;
    case InputOf::kGated: inputs.gated = true; return;
    case InputOf::kQLatent: inputs.q_latent = true; return;
    case InputOf::kKvLatent: inputs.kv_latent = true; return;
    case InputOf::kExpertGated: inputs.expert_gated = true; return;
    case InputOf::kSharedGated: inputs.shared_gated = true; return;
    case InputOf::kLaurel: inputs.laurel = true; return;
    case InputOf::kLayerGated: inputs.layer_gated = true; return;
    case InputOf::kMixed: inputs.mixed = true; return;
    case InputOf::kRecurrentLow: inputs.recurrent_low = true; return;
  }
}

}  // namespace

Result<WeightPlan> plan_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics) {
  WeightPlan plan;
  bool tied = true;
  TRY(for_each_tensor(config, false, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    const size_t n = round_up(source.n_rows * source.n_cols, kPanelRows);
    if (source.found()) plan.bytes += Arena::padded(n * sizeof(float));
    return {};
  }));
  TRY(for_each_tensor(config, true, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    if (!source.found()) return {};
    const auto count = [&](const TensorSource& part) {
      const size_t bytes = Arena::padded(packed_bytes(panel_type(part, numerics), part.n_rows, part.n_cols));
      plan.bytes += bytes;
      return bytes;
    };
    if (std::holds_alternative<LatentExpansion LatentWeights::*>(row.place)) {
      const LatentExpansionSources parts = split_latent_expansion(config, source);
      count(parts.keys);
      count(parts.values);
      plan.layer_weights += parts.keys.n_rows * parts.keys.n_cols + parts.values.n_rows * parts.values.n_cols;
      if (!panel_is_float(panel_type(parts.values, numerics))) mark_quantized(row.input, plan.quantized);
      return {};
    }
    const PanelType type = panel_type(source, numerics);
    const size_t bytes = count(source);
    const bool idle = row.copies == Copies::kExperts && copy >= config.moe.router.n_experts_active;
    if (row.input == InputOf::kNone || idle) plan.lookup_bytes += bytes;
    if (row.per_layer() && !idle) plan.layer_weights += source.n_rows * source.n_cols;
    tied &= row.role != TensorRole::kLmHead;
    if (!panel_is_float(type)) mark_quantized(row.input, plan.quantized);
    return {};
  }));
  if (tied) {
    TRY_ASSIGN(const TensorSource embed, find_source(file, config, tensor_row(TensorRole::kEmbed)));
    const PanelType type = panel_type(embed, numerics);
    if (!panel_is_float(type)) plan.quantized.h = true;
    plan.lookup_bytes -= Arena::padded(packed_bytes(type, embed.n_rows, embed.n_cols));
  }
  return plan;
}

Result<TransformerWeights> load_weights(const ModelFile& file, const ModelConfig& config, Numerics numerics,
                                        ThreadTeam& team) {
  TRY_ASSIGN(const WeightPlan planned, plan_weights(file, config, numerics));
  TransformerWeights weights;
  TRY_ASSIGN(weights.arena, Arena::create(planned.bytes));
  Binder binder(file, config, numerics, weights.arena);

  weights.layers.resize(config.n_layers);
  for (size_t l = 0; l < config.n_layers; ++l) {
    if (config.layers[l].common_layer == l) weights.layers[l].common.adapters.resize(config.common.n_uses);
    if (config.layers[l].has_experts) weights.layers[l].moe.experts.resize(config.moe.router.n_experts);
  }
  if (config.altup.used()) weights.streams.resize(config.altup.n_streams - 1);
  const auto bind = [&](const TensorRow& row, size_t layer, size_t copy) {
    return binder.bind(row, layer, copy, weights);
  };
  // Bind all vectors first, so that they are adjacent. Between matrices each vector would cost this thread a huge page.
  TRY(for_each_tensor(config, false, bind));
  TRY(for_each_tensor(config, true, bind));
  if (weights.lm_head.empty()) weights.lm_head = weights.embed;
  TRY(binder.pack(team));
  return weights;
}

}  // namespace ibid
