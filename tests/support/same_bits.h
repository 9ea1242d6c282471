// For tests that real forward passes give bit-identical results (law 1): data to compare, and all types of weights,
// keys and values.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <ostream>
#include <vector>

#include "base/check.h"
#include "cache/pages/kv_cache_entry.h"
#include "kernels/ops/dispatch.h"
#include "tests/support/tiny_model.h"

namespace ibid {

using Row = std::vector<float>;

inline bool same_bits(const Row& a, const Row& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// True if an instruction set is forced, as in the runs that repeat whole test programs. Tests that iterate over all
// instruction sets need not be repeated: they would compute the same again.
inline bool an_isa_is_forced() {
  const char* forced = std::getenv("IBID_FORCE_ISA");
  return forced != nullptr && *forced != '\0';
}

// The scalar kernels are slow, and use one function for all quantised panels. If they are active, three types represent
// all others: floats, codes, and codes with minima. The tests of the kernels check that each type is read correctly.
inline constexpr const char* kScalarKernelsAreSlow =
    "the scalar kernels compute from every panel of codes by one function, slowly";
inline bool is_worth_its_time(DType matrix_dtype) {
  return *active_isa() != Isa::kRef || matrix_dtype == DType::kF32 || matrix_dtype == DType::kQ8_0 ||
         matrix_dtype == DType::kQ4_1;
}

// Returns all stored keys and values of the entry as attention reads them. For layers with a window: only the positions
// that the next token may read, because earlier positions may be evicted.
inline Row stored_rows(const KvCacheEntry& entry) {
  const KvLayout& layout = entry.layout();
  const size_t window_begin = layout.first_window_page(entry.length()) * kPagePositions;
  Row rows;
  for (size_t p = 0; p < entry.length(); ++p) {
    for (const KvLayer& layer : layout.layers()) {
      if (layer.part == PagePart::kWindow && p < window_begin) continue;
      Row k(layer.row.head_dim), v(layer.row.head_dim);
      for (size_t head = 0; head < layer.row.n_kv_heads; ++head) {
        const std::byte* block = entry.parts(p / kPagePositions).head(layer, head);
        kernels_for(Isa::kRef).kv_load(layer.block, block, p % kPagePositions, k.data(), v.data());
        rows.insert(rows.end(), k.begin(), k.end());
        rows.insert(rows.end(), v.begin(), v.end());
      }
    }
  }
  return rows;
}

// Returns the states of all recurrent layers after the entry's last position. REQUIRES: a pass ended there; the entry
// was not sliced since.
inline Row stored_states(const KvCacheEntry& entry) {
  const KvLayout& layout = entry.layout();
  Row states;
  if (layout.n_states() == 0) return states;
  const StateSnapshot now = entry.state().now(entry.length());
  CHECK_EQ(now.position, entry.length());
  for (size_t layer = 0; layer < layout.n_states(); ++layer) {
    const float* floats = reinterpret_cast<const float*>(now.state.data()) + layout.state_offset(layer);
    states.insert(states.end(), floats, floats + layout.state(layer).floats);
  }
  return states;
}

inline constexpr KvDType kEveryKvDType[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4,
                                            KvDType::kInt4};
inline const char* kv_dtype_name(KvDType kv_dtype) {
  constexpr const char* kNames[] = {"F32", "F16", "Int8", "K8V4", "Int4"};
  return kNames[std::find(std::begin(kEveryKvDType), std::end(kEveryKvDType), kv_dtype) - std::begin(kEveryKvDType)];
}

struct WeightsAndKv {
  const char* name;
  KvDType kv_dtype;
  DType matrix_dtype;
  DType head_dtype;  // type of the embedding table and the head

  void apply_to(TinyModel& tiny) const {
    tiny.matrix_dtype = matrix_dtype;
    tiny.embed_dtype = head_dtype;
    tiny.head_dtype = head_dtype;
  }
};

inline void PrintTo(const WeightsAndKv& kind, std::ostream* out) { *out << kind.name; }

// Every panel type as the weight type of the layers (same_bits_test.cc checks this), and every type of keys and values.
inline constexpr WeightsAndKv kEveryPanelType[] = {
    {"F32_weights_F32_KV", KvDType::kF32, DType::kF32, DType::kF32},
    {"F16_weights_F16_KV", KvDType::kF16, DType::kF16, DType::kF16},
    {"BF16_weights_Int8_KV", KvDType::kInt8, DType::kBF16, DType::kBF16},
    {"Q4_1_weights_F16_KV", KvDType::kF16, DType::kQ4_1, DType::kQ8_0},
    {"Q4_1_weights_Int8_KV", KvDType::kInt8, DType::kQ4_1, DType::kQ8_0},
    {"Q4_1_weights_K8V4_KV", KvDType::kK8V4, DType::kQ4_1, DType::kQ8_0},
    {"Q4_1_weights_Int4_KV", KvDType::kInt4, DType::kQ4_1, DType::kQ8_0},
    {"Q4_0_weights_F32_KV", KvDType::kF32, DType::kQ4_0, DType::kQ8_0},
    {"Q5_0_weights_F16_KV", KvDType::kF16, DType::kQ5_0, DType::kQ8_0},
    {"Q5_1_weights_F16_KV", KvDType::kF16, DType::kQ5_1, DType::kQ5_1},
    {"Q8_0_weights_Int8_KV", KvDType::kInt8, DType::kQ8_0, DType::kQ8_0},
    {"Q4_K_weights_F16_KV", KvDType::kF16, DType::kQ4_K, DType::kQ6_K},
    {"Q5_K_weights_Int8_KV", KvDType::kInt8, DType::kQ5_K, DType::kQ6_K},
    {"Q6_K_weights_F32_KV", KvDType::kF32, DType::kQ6_K, DType::kQ4_K},
    {"Q2_K_weights_Int8_KV", KvDType::kInt8, DType::kQ2_K, DType::kQ6_K},
    {"MXFP4_weights_F16_KV", KvDType::kF16, DType::kMXFP4, DType::kQ8_0},
    {"NVFP4_weights_Int8_KV", KvDType::kInt8, DType::kNVFP4, DType::kQ8_0},
    {"IQ4_NL_weights_F16_KV", KvDType::kF16, DType::kIQ4_NL, DType::kQ8_0},
    {"IQ4_XS_weights_Int8_KV", KvDType::kInt8, DType::kIQ4_XS, DType::kQ6_K},
    {"IQ3_S_weights_F16_KV", KvDType::kF16, DType::kIQ3_S, DType::kQ6_K},
    {"IQ3_XXS_weights_Int8_KV", KvDType::kInt8, DType::kIQ3_XXS, DType::kQ6_K},
    {"IQ2_XXS_weights_F16_KV", KvDType::kF16, DType::kIQ2_XXS, DType::kQ6_K},
    {"IQ2_S_weights_Int8_KV", KvDType::kInt8, DType::kIQ2_S, DType::kIQ4_XS},
    {"IQ1_S_weights_F16_KV", KvDType::kF16, DType::kIQ1_S, DType::kQ6_K},
    {"IQ1_M_weights_Int8_KV", KvDType::kInt8, DType::kIQ1_M, DType::kQ6_K}};

}  // namespace ibid
