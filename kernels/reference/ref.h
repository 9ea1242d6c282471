// Reference kernels: readable scalar C++, which defines the results of the tables of all instruction sets bit for bit.
// Also the oracle, which computes in double. Private to kernels/ and its tests.
#pragma once

#include "kernels/kernels.h"

namespace ibid {

// Adds 16 lanes in the order that all tables use:
//   ((l0 + l8) + (l4 + l12)) + ((l2 + l10) + (l6 + l14)), the same for the odd lanes, then the sum of both results.
float reduce_add16(const float* lanes);

// Loads one position as attention reads it: as floats, but still transformed if it is stored so.
void ref_stored_row(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);
// Hadamard transform of a head, computed in double and rounded once. For the oracle.
void ref_hadamard_in_double(float* x, size_t n);
// Kernels::kv_load of every table: it is not performance-critical, so all tables share one implementation.
void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);

// Each function sets the entries of a table that its source file implements.
void fill_ref_linear(Kernels& table);
void fill_reference_linear(Kernels& table);
void fill_ref_elementwise(Kernels& table);
void fill_reference_elementwise(Kernels& table);
void fill_ref_attention(Kernels& table);
void fill_ref_kv_rows(Kernels& table);
void fill_reference_attention(Kernels& table);
void fill_ref_recurrent(Kernels& table);
void fill_reference_recurrent(Kernels& table);

// Each function sets all entries of one table. Functions of an instruction set are in isa_*.cc, the only files compiled
// for that set.
void fill_ref(Kernels& table);
void fill_reference(Kernels& table);
void fill_avx2(Kernels& table);
void fill_avxvnni(Kernels& table);
void fill_avx512(Kernels& table);
void fill_amx(Kernels& table);

}  // namespace ibid
