// Which instruction set runs. Chosen once, at first use, by CPUID and by what the operating system saves
// (XGETBV); IBID_FORCE_ISA=ref|avx2|avxvnni|avx512|amx forces one, and a forced set that the machine lacks is an
// error. All functions are safe to call from several threads.
#pragma once

#include "base/result.h"
#include "kernels/kernels.h"

namespace ibid {

// From the slowest to the fastest. kAvx2: AVX2, FMA, F16C; kAvxVnni: these and AVX-VNNI; kAvx512: AVX2's and F, BW, VL,
// DQ, VNNI of AVX-512 (the first processors that have it lack AVX-VNNI); kAmx: AVX-512's and tiles of int8.
enum class Isa { kRef, kAvx2, kAvxVnni, kAvx512, kAmx };
inline constexpr Isa kAllIsas[] = {Isa::kRef, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx};

const char* isa_name(Isa isa);
bool isa_supported(Isa isa);

// The set called `forced`, or the best one when it is null or empty.
// Error: kInvalidArgument for an unknown or unsupported name.
Result<Isa> choose_isa(const char* forced);

// choose_isa(IBID_FORCE_ISA), decided at the first call.
Result<Isa> active_isa();

// The table of one set. REQUIRES: isa_supported(isa).
const Kernels& kernels_for(Isa isa);
// Double accumulators on float weights: the oracle (Numerics::kReference). Weights are kPF panels.
const Kernels& reference_kernels();

}  // namespace ibid
