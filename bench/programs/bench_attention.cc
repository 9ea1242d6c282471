// Attention of all layers over stored pages: one decoded token, a short turn or a prefill, per type of keys and
// values; and several sequences that begin with the same pages, read once (shared) or once per sequence (apart).
//   bench_attention [--benchmark_filter=decode/f16] [--benchmark_...]     IBID_FORCE_ISA, IBID_THREADS (2)
// Shapes: SmolLM2-135M (9 heads, 3 KV heads, head_dim 64, 30 layers) and a layer stack of a 7B model with
// grouped heads (32 heads, 8 KV heads, 128, 4 of its 32 layers). Counters: ms for all layers, GB/s of keys and
// values, GFLOP/s (4 per query head, visible position and dimension).
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/dispatch.h"

namespace ibid {
namespace {

struct Model {
  const char* name;
  size_t n_heads, n_kv_heads, head_dim, n_layers;
};

constexpr Model kModels[] = {{"smollm2", 9, 3, 64, 30}, {"gqa8_4layers", 32, 8, 128, 4}};
constexpr KvDType kTypes[] = {KvDType::kF32, KvDType::kF16, KvDType::kInt8, KvDType::kK8V4, KvDType::kInt4};
constexpr const char* kTypeNames[] = {"f32", "f16", "int8", "k8v4", "int4"};

struct Work {
  size_t history, n_rows;
};

constexpr Work kWork[] = {{1023, 1},  {4095, 1},  {16383, 1}, {1024, 2},  {1024, 3}, {1024, 4},   {1024, 8},
                          {1024, 16}, {1024, 32}, {1024, 44}, {1024, 64}, {0, 512},  {1536, 512}, {4096, 44}};

int thread_count() {
  const char* wanted = std::getenv("IBID_THREADS");
  return wanted == nullptr ? 2 : std::atoi(wanted);
}

// Several sequences with n_rows new rows each, after `shared` common positions and `own` positions that differ.
struct SharedPrefixCase {
  size_t n_sequences, shared, own, n_rows;
};

constexpr SharedPrefixCase kSharedPrefixCases[] = {
    {8, 3000, 72, 1}, {8, 3000, 72, 8}, {8, 3000, 72, 44}, {2, 3000, 72, 1}, {8, 300, 72, 1}};

// Pages of random rows; each page has all layers, as in the cache.
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

AttentionShape shape_of(const Model& model) {
  AttentionShape shape;
  shape.n_heads = model.n_heads;
  shape.n_kv_heads = model.n_kv_heads;
  shape.head_dim = model.head_dim;
  shape.scale = 1.0f / std::sqrt(static_cast<float>(model.head_dim));
  return shape;
}

// One iteration is a pass through all layers.
void run_passes(benchmark::State& state, const Model& model, const History& history,
                const std::vector<AttentionSequence>& sequences, size_t n_rows, size_t n_positions) {
  const Kernels& kernels = kernels_for(*active_isa());
  const AttentionShape shape = shape_of(model);
  const size_t stride = model.n_heads * model.head_dim;
  const int n_threads = thread_count();
  const size_t scratch_bytes = attention_scratch_bytes(shape, n_rows, n_positions, n_threads);
  Arena arena = Arena::create(scratch_bytes + 2 * n_rows * stride * sizeof(float) + 3 * kCacheLine).value();
  std::byte* scratch = arena.allocate(scratch_bytes);
  const auto q = arena.allocate_array<float>(n_rows * stride);
  const auto out = arena.allocate_array<float>(n_rows * stride);
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::cos(static_cast<float>(i));
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
  for (auto _ : state) {
    team->run([&](Worker& worker) {
      for (size_t layer = 0; layer < model.n_layers; ++layer) {
        attention(worker, kernels, shape, history.block, layer * history.layer_bytes, sequences, q.data(), out.data(),
                  stride, scratch);
      }
    });
  }
}

void run(benchmark::State& state, const Model& model, KvDType dtype, const Work& work) {
  const size_t n_positions = work.history + work.n_rows;
  const History history(kernels_for(*active_isa()), model, dtype, n_positions);
  const std::vector<AttentionSequence> sequences = {{history.pages.data(), 0, work.n_rows, work.history}};
  run_passes(state, model, history, sequences, work.n_rows, n_positions);
  const double passes = static_cast<double>(state.iterations());
  const double layers = static_cast<double>(model.n_layers);
  const double seen =
      static_cast<double>(work.n_rows) * (static_cast<double>(work.history) + static_cast<double>(work.n_rows + 1) / 2);
  const double flops = 4 * seen * static_cast<double>(model.n_heads * model.head_dim) * layers;
  const double bytes = static_cast<double>(n_positions * history.layer_bytes) / kPagePositions * layers;
  using benchmark::Counter;
  state.counters["GB/s"] = Counter(bytes * passes * 1e-9, Counter::kIsRate);
  state.counters["GFLOP/s"] = Counter(flops * passes * 1e-9, Counter::kIsRate);
}

// together: if true, blocks that sequences share are read once; else, once for each sequence.
void run_shared_prefix(benchmark::State& state, const Model& model, KvDType dtype,
                       const SharedPrefixCase& shared_prefix, bool together) {
  const size_t n_positions = shared_prefix.shared + shared_prefix.own + shared_prefix.n_rows;
  const size_t n_pages = (n_positions + kPagePositions - 1) / kPagePositions;
  const size_t n_shared = shared_prefix.shared / kPagePositions, n_own = n_pages - n_shared;
  const History history(kernels_for(*active_isa()), model, dtype,
                        (n_shared + shared_prefix.n_sequences * n_own) * kPagePositions);
  std::vector<std::vector<const std::byte*>> pages;
  std::vector<AttentionSequence> sequences;
  for (size_t i = 0; i < shared_prefix.n_sequences; ++i) {
    const auto first = history.pages.begin(), own = first + static_cast<std::ptrdiff_t>(n_shared + i * n_own);
    pages.emplace_back(first, first + static_cast<std::ptrdiff_t>(n_shared));
    pages.back().insert(pages.back().end(), own, own + static_cast<std::ptrdiff_t>(n_own));
    sequences.push_back({pages.back().data(), i * shared_prefix.n_rows, shared_prefix.n_rows,
                         shared_prefix.shared + shared_prefix.own});
  }
  if (together) share_blocks(sequences);
  run_passes(state, model, history, sequences, shared_prefix.n_sequences * shared_prefix.n_rows, n_positions);
}

void register_shared_prefix(const Model& model, size_t type, const SharedPrefixCase& shared_prefix) {
  for (const bool together : {false, true}) {
    const std::string name =
        std::string(together ? "company_shared/" : "company_apart/") + kTypeNames[type] + "/" + model.name +
        "/sequences:" + std::to_string(shared_prefix.n_sequences) + "/shared:" + std::to_string(shared_prefix.shared) +
        "/own:" + std::to_string(shared_prefix.own) + "/rows:" + std::to_string(shared_prefix.n_rows);
    const KvDType dtype = kTypes[type];
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&model, &shared_prefix, dtype, together](benchmark::State& state) {
                                   run_shared_prefix(state, model, dtype, shared_prefix, together);
                                 })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

void register_all() {
  for (const Model& model : kModels) {
    for (const Work& work : kWork) {
      for (size_t type = 0; type < std::size(kTypes); ++type) {
        const std::string name = std::string(work.n_rows == 1 ? "decode/" : "rows/") + kTypeNames[type] + "/" +
                                 model.name + "/history:" + std::to_string(work.history) +
                                 "/rows:" + std::to_string(work.n_rows);
        const KvDType dtype = kTypes[type];
        benchmark::RegisterBenchmark(
            name.c_str(), [&model, &work, dtype](benchmark::State& state) { run(state, model, dtype, work); })
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
    for (const SharedPrefixCase& shared_prefix : kSharedPrefixCases) {
      for (size_t type = 0; type < std::size(kTypes); ++type) register_shared_prefix(model, type, shared_prefix);
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
