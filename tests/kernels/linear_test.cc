#include "kernels/ops/linear.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <thread>

#include "kernels/ops/blas.h"
#include "tests/kernels/random_panels.h"

namespace ibid {
namespace {

// Returns y[n_rows, 16 * n_panels] of linear() on a thread team.
AlignedArray<float> run_team(int n_threads, const Kernels& kernels, Numerics numerics, const TestWeights& w,
                             const TestInput& in) {
  const size_t y_stride = w.packed.n_panels() * kPanelRows;
  AlignedArray<float> y(in.n_rows * y_stride);
  const size_t scratch_stride = (linear_scratch_bytes(in.n_cols) + 63) / 64 * 64;
  AlignedArray<std::byte> scratch(scratch_stride * static_cast<size_t>(n_threads));
  const LinearContext context{&kernels, numerics, scratch.data(), scratch_stride};
  LinearInput x;
  x.n_rows = in.n_rows;
  x.n_cols = in.n_cols;
  x.values = const_cast<float*>(in.values.data());
  x.stride = in.stride;
  x.quantized = in.quantized;
  const std::unique_ptr<ThreadTeam> team = ThreadTeam::create(n_threads).value();
  team->run([&](Worker& worker) { linear(worker, context, w.packed, x, y.data(), y_stride); });
  return y;
}

void expect_equal(const AlignedArray<float>& a, const AlignedArray<float>& b) {
  ASSERT_EQ(a.size(), b.size());
  EXPECT_EQ(std::memcmp(a.data(), b.data(), a.size() * sizeof(float)), 0);
}

TEST(Linear, ThreadCountDoesNotChangeABit) {
  const Kernels& kernels = kernels_for(*active_isa());
  for (PanelType type : {PanelType::kP4m, PanelType::kP6k, PanelType::kPH, PanelType::kPF}) {
    for (size_t n_outputs : {7u, 16u, 100u, 1200u}) {  // fewer panels than threads; and enough panels for whole tiles
      const TestWeights w = random_weights(type, n_outputs, 64, 1);
      for (size_t n_rows : {1u, 3u, 11u}) {
        const TestInput in = make_input(kernels, n_rows, 64, random_floats(n_rows * 64, 2));
        const AlignedArray<float> one = run_team(1, kernels, Numerics::kExact, w, in);
        for (int threads : {2, 3, 5}) expect_equal(one, run_team(threads, kernels, Numerics::kExact, w, in));
      }
    }
  }
}

TEST(Linear, ReferenceNumericsSumInDouble) {
  const TestWeights w = random_weights(PanelType::kPF, 20, 300, 1);
  const TestInput in = make_input(reference_kernels(), 2, 300, random_floats(600, 2));
  const AlignedArray<float> y = run_team(2, reference_kernels(), Numerics::kReference, w, in);
  expect_equal(y, run_linear(reference_kernels(), w, in, {0, 2}, {0, 2}));
}

class FastLinear : public testing::TestWithParam<PanelType> {};

TEST(Blas, MinimumRowsDependOnInstructionSetAndWeights) {
  const Isa isa = *active_isa();
  const bool pays = isa == Isa::kAvx2 || isa == Isa::kAvxVnni;
  constexpr size_t kNever = std::numeric_limits<size_t>::max();
  EXPECT_EQ(blas_rows(PanelType::kPH), pays ? 128 : kNever);
  EXPECT_EQ(blas_rows(PanelType::kPF), pays ? 512 : kNever);
}

// Numbers of rows on both sides of the limit, with more outputs and more columns than one piece.
TEST_P(FastLinear, OutputsAgreeWithTheOracleWithinTolerance) {
  const Kernels& kernels = kernels_for(*active_isa());
  for (size_t n_cols : {40u, 1100u}) {
    const TestWeights w = random_weights(GetParam(), 300, n_cols, 3);
    for (size_t n_rows : {127, 128, 165, 512}) {
      const TestInput in = make_input(kernels, n_rows, n_cols, random_floats(n_rows * n_cols, 4, 1.0f));
      const AlignedArray<float> fast = run_team(2, kernels, Numerics::kFast, w, in);
      const double bound = 1e-5 * static_cast<double>(n_cols);
      for (size_t row = 0; row < n_rows; ++row) {
        for (size_t i = 0; i < 300; ++i) {
          double exact = 0;
          for (size_t k = 0; k < n_cols; ++k) {
            exact +=
                static_cast<double>(w.values[i * n_cols + k]) * static_cast<double>(in.values[row * in.stride + k]);
          }
          ASSERT_NEAR(static_cast<double>(fast[row * 304 + i]), exact, bound) << row << ' ' << i;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Panels, FastLinear, testing::ValuesIn(kFloatPanels),
                         [](const auto& panel) { return std::string(panel_type_name(panel.param)); });

TEST(Linear, FastModeEqualsExactModeForFewRowsAndForQuantisedWeights) {
  const Kernels& kernels = kernels_for(*active_isa());
  const TestWeights floats = random_weights(PanelType::kPF, 40, 96, 5);
  const TestInput few = make_input(kernels, 127, 96, random_floats(127 * 96, 6));
  expect_equal(run_team(2, kernels, Numerics::kFast, floats, few), run_team(2, kernels, Numerics::kExact, floats, few));
  const TestWeights quantized = random_weights(PanelType::kP8, 40, 96, 5);
  const TestInput many = make_input(kernels, 40, 96, random_floats(40 * 96, 6));
  expect_equal(run_team(2, kernels, Numerics::kFast, quantized, many),
               run_team(2, kernels, Numerics::kExact, quantized, many));
}

TEST(Blas, BlasIsAvailableOnlyWithAMatchingCoreType) {
  if (!blas_available()) GTEST_SKIP() << blas_unavailable_reason() << "; Numerics::kFast runs our kernels";
  void* loaded = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(loaded, nullptr);
  const auto core_name = reinterpret_cast<char* (*)()>(dlsym(loaded, "openblas_get_corename"));
  ASSERT_NE(core_name, nullptr);
  EXPECT_STRNE(core_name(), "Prescott");
  EXPECT_STRNE(core_name(), "");
  dlclose(loaded);
}

TEST(Blas, ReasonIsReportedIfBlasIsUnavailable) {
  EXPECT_EQ(blas_unavailable_reason().empty(), blas_available());
  if (*active_isa() == Isa::kRef) {
    EXPECT_EQ(blas_unavailable_reason(), "the active instruction set is ref, which uses no library");
  }
}

size_t n_threads_of_this_process() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  return static_cast<size_t>(std::distance(begin(threads), end(threads)));
}

// Threads of the library would compete with ours for the cores, and would ignore a requested thread count of one.
TEST(Blas, BlasRunsOnTheCallingThread) {
  if (!blas_available()) GTEST_SKIP() << blas_unavailable_reason() << "; Numerics::kFast runs our kernels";
  if (available_cpus() == 1) GTEST_SKIP() << "with one CPU the library starts no threads";
  const Kernels& kernels = kernels_for(*active_isa());
  const TestWeights w = random_weights(PanelType::kPF, 512, 512, 8);
  const TestInput in = make_input(kernels, 512, 512, random_floats(512 * 512, 9));
  // Use another thread than the one that loaded the library.
  std::thread([&] {
    const size_t before = n_threads_of_this_process();
    run_team(1, kernels, Numerics::kFast, w, in);
    EXPECT_EQ(n_threads_of_this_process(), before);
  }).join();
}

LinearInput as_linear_input(const TestInput& in) {
  LinearInput x;
  x.n_cols = in.n_cols;
  x.values = const_cast<float*>(in.values.data());
  x.stride = in.stride;
  x.quantized = in.quantized;
  x.set_rows(in.n_rows);
  return x;
}

// Kernels compute the same from gathered rows as from the original ones.
TEST(Linear, GatheredRowsGiveTheSameResultsAsRowsInPlace) {
  const Kernels& kernels = kernels_for(*active_isa());
  constexpr size_t kCols = 96, kOutputs = 40, kStride = 48;
  const TestInput in = make_input(kernels, 50, kCols, random_floats(50 * kCols, 6));
  const LinearInput x = as_linear_input(in);
  const std::vector<uint32_t> chosen = {0, 3, 15, 16, 17, 31, 32, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 3};
  TestInput memory = make_input(kernels, chosen.size(), kCols, std::vector<float>(chosen.size() * kCols, 1.0f));
  for (const PanelType type : {PanelType::kP8, PanelType::kP4m, PanelType::kP6k, PanelType::kPF}) {
    const TestWeights w = random_weights(type, kOutputs, kCols, 1);
    const AlignedArray<float> wanted = run_linear(kernels, w, in, {0, 3}, {0, 50});
    AlignedArray<std::byte> scratch(linear_scratch_bytes(kCols));
    const auto run = [&](const LinearInput& input, AlignedArray<float>& y) {
      if (panel_is_float(type)) {
        kernels.linear_float(w.packed, input.values, input.stride, input.n_rows, {0, 3}, y.data(), kStride);
      } else {
        kernels.linear_int8(w.packed, input.quantized, {0, 3}, y.data(), kStride, scratch.data());
      }
    };
    LinearInput gathered = as_linear_input(memory);
    gather_rows(x, chosen, {panel_is_float(type), !panel_is_float(type)}, gathered);
    ASSERT_EQ(gathered.n_rows, chosen.size());
    AlignedArray<float> y(chosen.size() * kStride);
    run(gathered, y);
    for (size_t i = 0; i < chosen.size(); ++i) {
      EXPECT_EQ(std::memcmp(&y[i * kStride], &wanted[chosen[i] * kStride], kOutputs * sizeof(float)), 0) << i;
    }
    for (const size_t first : {size_t{0}, kRowGroup, 2 * kRowGroup}) {
      const LinearInput part = x.rows(first, 50 - first - 1);
      AlignedArray<float> of_part(part.n_rows * kStride);
      run(part, of_part);
      EXPECT_EQ(std::memcmp(of_part.data(), &wanted[first * kStride], part.n_rows * kStride * sizeof(float)), 0);
    }
  }
}

TEST(Linear, PanelRangeOfAMatrixGivesItsPartOfTheOutputs) {
  const Kernels& kernels = kernels_for(*active_isa());
  for (const PanelType type : {PanelType::kP8, PanelType::kP4k, PanelType::kPH}) {
    TestWeights w = random_weights(type, 70, 64, 1);  // the last panel has 6 rows
    const TestInput in = make_input(kernels, 3, 64, random_floats(3 * 64, 2));
    const AlignedArray<float> whole = run_linear(kernels, w, in, {0, 5}, {0, 3});
    const PackedMatrix all = w.packed;
    for (const Range panels : {Range{0, 2}, Range{1, 4}, Range{3, 5}, Range{4, 5}}) {
      w.packed = panels_of(all, panels);
      EXPECT_EQ(w.packed.n_rows, std::min<size_t>(70, panels.end * 16) - panels.begin * 16);
      const AlignedArray<float> part = run_linear(kernels, w, in, {0, panels.size()}, {0, 3});
      for (size_t i = 0; i < 3; ++i) {
        EXPECT_EQ(std::memcmp(&part[i * panels.size() * 16], &whole[i * 80 + panels.begin * 16],
                              w.packed.n_rows * sizeof(float)),
                  0);
      }
    }
  }
}

TEST(Linear, WideningToFloatIsExact) {
  for (PanelType type : kFloatPanels) {
    const TestWeights w = random_weights(type, 48, 21, 7);
    for (Isa isa : supported_isas()) {
      AlignedArray<float> out(7 * 32);
      kernels_for(isa).widen_panels(w.packed, {1, 3}, {5, 12}, out.data());
      for (size_t k = 0; k < 7; ++k) {
        for (size_t i = 0; i < 32; ++i) EXPECT_EQ(out[k * 32 + i], w.values[(16 + i) * 21 + 5 + k]);
      }
    }
  }
}

TEST(Linear, Widening8BitFloatsIsExact) {
  for (PanelType type : kF8Panels) {
    const TestWeights w = random_weights(type, 48, 96, 7);
    for (Isa isa : supported_isas()) {
      AlignedArray<float> out(40 * 32);
      kernels_for(isa).widen_panels(w.packed, {1, 3}, {27, 67}, out.data());
      for (size_t k = 0; k < 40; ++k) {
        for (size_t i = 0; i < 32; ++i) EXPECT_EQ(out[k * 32 + i], w.values[(16 + i) * 96 + 27 + k]);
      }
    }
  }
}

}  // namespace
}  // namespace ibid
