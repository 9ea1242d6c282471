// Reference kernels: readable scalar C++ that defines, bit for bit, the results of the tables of all
// instruction sets; and the oracle in double. Private to kernels/ and its tests.
#pragma once

#include "kernels/kernels.h"

namespace ibid {

// Adds 16 lanes in the order that all tables use:
//   ((l0 + l8) + (l4 + l12)) + ((l2 + l10) + (l6 + l14)), the same for the odd lanes, and the sum of both.
float reduce_add16(const float* lanes);

// Loads one position as floats in stored form (still transformed), as attention reads it.
void ref_stored_row(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);
// Hadamard transform of a head in double, rounded once: the oracle's version.
void ref_hadamard_in_double(float* x, size_t n);
// Kernels::kv_load of every table: not performance-critical, so one implementation serves all.
void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);

// Each sets the table entries of its source file.
void fill_ref_linear(Kernels& table);
void fill_reference_linear(Kernels& table);
void fill_ref_elementwise(Kernels& table);
void fill_reference_elementwise(Kernels& table);
void fill_ref_attention(Kernels& table);
void fill_ref_kv_rows(Kernels& table);
void fill_reference_attention(Kernels& table);
void fill_ref_recurrent(Kernels& table);
void fill_reference_recurrent(Kernels& table);

// Each sets all entries of one table. Those for instruction sets are in isa_*.cc, the only files compiled for one.
void fill_ref(Kernels& table);
void fill_reference(Kernels& table);
void fill_avx2(Kernels& table);
void fill_avxvnni(Kernels& table);
void fill_avx512(Kernels& table);
void fill_amx(Kernels& table);

}  // namespace ibid
