// Linear layers: every panel type, shapes of models of 135M to 7B and a vocabulary head, 1 to 512 rows; float weights
// through OpenBLAS too (-blas).
// bench_linear [--benchmark_filter=linear/P4m] [--benchmark_...]     IBID_FORCE_ISA, IBID_THREADS (2)
// A run uses enough copies of the matrix to exceed the caches of one core, as a model does. Counters: GB/s of weights
// and its share of the read bandwidth for as many bytes; GOP/s and its share of the instruction's peak, both measured
// in this process. `model` runs all weights of SmolLM2-135M in one type (not types with blocks of 256 columns, which
// its row lengths do not allow).
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "bench/lab/machine_peaks.h"
#include "kernels/layout/pack.h"
#include "kernels/ops/dispatch.h"
#include "kernels/ops/linear.h"

namespace ibid {
namespace {

struct MatrixShape {
  size_t n_rows, n_cols;
};

constexpr PanelType kTypes[] = {PanelType::kP4m, PanelType::kP4,  PanelType::kP4k,  PanelType::kP5,  PanelType::kP5m,
                                PanelType::kP5k, PanelType::kP8,  PanelType::kP6k,  PanelType::kP2k, PanelType::kP4e,
                                PanelType::kP4f, PanelType::kP4n, PanelType::kP4nk, PanelType::kP3s, PanelType::kP3x,
                                PanelType::kP2x, PanelType::kP2s, PanelType::kP1s,  PanelType::kP1m, PanelType::kPH,
                                PanelType::kPB,  PanelType::kPE4, PanelType::kPE5,  PanelType::kPF};
constexpr MatrixShape kShapes[] = {{576, 576},   {3072, 576},  {576, 1536},  {4864, 896},
                                   {3072, 1024}, {1024, 3072}, {4096, 4096}, {49152, 576}};
constexpr MatrixShape kModelLayer[] = {{960, 576}, {576, 576}, {3072, 576}, {576, 1536}};
constexpr MatrixShape kModelHead = {49152, 576};
constexpr size_t kModelLayers = 30;
constexpr size_t kRows[] = {1, 2, 3, 4, 6, 8, 12, 16, 32, 128, 512};
constexpr size_t kWorkingSet = size_t{84} << 20;
constexpr size_t kMaxColumns = 4096;

// Types with blocks of 256 columns exist only for rows whose length is a multiple of 256.
size_t columns_of_blocks(PanelType type) {
  return panel_is_float(type) ? 1 : panel_format(type).super_scales() ? kSuperChunkCols : kQuantBlock;
}

int thread_count() {
  const char* wanted = std::getenv("IBID_THREADS");
  return wanted == nullptr ? 2 : std::atoi(wanted);
}

ThreadTeam& team() {
  static const std::unique_ptr<ThreadTeam> instance = ThreadTeam::create(thread_count()).value();
  return *instance;
}

// Returns one panel of plausible weights.
std::vector<std::byte> random_panel(PanelType type, size_t n_cols) {
  std::mt19937 rng(1);
  const size_t n = kPanelRows * n_cols;
  PanelRows rows;
  std::vector<int8_t> codes(n);
  std::vector<int8_t> scale_codes;
  std::vector<float> floats(n), scales;
  std::vector<uint16_t> halves(n), super_scales;
  for (size_t i = 0; i < n; ++i) {
    floats[i] = static_cast<float>(rng() % 1000) * 1e-3f - 0.5f;
    halves[i] = type == PanelType::kPB ? uint16_t{0x3e80} : float_to_fp16(floats[i]);
  }
  rows.floats = floats;
  rows.halves = halves;
  if (panel_is_f8(type)) {
    for (int8_t& code : codes) code = static_cast<int8_t>(rng() % 96);
    scales.assign(n / kQuantBlock, 0.015625f);
    rows.codes = codes;
    rows.scales = scales;
  } else if (!panel_is_float(type)) {
    const PanelFormat format = panel_format(type);
    for (int8_t& code : codes) {
      const unsigned stored = static_cast<unsigned>(rng() % (1u << format.bits));
      code = static_cast<int8_t>(format.table == CodeTable::kNoTable ? static_cast<int>(stored) - format.offset
                                                                     : code_values(format.table)[stored]);
    }
    const size_t chunk_cols = format.chunk_cols(), chunks = kPanelRows * ((n_cols + chunk_cols - 1) / chunk_cols);
    const size_t groups = n / format.group;
    rows.codes = codes;
    if (format.super_scales()) {
      super_scales.assign(chunks, float_to_fp16(0.015625f));
      scale_codes.assign(groups, 3);
      rows.super_scales = super_scales;
      rows.scale_codes = scale_codes;
      if (format.has_mins) rows.super_mins = super_scales;
      if (format.has_mins) rows.min_codes = scale_codes;
    } else {
      scales.assign(groups, 0.015625f);
      rows.scales = scales;
      if (format.has_mins) rows.mins = scales;
    }
  }
  std::vector<std::byte> panel(panel_bytes(type, n_cols));
  pack_panel(type, n_cols, rows, panel.data());
  return panel;
}

// Matrices of one type with their inputs, outputs and scratch, in one arena.
class Workload {
 public:
  Workload(PanelType type, const std::vector<MatrixShape>& shapes, size_t n_rows) : n_rows_(n_rows) {
    size_t widest = 0;
    for (const MatrixShape& shape : shapes) {
      weight_bytes_ += packed_bytes(type, shape.n_rows, shape.n_cols);
      operations_ += 2 * static_cast<double>(shape.n_rows * shape.n_cols * n_rows);
      widest = std::max(widest, shape.n_rows);
    }
    scratch_stride_ = Arena::padded(linear_scratch_bytes(kMaxColumns));
    Result<Arena> arena = Arena::create(weight_bytes_ + n_rows * (2 * kMaxColumns * 8 + widest * sizeof(float)) +
                                        scratch_stride_ * static_cast<size_t>(team().size()) + (size_t{4} << 20));
    CHECK(arena.ok()) << arena.status().message();
    arena_ = std::move(*arena);
    weights_ = arena_.allocate(weight_bytes_);
    add_matrices(type, shapes);
    y_stride_ = widest;
    y_ = arena_.allocate_array<float>(n_rows * y_stride_).data();
    scratch_ = arena_.allocate(scratch_stride_ * static_cast<size_t>(team().size()));
  }

