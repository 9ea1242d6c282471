// Iterates over the tensor table: all tensors that a model may have, in loading order.
#pragma once

#include <type_traits>
#include <variant>

#include "base/result.h"
#include "model/config/config.h"
#include "model/tensors/tensor_table.h"

namespace ibid {

// The type of the member that a TensorRow::Place points to.
template <typename Place>
struct MemberOf {
  using Type = void;
};
template <typename T, typename Owner>
struct MemberOf<T Owner::*> {
  using Type = T;
};

// True for a matrix, false for a vector of floats.
inline bool is_packed(const TensorRow& row) {
  return std::visit(
      []<typename Place>(Place) {
        using Type = typename MemberOf<Place>::Type;
        return std::is_same_v<Type, PackedMatrix> || std::is_same_v<Type, LatentExpansion>;
      },
      row.place);
}

// Calls visit(row, layer, copy) for every tensor that a model may have, either for all packed matrices or for all
// vectors. Tensors of the layers come last. Visits the parts of fused tensors, not the fused tensors themselves.
template <typename Visit>
Status for_each_tensor(const ModelConfig& config, bool packed, Visit&& visit) {
  for (size_t l = 0; l <= config.n_layers; ++l) {
    for (const TensorRow& row : tensor_table()) {
      const bool is_part = !std::holds_alternative<std::monostate>(row.place);
      if (!is_part || is_packed(row) != packed || row.per_layer() != (l > 0)) continue;
      const size_t layer = l == 0 ? 0 : l - 1;
      for (size_t copy = 0; copy < n_copies(row, config, layer); ++copy) TRY(visit(row, layer, copy));
    }
  }
  return {};
}

}  // namespace ibid
