#include "model/weights/finite_check.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/number_formats.h"
#include "model/weights/each_tensor.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// True if a number of the row has all bits of `mask` set: the exponent of infinity and NaN. Branchless, so that it
// vectorises.
template <typename Bits>
bool any_has(std::span<const std::byte> row, Bits mask) {
  const std::byte* at = row.data();
  const size_t n = row.size() / sizeof(Bits);
  Bits any = 0;
  for (size_t i = 0; i < n; ++i) {
    Bits bits;
    std::memcpy(&bits, at + i * sizeof bits, sizeof bits);
    any = static_cast<Bits>(any | ((bits & mask) == mask ? 1 : 0));
  }
  return any != 0;
}

uint16_t half_at(const std::byte* bytes) {
  uint16_t bits = 0;
  std::memcpy(&bits, bytes, sizeof bits);
  return bits;
}

bool half_is_finite(uint16_t bits) { return (bits & 0x7c00) != 0x7c00; }

bool decoded_is_finite(DType dtype, std::span<const std::byte> block) {
  std::array<float, kMaxValuesPerBlock> values;
  const std::span<float> decoded = std::span(values).first(dtype_block(dtype).values);
  dequantize_row(dtype, block, decoded);
  return all_finite(decoded);
}

// Checks blocks of an F32 scale and 32 codes (8-bit floats). A code with all bits of `mask` set is infinite or NaN.
bool scaled_are_finite(DType dtype, std::span<const std::byte> row, uint8_t mask) {
  constexpr size_t kCodes = 32;
  constexpr float kSmall = std::numeric_limits<float>::max() / 65536;  // all codes are below 65,536
  for (; !row.empty(); row = row.subspan(sizeof(float) + kCodes)) {
    float scale = 0;
    std::memcpy(&scale, row.data(), sizeof scale);
    if (!std::isfinite(scale)) return false;
    if (any_has<uint8_t>(row.subspan(sizeof scale, kCodes), mask)) return false;
    if (std::fabs(scale) > kSmall && !decoded_is_finite(dtype, row.first(sizeof scale + kCodes))) return false;
  }
  return true;
}

// The F16 factors of all numbers of a block: n of them, at byte `first` of the block. The other factors are integers,
// too small to make a product infinite.
struct BlockHalves {
  DType dtype;
  size_t first, n;
};
constexpr BlockHalves kHalves[] = {
    {DType::kQ4_0, 0, 1},    {DType::kQ4_1, 0, 2},    {DType::kQ5_0, 0, 1},   {DType::kQ5_1, 0, 2},
    {DType::kQ8_0, 0, 1},    {DType::kQ2_K, 80, 2},   {DType::kQ3_K, 108, 1}, {DType::kQ4_K, 0, 2},
    {DType::kQ5_K, 0, 2},    {DType::kQ6_K, 208, 1},  {DType::kTQ1_0, 52, 1}, {DType::kTQ2_0, 64, 1},
    {DType::kIQ1_S, 0, 1},   {DType::kIQ2_XXS, 0, 1}, {DType::kIQ2_XS, 0, 1}, {DType::kIQ2_S, 0, 1},
    {DType::kIQ3_XXS, 0, 1}, {DType::kIQ3_S, 0, 1},   {DType::kIQ4_XS, 0, 1}, {DType::kIQ4_NL, 0, 1},
};

bool halves_are_finite(const BlockHalves& halves, std::span<const std::byte> row) {
  const size_t block = dtype_block(halves.dtype).bytes;
  unsigned bad = 0;
  for (size_t at = halves.first; at < row.size(); at += block) {
    for (size_t i = 0; i < halves.n; ++i) bad |= half_is_finite(half_at(&row[at + 2 * i])) ? 0u : 1u;
  }
  return bad == 0;
}

// IQ1_M spreads its F16 scale over the upper four bits of the four 16-bit words at the end of a block: the upper
// exponent bits are in the last word, the lowest one is in the word before.
bool iq1_m_is_finite(std::span<const std::byte> row) {
  constexpr size_t kBlock = 56, kLast = 54, kBefore = 52;
  for (size_t at = 0; at < row.size(); at += kBlock) {
    const auto upper = static_cast<unsigned>(half_at(&row[at + kLast])) >> 12;
    const auto lower = static_cast<unsigned>(half_at(&row[at + kBefore])) >> 12;
    if (!half_is_finite(static_cast<uint16_t>(upper << 12 | lower << 8))) return false;
  }
  return true;
}

// A block's scale is a power of two. With the largest ones some codes are infinite, so such a block is decoded.
bool mxfp4_is_finite(std::span<const std::byte> row) {
  constexpr size_t kBlock = 17;
  constexpr auto kLarge = std::byte{253};
  for (; !row.empty(); row = row.subspan(kBlock)) {
    if (row.front() >= kLarge && !decoded_is_finite(DType::kMXFP4, row.first(kBlock))) return false;
  }
  return true;
}

