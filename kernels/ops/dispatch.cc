#include "kernels/ops/dispatch.h"

#include <cstdlib>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kernels/reference/ref.h"

#ifdef IBID_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace ibid {

namespace {

constexpr const char* kIsaNames[] = {"ref", "avx2", "avxvnni", "avx512", "amx"};

#ifdef IBID_X86
struct Registers {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(unsigned leaf, unsigned subleaf = 0) {
  Registers r;
  __get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx);  // sets zeros if the leaf does not exist
  return r;
}

bool has_bits(unsigned value, unsigned bits) { return (value & bits) == bits; }

// Returns which register sets the operating system saves on a context switch (XCR0). An instruction set of the CPU can
// be used only if its registers are saved.
unsigned saved_state() {
  if (!has_bits(cpuid(1).ecx, bit_OSXSAVE)) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return low;
}

// __builtin_cpu_supports is not used, because clang 14 does not support "f16c" there.
bool cpu_has_avx2() {
  constexpr unsigned kYmmState = 0x6;
  return has_bits(cpuid(1).ecx, bit_AVX | bit_FMA | bit_F16C) && has_bits(cpuid(7).ebx, bit_AVX2) &&
         has_bits(saved_state(), kYmmState);
}

// AVX-VNNI: the dot products of AVX-512 VNNI in 256-bit vectors, in most processors since 2021 without AVX-512.
bool cpu_has_avxvnni() {
  constexpr unsigned kAvxVnni = 1u << 4;
  // A CPU without subleaf 1 of leaf 7 may return subleaf 0 instead, so check the largest subleaf (eax) first.
  return cpu_has_avx2() && cpuid(7).eax >= 1 && has_bits(cpuid(7, 1).eax, kAvxVnni);
}

bool cpu_has_avx512() {
  constexpr unsigned kZmmState = 0xe6;
  return cpu_has_avx2() && has_bits(cpuid(7).ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512VL | bit_AVX512DQ) &&
         has_bits(cpuid(7).ecx, bit_AVX512VNNI) && has_bits(saved_state(), kZmmState);
}

// Requests permission for tile registers, without which Linux 5.16+ saves none (Documentation/arch/x86/xstate.rst).
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILE_DATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

bool cpu_has_amx() {
  constexpr unsigned kTileState = 0x60000;
  constexpr unsigned kAmxTile = 1u << 24, kAmxInt8 = 1u << 25;
  return cpu_has_avx512() && has_bits(cpuid(7).edx, kAmxTile | kAmxInt8) && has_bits(saved_state(), kTileState) &&
         may_use_tiles();
}
#else
bool cpu_has_avx2() { return false; }
bool cpu_has_avxvnni() { return false; }
bool cpu_has_avx512() { return false; }
bool cpu_has_amx() { return false; }
#endif

Kernels make_table(void (*fill)(Kernels&)) {
  Kernels table{};
  fill(table);
  return table;
}

}  // namespace

const char* isa_name(Isa isa) { return kIsaNames[static_cast<size_t>(isa)]; }

bool isa_supported(Isa isa) {
  static const bool avx2 = cpu_has_avx2();
  static const bool avxvnni = cpu_has_avxvnni();
  static const bool avx512 = cpu_has_avx512();
  static const bool amx = cpu_has_amx();
  switch (isa) {
    case Isa::kRef: return true;
    case Isa::kAvx2: return avx2;
    case Isa::kAvxVnni: return avxvnni;
    case Isa::kAvx512: return avx512;
    case Isa::kAmx: return amx;
  }
  return false;
}

Result<Isa> choose_isa(const char* forced) {
  const std::string_view wanted = forced == nullptr ? "" : forced;
  if (wanted.empty()) {
    for (const Isa isa : {Isa::kAmx, Isa::kAvx512, Isa::kAvxVnni, Isa::kAvx2}) {
      if (isa_supported(isa)) return isa;
    }
    return Isa::kRef;
  }
  for (size_t i = 0; i < std::size(kIsaNames); ++i) {
    if (wanted != kIsaNames[i]) continue;
    const auto isa = static_cast<Isa>(i);
    if (isa_supported(isa)) return isa;
    return {ErrorCode::kInvalidArgument, "IBID_FORCE_ISA=" + std::string(wanted) + " is not supported by this CPU"};
  }
  return {ErrorCode::kInvalidArgument,
          "IBID_FORCE_ISA is \"" + std::string(wanted) + "\"; it must be ref, avx2, avxvnni, avx512 or amx"};
}

Result<Isa> active_isa() {
  static const Result<Isa> active = choose_isa(std::getenv("IBID_FORCE_ISA"));
  return active;
}

const Kernels& kernels_for(Isa isa) {
  CHECK(isa_supported(isa)) << isa_name(isa);
#ifdef IBID_X86
  if (isa == Isa::kAvx2) {
    static const Kernels avx2 = make_table(fill_avx2);
    return avx2;
  }
  if (isa == Isa::kAvxVnni) {
    static const Kernels avxvnni = make_table(fill_avxvnni);
    return avxvnni;
  }
  if (isa == Isa::kAvx512) {
    static const Kernels avx512 = make_table(fill_avx512);
    return avx512;
  }
  if (isa == Isa::kAmx) {
    static const Kernels amx = make_table(fill_amx);
    return amx;
  }
#endif
  static const Kernels ref = make_table(fill_ref);
  return ref;
}

const Kernels& reference_kernels() {
  static const Kernels reference = make_table(fill_reference);
  return reference;
}

}  // namespace ibid
