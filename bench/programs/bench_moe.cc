// The experts of a synthetic model: 12 layers of 64 experts, 8 of them active per row, 1.2 B parameters of which 0.15 B
// are used for a row. 1 row (decode) to 512 (prefill), each row routed separately.
//   bench_moe [--benchmark_filter=moe/P4k] [--benchmark_...]     IBID_FORCE_ISA, IBID_THREADS (2)
// Counters: GB/s of the experts that some row uses, each counted once, and its share of the read bandwidth of all of
// them; the share of all experts that were used; GOP/s. Reading unused experts would show in the bandwidth: at one
// row, `used%` is 12.5.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "bench/lab/machine_peaks.h"
#include "kernels/ops/dispatch.h"
#include "model/forward/activations.h"
#include "model/forward/moe_block.h"

namespace ibid {
namespace {

constexpr PanelType kTypes[] = {PanelType::kP4, PanelType::kP4k, PanelType::kP6k, PanelType::kP8, PanelType::kPH};
constexpr size_t kRows[] = {1, 2, 4, 8, 32, 512};
constexpr size_t kLayers = 12, kDim = 1024, kFfnDim = 512, kExperts = 64, kActive = 8;

ThreadTeam& team() {
  const char* wanted = std::getenv("IBID_THREADS");
  static const std::unique_ptr<ThreadTeam> instance =
      ThreadTeam::create(wanted == nullptr ? 2 : std::atoi(wanted)).value();
  return *instance;
}

class Workload {
 public:
  Workload(PanelType type, size_t n_rows) : n_rows_(n_rows) {
    rule_.router = {.n_experts = kExperts, .n_experts_active = kActive, .normalized = true};
    rule_.ffn_dim = kFfnDim;
    const MoeBuffers::Sizes sizes{.dim = kDim,
                                  .max_rows = n_rows,
                                  .own_rows = Activations::kOwnRows,
                                  .n_threads = team().size(),
                                  .quantized_h = !panel_is_float(type),
                                  .quantized_gated = !panel_is_float(type)};
    size_t scratch_bytes = 0;
    MoeBuffers::lay_out(rule_, sizes, [&](size_t n) {
      scratch_bytes += Arena::padded(n);
      return nullptr;
    });
    expert_bytes_ = 2 * packed_bytes(type, kFfnDim, kDim) + packed_bytes(type, kDim, kFfnDim);
    const size_t router_bytes = packed_bytes(PanelType::kPF, kExperts, kDim);
    scratch_stride_ = Arena::padded(linear_scratch_bytes(kDim));
    const size_t threads = static_cast<size_t>(team().size());
    Result<Arena> arena =
        Arena::create(kLayers * (router_bytes + kExperts * (expert_bytes_ + 192)) + scratch_bytes +
                      scratch_stride_ * threads + n_rows * kDim * 16 + QuantizedRows::bytes(n_rows, kDim) + 4096);
    CHECK(arena.ok()) << arena.status().message();
    arena_ = std::move(*arena);
    for (size_t l = 0; l < kLayers; ++l) layers_.push_back(layer(type));
    buffers_ = MoeBuffers::lay_out(rule_, sizes, [&](size_t n) { return arena_.allocate(n); });
    scratch_ = arena_.allocate(scratch_stride_ * threads);
    out_ = Rows{arena_.allocate_array<float>(n_rows * kDim).data(), kDim};
    make_input(!panel_is_float(type));
  }

  // Runs all layers once, and returns the seconds.
  double run() {
    double seconds = 0;
    const LinearContext context{&kernels_, Numerics::kExact, scratch_, scratch_stride_};
    const bool alone = n_rows_ <= Activations::kOwnRows;
    team().run([&](const Worker& worker) {
      worker.barrier();
      const auto start = std::chrono::steady_clock::now();
      const Range rows = alone ? Range{0, n_rows_} : worker.share(n_rows_);
      for (const MoeWeights& layer : layers_) {
        CHECK(moe_block({worker, context, h_, h_, alone, rows, out_}, rule_, layer, buffers_));
        worker.barrier();
      }
      if (worker.index() == 0) {
        seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      }
    });
    return seconds;
  }

  // Counts the experts that at least one row uses, over all layers.
  size_t count_used() const {
    size_t n_used = 0;
    std::vector<float> scratch(route_scratch_floats(rule_.router));
    std::vector<ExpertChoice> chosen(kActive);
    for (const MoeWeights& layer : layers_) {
      std::set<uint32_t> used;
      for (size_t i = 0; i < n_rows_; ++i) {
        const float* x = h_.values + i * kDim;
        std::vector<float> logits(kPanelRows * layer.router.n_panels());
        kernels_.linear_float(layer.router, x, kDim, 1, {0, layer.router.n_panels()}, logits.data(), logits.size());
        route(rule_.router, std::span<const float>(logits).first(kExperts), {}, scratch, chosen);
        for (const ExpertChoice& c : chosen) used.insert(c.expert);
      }
      n_used += used.size();
    }
    return n_used;
  }

