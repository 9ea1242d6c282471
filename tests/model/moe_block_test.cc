// The block of experts compared with a naive computation in double, and its laws: no bit of a row depends on other
// rows, on how rows are split into passes or on the number of threads, and experts that no row uses are not read.
#include "model/forward/moe_block.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cmath>
#include <cstring>
#include <random>

#include "base/arena.h"
#include "model/forward/activations.h"
#include "tests/kernels/random_panels.h"
#include "tests/support/same_bits.h"

namespace ibid {
namespace {

struct Case {
  const char* name;
  PanelType gate_type, down_type;
  RouterScores scores = RouterScores::kSoftmax;
  bool shared = false, shared_gate = false, biases = false;
  size_t n_experts = 11, n_active = 3;
  size_t dim = 96, ffn_dim = 160, shared_ffn_dim = 64;
  Activation::Kind activation = Activation::Kind::kSilu;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case kCases[] = {
    {.name = "F32", .gate_type = PanelType::kPF, .down_type = PanelType::kPF},
    {.name = "F16SharedGated",
     .gate_type = PanelType::kPH,
     .down_type = PanelType::kPH,
     .shared = true,
     .shared_gate = true},
    {.name = "Q8Shared",
     .gate_type = PanelType::kP8,
     .down_type = PanelType::kP8,
     .scores = RouterScores::kSigmoid,
     .shared = true},
    {.name = "Q4KandQ6KBiases",
     .gate_type = PanelType::kP4k,
     .down_type = PanelType::kP6k,
     .scores = RouterScores::kSoftmaxOfChosen,
     .biases = true,
     .dim = 256,
     .ffn_dim = 256},
    {.name = "Q4andF16", .gate_type = PanelType::kP4, .down_type = PanelType::kPH, .n_experts = 4, .n_active = 4},
    {.name = "F32Gelu",
     .gate_type = PanelType::kPF,
     .down_type = PanelType::kPF,
     .activation = Activation::Kind::kGelu},
    {.name = "F16andQ8Biases",
     .gate_type = PanelType::kPH,
     .down_type = PanelType::kP8,
     .shared = true,
     .biases = true},
    // More columns than a tile, both in the experts and in the shared expert; no size is a multiple of 16.
    {.name = "F32Wide",
     .gate_type = PanelType::kPF,
     .down_type = PanelType::kPF,
     .shared = true,
     .n_experts = 3,
     .n_active = 1,
     .dim = 70,
     .ffn_dim = 530,
     .shared_ffn_dim = 1100},
    {.name = "Q8Wide",
     .gate_type = PanelType::kP8,
     .down_type = PanelType::kP8,
     .n_experts = 3,
     .n_active = 2,
     .dim = 576,
     .ffn_dim = 1056},
};

// A layer of experts, with the float values of its panels.
class Layer {
 public:
  explicit Layer(const Case& c) {
    rule.router = {.scores = c.scores, .n_experts = c.n_experts, .n_experts_active = c.n_active};
    rule.ffn_dim = c.ffn_dim;
    rule.shared_ffn_dim = c.shared ? c.shared_ffn_dim : 0;
    if (c.biases) rule.swiglu_limit = 7.0f;
    rule.activation.kind = c.activation;
    weights.router = matrix(PanelType::kPF, c.n_experts, c.dim);
    if (c.biases) weights.router_bias = vector(c.n_experts);
    if (c.scores == RouterScores::kSigmoid) weights.choice_bias = vector(c.n_experts);
    for (size_t e = 0; e < c.n_experts; ++e) weights.experts.push_back(expert(c, c.ffn_dim));
    if (c.shared) weights.shared = expert(c, c.shared_ffn_dim);
    if (c.shared_gate) weights.shared_gate = matrix(PanelType::kPF, 1, c.dim);
    quantized_gated = !panel_is_float(c.down_type);
  }

  const std::vector<float>& values(const PackedMatrix& w) const {
    for (const TestWeights& m : matrices_) {
      if (m.packed.data == w.data) return m.values;
    }
    std::abort();
  }

  MoeRule rule;
  MoeWeights weights;
  bool quantized_gated = false;

 private:
  Expert expert(const Case& c, size_t ffn_dim) {
    Expert e;
    e.w_gate = matrix(c.gate_type, ffn_dim, c.dim);
    e.w_up = matrix(c.gate_type, ffn_dim, c.dim);
    e.w_down = matrix(c.down_type, c.dim, ffn_dim);
    if (!c.biases) return e;
    e.b_gate = vector(ffn_dim);
    e.b_up = vector(ffn_dim);
    e.b_down = vector(c.dim);
    return e;
  }
  PackedMatrix matrix(PanelType type, size_t n_rows, size_t n_cols) {
    matrices_.push_back(random_weights(type, n_rows, n_cols, ++seed_));
    return matrices_.back().packed;
  }
  std::span<const float> vector(size_t n) {
    vectors_.push_back(random_floats((n + 15) / 16 * 16, ++seed_, 0.5f));
    return std::span<const float>(vectors_.back()).first(n);
  }