  // Multiplies by all matrices once, and returns the seconds.
  double run(const Kernels& kernels, Numerics numerics) {
    double seconds = 0;
    team().run([&](Worker& worker) {
      LinearContext context;
      context.kernels = &kernels;
      context.numerics = numerics;
      context.scratch = scratch_;
      context.scratch_stride = scratch_stride_;
      worker.barrier();
      const auto start = std::chrono::steady_clock::now();
      for (const PackedMatrix& w : matrices_) {
        linear(worker, context, w, input_for(w.n_cols), y_, y_stride_);
        worker.barrier();
      }
      if (worker.index() == 0) {
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    });
    return seconds;
  }

  double operations() const { return operations_; }
  std::span<const std::byte> weights() const { return {weights_, weight_bytes_}; }

 private:
  void add_matrices(PanelType type, const std::vector<MatrixShape>& shapes) {
    std::byte* at = weights_;
    for (const MatrixShape& shape : shapes) {
      if (!has_input(shape.n_cols)) add_input(shape.n_cols);
      PackedMatrix w{type, shape.n_rows, shape.n_cols, at};
      const std::vector<std::byte> panel = random_panel(type, shape.n_cols);
      for (size_t p = 0; p < w.n_panels(); ++p, at += panel.size()) std::memcpy(at, panel.data(), panel.size());
      matrices_.push_back(w);
    }
  }

  bool has_input(size_t n_cols) const {
    for (const LinearInput& x : inputs_) {
      if (x.n_cols == n_cols) return true;
    }
    return false;
  }

  const LinearInput& input_for(size_t n_cols) const {
    for (const LinearInput& x : inputs_) {
      if (x.n_cols == n_cols) return x;
    }
    CHECK(false) << n_cols;
    return inputs_[0];
  }

  void add_input(size_t n_cols) {
    LinearInput x;
    x.n_rows = n_rows_;
    x.n_cols = n_cols;
    x.stride = n_cols;
    x.values = arena_.allocate_array<float>(n_rows_ * n_cols).data();
    for (size_t i = 0; i < n_rows_ * n_cols; ++i) x.values[i] = static_cast<float>(i % 201) * 0.01f - 1.0f;
    x.quantized = QuantizedRows::from(arena_.allocate(QuantizedRows::bytes(n_rows_, n_cols)), n_rows_, n_cols);
    const Kernels& kernels = kernels_for(*active_isa());
    const Range all{0, x.quantized.blocks()};
    for (size_t row = 0; row < n_rows_; ++row) {
      kernels.quantize_blocks(x.values + row * n_cols, row, all, x.quantized);
    }
    inputs_.push_back(x);
  }

  size_t n_rows_;
  size_t weight_bytes_ = 0, scratch_stride_ = 0, y_stride_ = 0;
  double operations_ = 0;
  Arena arena_;
  std::byte* weights_ = nullptr;
  std::byte* scratch_ = nullptr;
  float* y_ = nullptr;
  std::vector<PackedMatrix> matrices_;
  std::vector<LinearInput> inputs_;
};

void run_workload(benchmark::State& state, PanelType type, const std::vector<MatrixShape>& shapes, size_t n_rows,
                  Numerics numerics) {
  const Isa isa = *active_isa();
  Workload workload(type, shapes, n_rows);
  workload.run(kernels_for(isa), numerics);
  double best = 1e30;
  for (auto _ : state) {
    const double seconds = workload.run(kernels_for(isa), numerics);
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  const double gbps = static_cast<double>(workload.weights().size()) / best / 1e9;
  const double gops = workload.operations() / best / 1e9;
  const double peak = panel_is_float(type) ? float_peak_gops(team(), isa) : int8_peak_gops(team(), isa);
  state.counters["GBps"] = gbps;
  state.counters["bw%"] = 100 * gbps / read_bandwidth_gbps(team(), workload.weights());
  state.counters["GOPs"] = gops;
  state.counters["peak%"] = peak == 0 ? 0 : 100 * gops / peak;
  state.counters["ms"] = best * 1e3;
}

void register_all() {
  const auto add = [](const std::string& name, PanelType type, std::vector<MatrixShape> shapes, size_t n_rows,
                      Numerics numerics) {
    benchmark::RegisterBenchmark(name.c_str(),
                                 [=](benchmark::State& state) { run_workload(state, type, shapes, n_rows, numerics); })
        ->UseManualTime()
        ->MinTime(0.2);
  };
  std::vector<MatrixShape> model;
  for (size_t layer = 0; layer < kModelLayers; ++layer) {
    model.insert(model.end(), std::begin(kModelLayer), std::end(kModelLayer));
  }
  for (PanelType type : kTypes) {
    const std::string type_name = panel_type_name(type);
    for (size_t n_rows : kRows) {
      const std::string rows = "/M:" + std::to_string(n_rows);
      const auto fits = [&](const MatrixShape& shape) { return shape.n_cols % columns_of_blocks(type) == 0; };
      std::vector<MatrixShape> whole = model;
      if (n_rows < 128) whole.push_back(kModelHead);  // a long prompt needs logits only for its last row
      if (std::ranges::all_of(whole, fits)) add("model/" + type_name + rows, type, whole, n_rows, Numerics::kExact);
      if (panel_is_float(type) && n_rows >= 32) {
        add("model/" + type_name + "-blas" + rows, type, whole, n_rows, Numerics::kFast);
      }
      for (const MatrixShape& shape : kShapes) {
        if (!fits(shape)) continue;
        const size_t copies =
            1 + kWorkingSet / packed_bytes(type, shape.n_rows, shape.n_cols) / (n_rows >= 32 ? n_rows / 4 : 1);
        const std::string size = "/" + std::to_string(shape.n_rows) + "x" + std::to_string(shape.n_cols) + rows;
        const std::vector<MatrixShape> matrices(copies, shape);
        add("linear/" + type_name + size, type, matrices, n_rows, Numerics::kExact);
        if (panel_is_float(type) && n_rows >= 32) {
          add("linear/" + type_name + "-blas" + size, type, matrices, n_rows, Numerics::kFast);
        }
      }
    }
  }
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  const ibid::Result<ibid::Isa> isa = ibid::active_isa();
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().message().c_str());
    return 2;
  }
  ibid::register_all();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
