// Selects the instruction set once, at first use, by CPUID and by the registers that the operating system saves
// (XGETBV). The environment variable IBID_FORCE_ISA=ref|avx2|avxvnni|avx512|amx selects one; it is an error if the
// machine lacks it. All functions are thread-safe.
#pragma once

#include "base/result.h"
#include "kernels/kernels.h"

namespace ibid {

// From the slowest to the fastest. kAvx2: AVX2, FMA and F16C. kAvxVnni: kAvx2 and AVX-VNNI. kAvx512: kAvx2 and AVX-512
// F, BW, VL, DQ, VNNI (the first processors with AVX-512 lack AVX-VNNI). kAmx: kAvx512 and AMX-INT8.
enum class Isa { kRef, kAvx2, kAvxVnni, kAvx512, kAmx };
inline constexpr Isa kAllIsas[] = {Isa::kRef, Isa::kAvx2, Isa::kAvxVnni, Isa::kAvx512, Isa::kAmx};

const char* isa_name(Isa isa);
bool isa_supported(Isa isa);

// Returns the set named `forced`, or the fastest supported set if `forced` is null or empty.
// Error: kInvalidArgument for an unknown or unsupported name.
Result<Isa> choose_isa(const char* forced);

// Returns choose_isa(IBID_FORCE_ISA), evaluated at the first call.
Result<Isa> active_isa();

// Returns the kernel table of one set. REQUIRES: isa_supported(isa).
const Kernels& kernels_for(Isa isa);
// Returns the oracle: the table with double accumulators on float weights (Numerics::kReference). For kPF panels only.
const Kernels& reference_kernels();

}  // namespace ibid
