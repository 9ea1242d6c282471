// The readable twin of every kernel: plain scalar C++ that defines, bit for bit, what the tables of the
// instruction sets compute; and the oracle in double. Private to kernels/ and its tests.
#pragma once

#include "kernels/kernels.h"

namespace ibid {

// The one order in which 16 lanes are added:
//   ((l0 + l8) + (l4 + l12)) + ((l2 + l10) + (l6 + l14)), the same of the odd lanes, and the sum of both.
float reduce_add16(const float* lanes);

// One position as floats, as it is stored: what attention sees.
void ref_stored_row(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);
// The transform of a head, rounded once: the oracle's.
void ref_hadamard_in_double(float* x, size_t n);
// Kernels::kv_load of every table: cold, and exact by definition.
void ref_kv_load(const KvHeadBlock& block, const std::byte* head, size_t position, float* k, float* v);

// Each fills in its own functions of a table.
void fill_ref_linear(Kernels& table);
void fill_reference_linear(Kernels& table);
void fill_ref_elementwise(Kernels& table);
void fill_reference_elementwise(Kernels& table);
void fill_ref_attention(Kernels& table);
void fill_ref_kv_rows(Kernels& table);
void fill_reference_attention(Kernels& table);
void fill_ref_recurrent(Kernels& table);
void fill_reference_recurrent(Kernels& table);

// All functions of one table. Defined in isa_*.cc, the only files compiled for an instruction set.
void fill_ref(Kernels& table);
void fill_reference(Kernels& table);
void fill_avx2(Kernels& table);
void fill_avxvnni(Kernels& table);
void fill_avx512(Kernels& table);
void fill_amx(Kernels& table);

}  // namespace ibid