  size_t expert_bytes() const { return expert_bytes_; }
  std::span<const std::byte> all_experts() const { return experts_; }

 private:
  MoeWeights layer(PanelType type) {
    MoeWeights w;
    std::byte* router = arena_.allocate(packed_bytes(PanelType::kPF, kExperts, kDim));
    for (size_t i = 0; i < kExperts * kDim; ++i) {
      const float value = static_cast<float>(random_() % 2001) * 1e-4f - 0.1f;
      std::memcpy(router + i * sizeof value, &value, sizeof value);
    }
    w.router = {PanelType::kPF, kExperts, kDim, router};
    for (size_t e = 0; e < kExperts; ++e) {
      const auto matrix = [&](size_t n_rows, size_t n_cols) {
        const size_t bytes = packed_bytes(type, n_rows, n_cols);
        std::byte* data = arena_.allocate(bytes);
        std::memset(data, 0x24, bytes);  // FP16 scales of these bytes are 0.016; codes may be arbitrary
        if (experts_.empty()) experts_ = {data, 0};
        experts_ = {experts_.data(), data + bytes};
        return PackedMatrix{type, n_rows, n_cols, data};
      };
      Expert expert;
      expert.w_gate = matrix(kFfnDim, kDim);
      expert.w_up = matrix(kFfnDim, kDim);
      expert.w_down = matrix(kDim, kFfnDim);
      w.experts.push_back(expert);
    }
    return w;
  }

  void make_input(bool quantized) {
    h_.n_cols = h_.stride = kDim;
    h_.values = arena_.allocate_array<float>(n_rows_ * kDim).data();
    for (size_t i = 0; i < n_rows_ * kDim; ++i) h_.values[i] = static_cast<float>(random_() % 201) * 0.01f - 1.0f;
    if (quantized) {
      h_.quantized = QuantizedRows::from(arena_.allocate(QuantizedRows::bytes(n_rows_, kDim)), n_rows_, kDim);
      for (size_t i = 0; i < n_rows_; ++i) {
        kernels_.quantize_blocks(h_.values + i * kDim, i, {0, h_.quantized.blocks()}, h_.quantized);
      }
    }
    h_.set_rows(n_rows_);
  }

  const Kernels& kernels_ = kernels_for(*active_isa());
  std::mt19937 random_{1};
  size_t n_rows_, expert_bytes_ = 0, scratch_stride_ = 0;
  Arena arena_;
  MoeRule rule_;
  std::vector<MoeWeights> layers_;
  std::span<const std::byte> experts_;
  MoeBuffers buffers_;
  std::byte* scratch_ = nullptr;
  LinearInput h_;
  Rows out_;
};

void run_workload(benchmark::State& state, PanelType type, size_t n_rows) {
  Workload workload(type, n_rows);
  workload.run();
  double best = 1e30;
  for (auto _ : state) {
    const double seconds = workload.run();
    state.SetIterationTime(seconds);
    best = std::min(best, seconds);
  }
  const double n_used = static_cast<double>(workload.count_used());
  const double gbps = n_used * static_cast<double>(workload.expert_bytes()) / best / 1e9;
  state.counters["GBps"] = gbps;
  state.counters["bw%"] = 100 * gbps / read_bandwidth_gbps(team(), workload.all_experts());
  state.counters["used%"] = 100 * n_used / (kLayers * kExperts);
  state.counters["GOPs"] = static_cast<double>(2 * 3 * kLayers * n_rows * kActive * kDim * kFfnDim) / best / 1e9;
  state.counters["ms"] = best * 1e3;
}

}  // namespace
}  // namespace ibid

int main(int argc, char** argv) {
  const ibid::Result<ibid::Isa> isa = ibid::active_isa();
  if (!isa.ok()) {
    std::fprintf(stderr, "%s\n", isa.status().message().c_str());
    return 2;
  }
  for (const ibid::PanelType type : ibid::kTypes) {
    for (const size_t n_rows : ibid::kRows) {
      const std::string name = std::string("moe/") + ibid::panel_type_name(type) + "/M:" + std::to_string(n_rows);
      benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& s) { ibid::run_workload(s, type, n_rows); })
          ->UseManualTime()
          ->MinTime(0.2);
    }
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
