// Attention of all layers over stored pages: one decoded token, a short turn or a prefill, per type of keys and
// values.
//   bench_attention [--benchmark_filter=decode/f16] [--benchmark_...]     IBID_FORCE_ISA, IBID_THREADS (2)
// Shapes: SmolLM2-135M (9 heads, 3 KV heads, head_dim 64, 30 layers) and a layer stack of a 7B model with
// grouped heads (32 heads, 8 KV heads, 128, 4 of its 32 layers). Counters: ms for all layers, GB/s of keys and
// values, GFLOP/s (4 per query head, position seen and dimension).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "kernels/attention.h"
#include "kernels/dispatch.h"

namespace ibid {
namespace {

struct Model {
  const char* name;
  size_t n_heads, n_kv_heads, head_dim, n_layers;
};

constexpr Model kModels[] = {{"smollm2", 9, 3, 64, 30}, {"gqa8_4layers", 32, 8, 128, 4}};
constexpr KvDType kTypes[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8};
constexpr const char* kTypeNames[] = {"f32", "f16", "int8"};

struct Work {
  size_t history, n_rows;
};

constexpr Work kWork[] = {{1023, 1},  {4095, 1},  {16383, 1}, {1024, 2},  {1024, 3},  {1024, 4},   {1024, 8},
                          {1024, 16}, {1024, 32}, {1024, 44}, {1024, 64}, {0, 512},   {1536, 512}, {4096, 44}};

int thread_count() {
  const char* wanted = std::getenv("IBID_THREADS");
  return wanted == nullptr ? 2 : std::atoi(wanted);
}

// Pages of random rows, all layers in each, as the cache has them.
struct History {
  KvHeadBlock block;
  size_t layer_bytes;
  Arena arena;
  std::vector<const std::byte*> pages;

  History(const Kernels& kernels, const Model& model, KvDType dtype, size_t n_positions)
      : block(KvHeadBlock::make(dtype, model.head_dim)), layer_bytes(model.n_kv_heads * block.bytes) {
    const size_t n_pages = (n_positions + kPagePositions - 1) / kPagePositions;
    const size_t page_bytes = model.n_layers * layer_bytes;
    arena = Arena::create((n_pages + 1) * page_bytes + kCacheLine).value();
    std::byte* sample = arena.allocate(block.bytes);
    std::vector<float> row(model.head_dim);
    for (size_t p = 0; p < kPagePositions; ++p) {
      for (size_t d = 0; d < row.size(); ++d) row[d] = std::sin(static_cast<float>(p * 131 + d * 7));
      kernels.kv_store(block, sample, p, row.data(), row.data());
    }
    for (size_t i = 0; i < n_pages; ++i) {
      std::byte* page = arena.allocate(page_bytes);
      for (size_t at = 0; at < page_bytes; at += block.bytes) std::memcpy(page + at, sample, block.bytes);
      pages.push_back(page);
    }
  }
};

void run(benchmark::State& state, const Model& model, KvDType dtype, const Work& work) {
  const Kernels& kernels = kernels_for(*active_isa());
  const size_t n_positions = work.history + work.n_rows;
  const History history(kernels, model, dtype, n_positions);
  AttentionShape shape;
  shape.n_heads = model.n_heads;
  shape.n_kv_heads = model.n_kv_heads;
  shape.head_dim = model.head_dim;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim));
  const size_t stride = model.n_heads * model.head_dim;
  const int n_threads = thread_count();
  const size_t scratch_bytes = attention_scratch_bytes(shape, work.n_rows, n_positions, n_threads);
  Arena arena = Arena::create(scratch_bytes + 2 * work.n_rows * stride * sizeof(float) + 3 * kCacheLine).value();
  std::byte* scratch = arena.allocate(scratch_bytes);
  const auto q = arena.allocate_array<float>(work.n_rows * stride);
  const auto out = arena.allocate_array<float>(work.n_rows * stride);
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::cos(static_cast<float>(i));
  const std::vector<AttentionSequence> sequences = {{history.pages.data(), 0, work.n_rows, work.history}};
  ThreadTeam team(n_threads);
  for (auto _ : state) {
    team.run([&](Worker& worker) {
      for (size_t layer = 0; layer < model.n_layers; ++layer) {
        attention(worker, kernels, shape, history.block, layer * history.layer_bytes, sequences, q.data(),
                  out.data(), stride, scratch);
      }
    });
  }
  const double passes = static_cast<double>(state.iterations());
  const double layers = static_cast<double>(model.n_layers);
  const double seen = static_cast<double>(work.n_rows) *
                      (static_cast<double>(work.history) + static_cast<double>(work.n_rows + 1) / 2);
  const double flops = 4 * seen * static_cast<double>(model.n_heads * model.head_dim) * layers;
  const double bytes = static_cast<double>(n_positions * history.layer_bytes) / kPagePositions * layers;
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * passes * 1e-9, Counter::kIsRate);
  state.counters["GFLOP/s"] = Counter(flops * passes * 1e-9, Counter::kIsRate);
}

void register_all() {
  for (const Model& model : kModels) {
    for (const Work& work : kWork) {
      for (size_t type = 0; type < std::size(kTypes); ++type) {
        const std::string name = std::string(work.n_rows == 1 ? "decode/" : "rows/") + kTypeNames[type] + "/" +
                                 model.name + "/history:" + std::to_string(work.history) +
                                 "/rows:" + std::to_string(work.n_rows);
        const KvDType dtype = kTypes[type];
        benchmark::RegisterBenchmark(name.c_str(), [&model, &work, dtype](benchmark::State& state) {
          run(state, model, dtype, work);
        })->Unit(benchmark::kMillisecond)->UseRealTime();
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
    return 1;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  ibid::register_all();
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
