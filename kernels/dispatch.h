// Which instruction set runs. Chosen once, at first use, by CPUID and by what the operating system saves
// (XGETBV); IBID_FORCE_ISA=ref|avx2|avx512 forces one, and a forced set that the machine lacks is an error.
#pragma once

#include "base/result.h"
#include "kernels/kernels.h"

namespace ibid {

enum class Isa { kRef, kAvx2, kAvx512 };   // kAvx512: F, BW, VL, DQ, VNNI

const char* isa_name(Isa isa);
bool isa_supported(Isa isa);

// The set that runs: the forced one, else the best one. Error: kInvalidArgument for an unknown or
// unsupported IBID_FORCE_ISA.
Result<Isa> active_isa();

// The table of one set. REQUIRES: isa_supported(isa).
const Kernels& kernels_for(Isa isa);
// Double accumulators on float weights: the oracle (Numerics::kReference). Weights are kPF panels.
const Kernels& reference_kernels();

}  // namespace ibid