  unsigned seed_ = 0;
  std::vector<TestWeights> matrices_;
  std::vector<std::vector<float>> vectors_;
};

struct Output {
  bool finite = true;
  std::vector<float> rows;  // [n_rows, dim]
};

// Runs one pass over `rows`, with buffers as in the transformer.
Output run(const Layer& layer, const Kernels& kernels, std::span<const float> rows, size_t dim, int n_threads) {
  const size_t n_rows = rows.size() / dim;
  const TestInput in = make_input(kernels, n_rows, dim, {rows.begin(), rows.end()});
  const MoeBuffers::Sizes sizes{.dim = dim,
                                .max_rows = n_rows,
                                .own_rows = Activations::kOwnRows,
                                .n_threads = n_threads,
                                .quantized_h = dim % kQuantBlock == 0,
                                .quantized_gated = layer.quantized_gated,
                                .quantized_shared_gated = layer.quantized_gated};
  size_t bytes = 0;
  MoeBuffers::lay_out(layer.rule, sizes, [&](size_t n) {
    bytes += Arena::padded(n);
    return nullptr;
  });
  Arena arena = Arena::create(bytes).value();
  MoeBuffers buffers = MoeBuffers::lay_out(layer.rule, sizes, [&](size_t n) { return arena.allocate(n); });
  EXPECT_EQ(arena.used(), bytes);

  const size_t stride = (dim + 63) / 64 * 64;
  AlignedArray<float> out(n_rows * stride);
  const size_t widest = std::max({dim, layer.rule.ffn_dim, layer.rule.shared_ffn_dim});
  const size_t scratch_stride = (linear_scratch_bytes(widest) + 63) / 64 * 64;
  AlignedArray<std::byte> scratch(scratch_stride * static_cast<size_t>(n_threads));
  const Numerics numerics = &kernels == &reference_kernels() ? Numerics::kReference : Numerics::kExact;
  const LinearContext linear{&kernels, numerics, scratch.data(), scratch_stride};
  LinearInput h;
  h.n_cols = dim;
  h.values = const_cast<float*>(in.values.data());
  h.stride = in.stride;
  h.quantized = in.quantized;
  h.set_rows(n_rows);
  const bool computes_all = n_rows <= Activations::kOwnRows;
  std::atomic<bool> finite = true;
  ThreadTeam::create(n_threads).value()->run([&](const Worker& worker) {
    const Range own = computes_all ? Range{0, n_rows} : worker.share(n_rows);
    const MoeStep step{worker, linear, h, h, computes_all, own, Rows{out.data(), stride}};
    if (!moe_block(step, layer.rule, layer.weights, buffers)) finite = false;
  });
  Output output{finite, {}};
  for (size_t i = 0; i < n_rows; ++i) output.rows.insert(output.rows.end(), &out[i * stride], &out[i * stride] + dim);
  return output;
}

// --- The naive computation.

using Doubles = std::vector<double>;

Doubles times(const Layer& layer, const PackedMatrix& w, const Doubles& x) {
  const std::vector<float>& values = layer.values(w);
  Doubles y(w.n_rows);
  for (size_t r = 0; r < w.n_rows; ++r) {
    for (size_t k = 0; k < w.n_cols; ++k) y[r] += static_cast<double>(values[r * w.n_cols + k]) * x[k];
  }
  return y;
}

void add_bias(Doubles& y, std::span<const float> bias) {
  for (size_t i = 0; i < bias.size(); ++i) y[i] += static_cast<double>(bias[i]);
}

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

Doubles naive_expert(const Layer& layer, const Expert& e, const Doubles& h) {
  Doubles gate = times(layer, e.w_gate, h), up = times(layer, e.w_up, h);
  add_bias(gate, e.b_gate);
  add_bias(up, e.b_up);
  for (size_t i = 0; i < gate.size(); ++i) {
    if (layer.rule.swiglu_limit == 0) {
      const bool gelu = layer.rule.activation.kind == Activation::Kind::kGelu;
      gate[i] *= (gelu ? (1 + std::erf(gate[i] / std::sqrt(2.0))) / 2 : sigmoid(gate[i])) * up[i];
    } else {
      const double limit = layer.rule.swiglu_limit, g = std::min(gate[i], limit);
      gate[i] = (std::clamp(up[i], -limit, limit) + 1) * g * sigmoid(g * static_cast<double>(layer.rule.swiglu_alpha));
    }
  }
  Doubles y = times(layer, e.w_down, gate);
  add_bias(y, e.b_down);
  return y;
}

Doubles naive_row(const Layer& layer, std::span<const float> row) {
  const Doubles h(row.begin(), row.end());
  Doubles logits = times(layer, layer.weights.router, h);
  add_bias(logits, layer.weights.router_bias);
  const RouterRule& rule = layer.rule.router;
  std::vector<float> scratch(route_scratch_floats(rule));
  std::vector<ExpertChoice> chosen(rule.n_experts_active);
  route(rule, std::vector<float>(logits.begin(), logits.end()), layer.weights.choice_bias, scratch, chosen);
  Doubles out(row.size());
  const auto add = [&](const Expert& e, double weight) {
    const Doubles y = naive_expert(layer, e, h);
    for (size_t i = 0; i < out.size(); ++i) out[i] += weight * y[i];
  };
  for (const ExpertChoice& c : chosen) add(layer.weights.experts[c.expert], static_cast<double>(c.weight));
  if (!layer.weights.shared.w_gate.empty()) {
    const PackedMatrix& gate = layer.weights.shared_gate;
    add(layer.weights.shared, gate.empty() ? 1.0 : sigmoid(times(layer, gate, h)[0]));
  }
  return out;
}

class MoeBlock : public testing::TestWithParam<Case> {
 protected:
  std::vector<float> random_rows(size_t n) const { return random_floats(n * GetParam().dim, 77, 0.3f); }
  Output run_on(std::span<const float> rows, int n_threads, Isa isa) const {
    return run(layer_, kernels_for(isa), rows, GetParam().dim, n_threads);
  }
  Layer layer_{GetParam()};
};

// With float weights only the order of sums differs. int8 inputs cost about 0.4 % of a value's size.
TEST_P(MoeBlock, OutputMatchesANaiveComputation) {
  const Case& c = GetParam();
  const std::vector<float> rows = random_rows(40);
  const Output got = run_on(rows, 2, *active_isa());
  EXPECT_TRUE(got.finite);
  const bool floats = panel_is_float(c.gate_type) && panel_is_float(c.down_type);
  double size = 0, error = 0;
  for (size_t i = 0; i < 40; ++i) {
    const Doubles wanted = naive_row(layer_, std::span(rows).subspan(i * c.dim, c.dim));
    for (size_t k = 0; k < c.dim; ++k) {
      size += wanted[k] * wanted[k];
      error += std::pow(static_cast<double>(got.rows[i * c.dim + k]) - wanted[k], 2);
    }
  }
  EXPECT_LE(std::sqrt(error / size), floats ? 1e-6 : 2e-2);
}

// Reference kernels, which sum in double, run the same block.
TEST_P(MoeBlock, ReferenceKernelsMatchTheNaiveComputationMoreClosely) {
  const Case& c = GetParam();
  if (c.gate_type != PanelType::kPF || c.down_type != PanelType::kPF) return;  // kReference computes in float
  const std::vector<float> rows = random_rows(9);
  const Output got = run(layer_, reference_kernels(), rows, c.dim, 2);
  for (size_t i = 0; i < 9; ++i) {
    const Doubles wanted = naive_row(layer_, std::span(rows).subspan(i * c.dim, c.dim));
    double largest = 0;
    for (const double value : wanted) largest = std::max(largest, std::abs(value));
    for (size_t k = 0; k < c.dim; ++k) ASSERT_NEAR(got.rows[i * c.dim + k], wanted[k], 1e-6 * largest);
  }
}

TEST_P(MoeBlock, BitsDoNotDependOnPartitionOrThreads) {
  constexpr size_t kRows = 300;  // more than a tile of the shared expert
  const size_t dim = GetParam().dim;
  const std::vector<float> rows = random_rows(kRows);
  const Output wanted = run_on(rows, 1, *active_isa());
  // The scalar kernels compute row by row and are slow, so one partition of each kind must suffice.
  const bool slow = *active_isa() == Isa::kRef;
  for (const int n_threads : slow ? std::vector{3} : std::vector{2, 3, 5}) {
    EXPECT_EQ(std::memcmp(run_on(rows, n_threads, *active_isa()).rows.data(), wanted.rows.data(),
                          wanted.rows.size() * sizeof(float)),
              0)
        << n_threads;
  }
  std::mt19937 random(3);
  for (int seed = 0; seed < 4; seed += slow ? 2 : 1) {
    for (size_t begin = 0; begin < kRows;) {
      const size_t n = std::min<size_t>(1 + random() % (seed < 2 ? 7 : 90), kRows - begin);
      const int n_threads = 1 + static_cast<int>(random() % 3);
      const Output part = run_on(std::span(rows).subspan(begin * dim, n * dim), n_threads, *active_isa());
      ASSERT_EQ(std::memcmp(part.rows.data(), &wanted.rows[begin * dim], n * dim * sizeof(float)), 0)
          << "rows " << begin << " to " << begin + n << ", " << n_threads << " threads";
      begin += n;
    }
  }
}

TEST_P(MoeBlock, BitsDoNotDependOnOtherRows) {
  constexpr size_t kRows = 60;
  const size_t dim = GetParam().dim;
  const std::vector<float> rows = random_rows(kRows);
  const Output wanted = run_on(rows, 1, *active_isa());
  std::vector<size_t> order(kRows);
  for (size_t i = 0; i < kRows; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(5));
  std::vector<float> shuffled;
  for (const size_t i : order) shuffled.insert(shuffled.end(), &rows[i * dim], &rows[i * dim] + dim);
  const Output got = run_on(shuffled, 2, *active_isa());
  for (size_t i = 0; i < kRows; ++i) {
    ASSERT_EQ(std::memcmp(&got.rows[i * dim], &wanted.rows[order[i] * dim], dim * sizeof(float)), 0) << i;
  }
}

TEST_P(MoeBlock, BitsDoNotDependOnInstructionSet) {
  if (an_isa_is_forced()) GTEST_SKIP() << "all instruction sets are compared where none is forced";
  const std::vector<float> rows = random_rows(21);
  const Output wanted = run_on(rows, 1, Isa::kRef);
  for (const Isa isa : supported_isas()) {
    EXPECT_EQ(std::memcmp(run_on(rows, 2, isa).rows.data(), wanted.rows.data(), wanted.rows.size() * sizeof(float)), 0)
        << isa_name(isa);
  }
}

INSTANTIATE_TEST_SUITE_P(All, MoeBlock, testing::ValuesIn(kCases), [](const auto& test) { return test.param.name; });

// Memory without access rights: reading it would end the process.
class ForbiddenMemory {
 public:
  explicit ForbiddenMemory(size_t bytes)
      : bytes_(bytes), data_(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    CHECK(data_ != MAP_FAILED);
  }
  ~ForbiddenMemory() { munmap(data_, bytes_); }
  const std::byte* data() const { return static_cast<const std::byte*>(data_); }

