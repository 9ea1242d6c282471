#include "kernels/ops/blas.h"

#if __has_include(<cblas.h>)
#include <cblas.h>
#include <dlfcn.h>
#define IBID_CBLAS
#endif

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <string>
#include <string_view>

#include "base/check.h"
#include "kernels/ops/dispatch.h"

namespace ibid {

namespace {

// Weights are unpacked in pieces of [columns][128 outputs], half a megabyte, so that the piece and the library's own
// packed copy stay in L2. sgemm packs x again for each piece; wider pieces would gain little.
constexpr size_t kPiecePanels = 8;
constexpr size_t kPieceColumns = 1024;

#ifdef IBID_CBLAS

struct Library {
  decltype(&cblas_sgemm) sgemm = nullptr;
  // Functions of the OpenMP runtime that the library uses; nullptr: no OpenMP.
  int (*max_threads)() = nullptr;
  void (*set_max_threads)(int) = nullptr;
  std::string why_not = {};  // why sgemm is not available; empty if it is
};

// Restricts OpenBLAS to the calling thread until it is destroyed. OpenBLAS with OpenMP reads the caller's maximum
// number of threads on each call. That setting is per thread, so setting it once, on the thread that loaded the
// library, would not affect other threads.
class OneThread {
 public:
  explicit OneThread(const Library& library) : library_(library) {
    if (library_.set_max_threads == nullptr) return;
    before_ = library_.max_threads();
    library_.set_max_threads(1);
  }
  ~OneThread() {
    if (library_.set_max_threads != nullptr) library_.set_max_threads(before_);
  }
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

 private:
  const Library& library_;
  int before_ = 0;
};

// True if the sgemm of OpenBLAS's core type `core` uses at least the vector instructions of `isa`. Core types that this
// function does not list are for CPUs before AVX2.
bool is_core_for(Isa isa, std::string_view core) {
  for (std::string_view known : {"SkylakeX", "Cooperlake", "Sapphirerapids", "SapphireRapids"}) {
    if (core == known) return true;
  }
  return isa == Isa::kAvx2 && (core == "Haswell" || core == "Zen");
}

Library load_library() {
  // IBID_FORCE_ISA applies to the library too, not only to our kernels.
  const Result<Isa> active = active_isa();
  if (!active.ok()) return {.why_not = active.status().message()};
  if (*active == Isa::kRef) return {.why_not = "the active instruction set is ref, which uses no library"};
  const Isa isa = *active >= Isa::kAvx512 ? Isa::kAvx512 : Isa::kAvx2;
  // Do not overwrite a value that the user has set.
  setenv("OPENBLAS_CORETYPE", isa == Isa::kAvx512 ? "SkylakeX" : "Haswell", 0);
  void* handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return {.why_not = "OpenBLAS is not installed (libopenblas.so.0)"};
  const auto sgemm = reinterpret_cast<decltype(&cblas_sgemm)>(dlsym(handle, "cblas_sgemm"));
  const auto core = reinterpret_cast<char* (*)()>(dlsym(handle, "openblas_get_corename"));
  const auto set_threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"));
  // Even after an error the library stays loaded: dlclose() would leak memory.
  if (sgemm == nullptr || core == nullptr || set_threads == nullptr) {
    return {.why_not = "libopenblas.so.0 lacks functions of OpenBLAS"};
  }
  if (!is_core_for(isa, core())) {
    return {.why_not = std::string("OpenBLAS runs this CPU as the slow core ") + core()};
  }
  Library library{sgemm};
  const auto max_threads = reinterpret_cast<int (*)()>(dlsym(handle, "omp_get_max_threads"));
  const auto set_max_threads = reinterpret_cast<void (*)(int)>(dlsym(handle, "omp_set_num_threads"));
  if (max_threads != nullptr && set_max_threads != nullptr) {
    library.max_threads = max_threads;
    library.set_max_threads = set_max_threads;
  }
  const OneThread restores_what_set_threads_changes(library);
  set_threads(1);
  return library;
}

const Library& library() {
  static const Library loaded = load_library();
  return loaded;
}

#endif

}  // namespace

size_t blas_rows(PanelType weights) {
  const Result<Isa> isa = active_isa();
  if (!isa.ok() || (*isa != Isa::kAvx2 && *isa != Isa::kAvxVnni)) return std::numeric_limits<size_t>::max();
  return weights == PanelType::kPF ? 512 : 128;
}

size_t blas_scratch_bytes(size_t n_cols) {
  return std::min(n_cols, kPieceColumns) * kPiecePanels * kPanelRows * sizeof(float);
}

#ifdef IBID_CBLAS

bool blas_available() { return library().sgemm != nullptr; }
std::string blas_unavailable_reason() { return library().why_not; }

void blas_linear(const Kernels& kernels, const PackedMatrix& w, const float* x, size_t x_stride, size_t n_rows,
                 Range panels, float* y, size_t y_stride, std::byte* scratch) {
  CHECK(blas_available());
  const OneThread one_thread(library());
  auto* weights = reinterpret_cast<float*>(scratch);
  for (size_t p = panels.begin; p < panels.end; p += kPiecePanels) {
    const Range piece{p, std::min(p + kPiecePanels, panels.end)};
    const size_t width = piece.size() * kPanelRows;
    for (size_t k = 0; k < w.n_cols; k += kPieceColumns) {
      const Range columns{k, std::min(k + kPieceColumns, w.n_cols)};
      kernels.widen_panels(w, piece, columns, weights);
      library().sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, static_cast<blasint>(n_rows),
                      static_cast<blasint>(width), static_cast<blasint>(columns.size()), 1.0f, x + k,
                      static_cast<blasint>(x_stride), weights, static_cast<blasint>(width), k == 0 ? 0.0f : 1.0f,
                      y + p * kPanelRows, static_cast<blasint>(y_stride));
    }
  }
}

#else

bool blas_available() { return false; }
std::string blas_unavailable_reason() { return "this was built without OpenBLAS (cblas.h)"; }

void blas_linear(const Kernels&, const PackedMatrix&, const float*, size_t, size_t, Range, float*, size_t, std::byte*) {
  CHECK(false) << "built without cblas.h";
}

#endif

}  // namespace ibid