bool doubles_are_finite(std::span<const std::byte> row) {
  for (size_t at = 0; at < row.size(); at += sizeof(double)) {
    double value = 0;
    std::memcpy(&value, &row[at], sizeof value);
    if (!std::isfinite(static_cast<float>(value))) return false;
  }
  return true;
}

}  // namespace

bool all_finite(std::span<const float> values) { return all_finite(DType::kF32, std::as_bytes(values)); }

bool all_finite(DType dtype, std::span<const std::byte> row) {
  switch (dtype) {
    case DType::kF32: return !any_has<uint32_t>(row, 0x7f800000);
    case DType::kF16: return !any_has<uint16_t>(row, 0x7c00);
    case DType::kBF16: return !any_has<uint16_t>(row, 0x7f80);
    case DType::kF64: return doubles_are_finite(row);
    case DType::kF8E4M3Scaled: return scaled_are_finite(dtype, row, 0x7f);
    case DType::kF8E5M2Scaled: return scaled_are_finite(dtype, row, 0x7c);
    case DType::kIQ1_M: return iq1_m_is_finite(row);
    case DType::kMXFP4: return mxfp4_is_finite(row);
    case DType::kNVFP4: return true;  // no bit pattern of its scales is infinite, and 127 means 0
    default: break;
  }
  const auto* halves = std::ranges::find(kHalves, dtype, &BlockHalves::dtype);
  CHECK(halves != std::end(kHalves)) << dtype_name(dtype);
  return halves_are_finite(*halves, row);
}

namespace {

constexpr uint64_t kJobBytes = uint64_t{1} << 20;  // bytes per job, enough to amortise its scheduling

uint64_t n_cols_of(const TensorView& tensor) {
  return tensor.shape.rank == 0 ? 1 : tensor.shape[tensor.shape.rank - 1];
}
uint64_t n_rows_of(const TensorView& tensor) { return tensor.shape.elements() / n_cols_of(tensor); }
size_t bytes_of_row(const TensorView& tensor) {
  return tensor.shape.rank == 0 ? tensor.data.size() : tensor.row_bytes();
}

// Returns a row of a tensor in the file, or a row that its RowSource produces.
std::span<const std::byte> row_of(const TensorView& tensor, uint64_t row, std::vector<std::byte>& made) {
  const size_t bytes = bytes_of_row(tensor);
  if (tensor.source == nullptr) return tensor.data.subspan(row * bytes, bytes);
  made.resize(bytes);
  const uint64_t of_source = tensor.first_row + row;
  tensor.source->read_rows({&of_source, 1}, made.data());
  return made;
}

// Returns kNonFinite for a tensor of the file; it names the whole tensor, even if only a part was checked.
Status not_finite(const ModelFile& file, const std::string& name) {
  const TensorView& tensor = *file.find_tensor(name);
  const char* what = dtype_is_quantized(tensor.dtype) ? "scale" : "value";
  return {ErrorCode::kNonFinite,
          file.path() + ": tensor " + name + " holds a " + what + " that is not finite" + first_bad_element(tensor)};
}

// Returns the model's factor f of h, for biases that must be divided by it: f is applied to the outputs of a matrix, as
// f (W h + b / f) = W (f h) + b. 1 for other tensors.
float input_scale_of_bias(const ModelConfig& config, TensorRole role) {
  switch (role) {
    case TensorRole::kBq:
    case TensorRole::kBk:
    case TensorRole::kBv:
    case TensorRole::kBo: return config.attention_input_scale;
    case TensorRole::kBMixQ:
    case TensorRole::kBMixK:
    case TensorRole::kBMixV:
    case TensorRole::kBMixZ:
    case TensorRole::kBMixStepIn: return config.recurrent.input_scale;
    default: return 1;
  }
}

// Returns the name of the tensor whose data is `part`, one head's part of a vector.
std::string name_of_part(const ModelFile& file, const TensorSource& source, const TensorView& part) {
  for (const std::string& name : file.tensor_names()) {
    if (file.find_tensor(name)->data.data() == part.data.data()) return name;
  }
  return source.name;
}

// Checks the matrices of a model in parallel, divided into jobs.
class MatrixCheck {
 public:
  explicit MatrixCheck(const ModelFile& file) : file_(file) {}

  // Adds the tensor's rows, unless it is a view of bytes that were already added (parts of fused tensors).
  void add(const TensorSource& source) {
    const TensorView& tensor = source.tensor;
    const void* from = tensor.source != nullptr ? static_cast<const void*>(tensor.source) : tensor.data.data();
    if (!seen_.insert({from, tensor.first_row}).second) return;
    const uint64_t n_rows = n_rows_of(tensor);
    const uint64_t step = std::max<uint64_t>(1, kJobBytes / std::max<size_t>(1, bytes_of_row(tensor)));
    for (uint64_t first = 0; first < n_rows; first += step) {
      jobs_.push_back({tensors_.size(), first, std::min(step, n_rows - first)});
    }
    tensors_.push_back({source.name, tensor});
  }