 private:
  size_t bytes_;
  void* data_;
};

TEST(MoeBlockReads, OnlyUsedExpertsAreRead) {
  const Case c{.name = "", .gate_type = PanelType::kP8, .down_type = PanelType::kP8, .n_experts = 9, .n_active = 2};
  Layer layer(c);
  for (const size_t n_rows : {1u, 2u, 6u}) {
    const std::vector<float> rows = random_floats(n_rows * c.dim, static_cast<unsigned>(n_rows), 0.3f);
    const Output wanted = run(layer, kernels_for(*active_isa()), rows, c.dim, 2);
    // Move each unused expert to forbidden memory, one at a time.
    size_t n_unused = 0;
    for (size_t e = 0; e < c.n_experts; ++e) {
      bool used = false;
      for (size_t i = 0; i < n_rows && !used; ++i) {
        const Doubles h(&rows[i * c.dim], &rows[i * c.dim] + c.dim);
        const Doubles logits = times(layer, layer.weights.router, h);
        std::vector<float> scratch(route_scratch_floats(layer.rule.router));
        std::vector<ExpertChoice> chosen(c.n_active);
        route(layer.rule.router, std::vector<float>(logits.begin(), logits.end()), {}, scratch, chosen);
        for (const ExpertChoice& choice : chosen) used |= choice.expert == e;
      }
      if (used) continue;
      ++n_unused;
      Expert& expert = layer.weights.experts[e];
      const Expert before = expert;
      const ForbiddenMemory memory(packed_bytes(c.gate_type, c.ffn_dim, c.dim) +
                                   packed_bytes(c.down_type, c.dim, c.ffn_dim));
      expert.w_gate.data = expert.w_up.data = expert.w_down.data = memory.data();
      const Output got = run(layer, kernels_for(*active_isa()), rows, c.dim, 2);
      EXPECT_EQ(got.rows, wanted.rows);
      expert = before;
    }
    EXPECT_GT(n_unused, 0u);
  }
}

TEST(MoeBlockErrors, NonFiniteRouterLogitsAreReported) {
  const Case c{.name = "", .gate_type = PanelType::kPF, .down_type = PanelType::kPF};
  const Layer layer(c);
  for (const size_t n_rows : {1u, 30u}) {
    std::vector<float> rows = random_floats(n_rows * c.dim, 1, 0.3f);
    EXPECT_TRUE(run(layer, kernels_for(*active_isa()), rows, c.dim, 2).finite);
    rows[(n_rows - 1) * c.dim] = std::nanf("");
    EXPECT_FALSE(run(layer, kernels_for(*active_isa()), rows, c.dim, 2).finite);
  }
}

}  // namespace
}  // namespace ibid