  Status run(ThreadTeam& team, const std::function<void(uint64_t)>& progress) {
    std::atomic<size_t> next = 0, first_bad = tensors_.size();
    std::atomic<uint64_t> bytes = 0;
    team.run([&](const Worker& worker) {
      std::vector<std::byte> made;
      for (size_t j = next++; j < jobs_.size(); j = next++) {
        const Job& job = jobs_[j];
        if (job.tensor > first_bad) return;
        if (!is_finite(job, made)) {
          for (size_t known = first_bad; job.tensor < known && !first_bad.compare_exchange_weak(known, job.tensor);) {
          }
        }
        bytes += job.n_rows * bytes_of_row(tensors_[job.tensor].second);
        if (progress && worker.index() == 0) progress(bytes);
      }
    });
    return first_bad == tensors_.size() ? Status() : not_finite(file_, tensors_[first_bad].first);
  }

 private:
  struct Job {
    size_t tensor;
    uint64_t first, n_rows;
  };

  bool is_finite(const Job& job, std::vector<std::byte>& made) const {
    const TensorView& tensor = tensors_[job.tensor].second;
    if (tensor.source == nullptr) {
      TensorView part = tensor;
      part.data = tensor.data.subspan(job.first * bytes_of_row(tensor), job.n_rows * bytes_of_row(tensor));
      const bool finite = all_finite(part.dtype, part.data);
      file_.release(part);
      return finite;
    }
    for (uint64_t row = job.first; row < job.first + job.n_rows; ++row) {
      if (!all_finite(tensor.dtype, row_of(tensor, row, made))) return false;
    }
    return true;
  }

  const ModelFile& file_;
  std::vector<std::pair<std::string, TensorView>> tensors_;
  std::set<std::pair<const void*, uint64_t>> seen_;
  std::vector<Job> jobs_;
};

}  // namespace

std::string first_bad_element(const TensorView& tensor) {
  const uint64_t n_cols = n_cols_of(tensor);
  std::vector<std::byte> made;
  std::vector<float> values(n_cols);
  for (uint64_t row = 0; row < n_rows_of(tensor); ++row) {
    const std::span<const std::byte> bytes = row_of(tensor, row, made);
    if (all_finite(tensor.dtype, bytes)) continue;
    dequantize_row(tensor.dtype, bytes, values);
    const auto bad = std::ranges::find_if(values, [](float value) { return !std::isfinite(value); });
    uint64_t element = row * n_cols + static_cast<uint64_t>(bad - values.begin());
    if (tensor.shape.rank < 2) return " at " + std::to_string(element);
    std::string place;
    for (size_t i = tensor.shape.rank; i-- > 0; element /= tensor.shape[i]) {
      place = std::to_string(element % tensor.shape[i]) + (place.empty() ? "" : ", ") + place;
    }
    return " at [" + place + "]";
  }
  return "";
}

Status read_vector(const ModelFile& file, const ModelConfig& config, const TensorRow& row, const TensorSource& source,
                   std::span<float> out) {
  std::vector<float> in_file_order;  // values of the tensor in the file, which may contain more than this source
  for (const TensorView& part : source.parts.empty() ? std::vector{source.tensor} : source.parts) {
    if (!all_finite(part.dtype, part.data)) return not_finite(file, name_of_part(file, source, part));
    const size_t filled = in_file_order.size();
    in_file_order.resize(filled + part.shape.elements());
    dequantize_tensor(part, std::span(in_file_order).subspan(filled));
  }
  const float missing = row.is_norm() && config.norms_minus_one ? 1.0f : 0.0f;
  const float input_scale = input_scale_of_bias(config, row.role);
  const bool is_log = row.is_decay() && config.recurrent.logs_of_decays;
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t r = row.is_by_column() ? i % source.n_rows : i / source.n_cols;
    const size_t c = row.is_by_column() ? i / source.n_rows : i % source.n_cols;
    const float value = in_file_order[source.source_row(r) * source.n_cols + c];
    out[i] = is_log ? static_cast<float>(-std::exp(double{value})) : (value + missing) / input_scale;
    if (!std::isfinite(out[i])) {
      return {ErrorCode::kNonFinite,
              file.path() + ": tensor " + source.name + " gives a non-finite value at element " + std::to_string(i)};
    }
  }
  return {};
}

Status check_finite_weights(const ModelFile& file, const ModelConfig& config, ThreadTeam& team,
                            const std::function<void(uint64_t)>& progress) {
  TRY(for_each_tensor(config, false, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    if (!source.found()) return {};
    std::vector<float> values(source.n_rows * source.n_cols);
    return read_vector(file, config, row, source, values);
  }));
  MatrixCheck matrices(file);
  TRY(for_each_tensor(config, true, [&](const TensorRow& row, size_t layer, size_t copy) -> Status {
    TRY_ASSIGN(const TensorSource source, find_source(file, config, row, layer, copy));
    if (source.found()) matrices.add(source);
    return {};
  }));
  TRY(matrices.run(team, progress));
  return file.check_unchanged();
}

}  // namespace ibid
