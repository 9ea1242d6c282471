#include "apps/inspect/weight_check.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>

#include "apps/inspect/facts.h"
#include "base/parallel.h"
#include "weights/block_formats.h"

namespace ibid {

namespace {

// Number of sums that are accumulated in parallel, so that the compiler can use vector registers.
constexpr size_t kLanes = 16;

// Returns the sum of squares; not finite if a value is not finite or a square overflows a float.
float sum_of_squares(std::span<const float> values) {
  std::array<float, kLanes> sums{};
  size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) sums[lane] += values[i + lane] * values[i + lane];
  }
  float sum = 0;
  for (; i < values.size(); ++i) sum += values[i] * values[i];
  for (const float lane : sums) sum += lane;
  return sum;
}

}  // namespace

void ValueSums::add(std::span<const float> values) {
  constexpr float kSmallest = 1e-30f;  // below this sum some squares may have underflowed
  const float sum = sum_of_squares(values);
  if (std::isfinite(sum) && sum > kSmallest) {
    squares += static_cast<double>(sum);
    all_zero = false;
    return;
  }
  for (const float value : values) {
    n_nan += std::isnan(value) ? 1 : 0;
    n_infinite += std::isinf(value) ? 1 : 0;
    if (std::isfinite(value)) squares += static_cast<double>(value) * static_cast<double>(value);
    all_zero = all_zero && value == 0;
  }
}

void RmsHistogram::add(double rms) {
  const int power = std::clamp(std::ilogb(rms), kSmallest, kSmallest + static_cast<int>(kBins) - 1);
  ++n_[static_cast<size_t>(power - kSmallest)];
}

void RmsHistogram::add(const RmsHistogram& other) {
  for (size_t i = 0; i < kBins; ++i) n_[i] += other.n_[i];
}

uint64_t RmsHistogram::n_far(int powers) const {
  uint64_t all = 0, below = 0;
  for (const uint64_t n : n_) all += n;
  int median = 0;
  while (median + 1 < static_cast<int>(kBins) && 2 * (below + n_[static_cast<size_t>(median)]) < all) {
    below += n_[static_cast<size_t>(median++)];
  }
  uint64_t far = 0;
  for (int i = 0; i < static_cast<int>(kBins); ++i) {
    if (std::abs(i - median) > powers) far += n_[static_cast<size_t>(i)];
  }
  return far;
}

namespace {

constexpr uint64_t kJobValues = uint64_t{1} << 20;  // values per job
constexpr size_t kPieceValues = size_t{1} << 14;    // values decoded at once: 64 kB of floats, fits into the cache
constexpr int kFarRowPowers = 5;   // a row is far from the median row if its RMS differs by a factor above 2^5
constexpr double kFarMatrix = 16;  // a matrix is far from the median layer if its RMS differs by a factor above 16
constexpr size_t kLayersToCompare = 4;
constexpr float kFarNorm = 128;  // a norm weight above this multiple of the median is far from it

// Rows [first, first + n) of a tensor.
struct Job {
  size_t tensor;
  uint64_t first, n;
};

// Sums of a tensor. Squares are kept per job and added in job order, so that the result is deterministic.
struct TensorSums {
  std::mutex mutex;
  uint64_t n_rows = 0, n_cols = 0;
  uint64_t n_nan = 0, n_infinite = 0, n_zero_rows = 0;
  RmsHistogram rows;
  double squares = 0;
  std::atomic<uint64_t> n_rows_left{0};

  double rms() const { return std::sqrt(squares / static_cast<double>(n_rows * n_cols)); }
};

bool is_readable(const TensorView& tensor) {
  return can_dequantize(tensor.dtype) && tensor.shape.elements() > 0 && tensor.shape.rank > 0;
}

class RowReader {
 public:
  RowReader(const TensorView& tensor, std::vector<float>& floats, std::vector<std::byte>& made)
      : tensor_(tensor), floats_(floats), made_(made) {}

  ValueSums sums_of(uint64_t row) {
    const size_t n_cols = tensor_.shape[tensor_.shape.rank - 1];
    const BlockSize block = dtype_block(tensor_.dtype);
    const size_t row_bytes = tensor_.row_bytes();
    std::span<const std::byte> bytes;
    if (tensor_.source != nullptr) {
      made_.resize(row_bytes);
      const uint64_t of_source = tensor_.first_row + row;
      tensor_.source->read_rows({&of_source, 1}, made_.data());
      bytes = made_;
    } else {
      bytes = tensor_.data.subspan(row * row_bytes, row_bytes);
    }
    ValueSums sums;
    for (size_t done = 0; done < n_cols; done += kPieceValues) {
      const size_t n = std::min(kPieceValues, n_cols - done);
      const std::span<float> values = std::span(floats_).first(n);
      dequantize_row(tensor_.dtype, bytes.subspan(done / block.values * block.bytes, n / block.values * block.bytes),
                     values);
      sums.add(values);
    }
    return sums;
  }

 private:
  const TensorView& tensor_;
  std::vector<float>& floats_;
  std::vector<std::byte>& made_;
};

class Check {
 public:
  Check(const ModelFile& file, const std::vector<TensorUse>& uses) : file_(file), uses_(uses) {
    for (size_t i = 0; i < uses.size(); ++i) {
      sums_.push_back(std::make_unique<TensorSums>());
      if (is_readable(uses[i].tensor)) add_jobs(i);
    }
    // Sort jobs in file order, to benefit from readahead.
    std::ranges::stable_sort(jobs_, {}, [&](const Job& job) { return uses_[job.tensor].tensor.data.data(); });
    squares_.resize(jobs_.size());
  }

  Status run(int n_threads, const std::function<void(uint64_t)>& progress) {
    TRY_ASSIGN(const std::unique_ptr<ThreadTeam> team,
               ThreadTeam::create(n_threads, OversubscriptionPolicy::kSkipLateThreads));
    std::atomic<size_t> next{0};
    std::atomic<uint64_t> bytes{0};
    team->run([&](const Worker& worker) {
      std::vector<float> floats(kPieceValues);
      std::vector<std::byte> made;
      for (size_t j = next++; j < jobs_.size(); j = next++) {
        bytes += read(j, floats, made);
        if (worker.index() == 0) progress(bytes);
      }
    });
    for (size_t j = 0; j < jobs_.size(); ++j) sums_[jobs_[j].tensor]->squares += squares_[j];
    return file_.check_unchanged();
  }

  const TensorSums& sums(size_t i) const { return *sums_[i]; }

 private:
  void add_jobs(size_t i) {
    const Shape& shape = uses_[i].tensor.shape;
    TensorSums& sums = *sums_[i];
    sums.n_cols = shape[shape.rank - 1];
    sums.n_rows = shape.elements() / sums.n_cols;
    sums.n_rows_left = sums.n_rows;
    const uint64_t step = std::max<uint64_t>(1, kJobValues / sums.n_cols);
    for (uint64_t first = 0; first < sums.n_rows; first += step) {
      jobs_.push_back({i, first, std::min(step, sums.n_rows - first)});
    }
  }

  // Returns the number of bytes read.
  uint64_t read(size_t j, std::vector<float>& floats, std::vector<std::byte>& made) {
    const Job& job = jobs_[j];
    const TensorView& tensor = uses_[job.tensor].tensor;
    TensorSums& whole = *sums_[job.tensor];
    RowReader reader(tensor, floats, made);
    RmsHistogram rows;
    uint64_t n_nan = 0, n_infinite = 0, n_zero_rows = 0;
    for (uint64_t row = job.first; row < job.first + job.n; ++row) {
      const ValueSums sums = reader.sums_of(row);
      n_nan += sums.n_nan;
      n_infinite += sums.n_infinite;
      n_zero_rows += sums.all_zero ? 1 : 0;
      squares_[j] += sums.squares;
      if (sums.squares > 0) rows.add(std::sqrt(sums.squares / static_cast<double>(whole.n_cols)));
    }
    const std::lock_guard lock(whole.mutex);
    whole.n_nan += n_nan;
    whole.n_infinite += n_infinite;
    whole.n_zero_rows += n_zero_rows;
    whole.rows.add(rows);
    // A composed tensor is released as a whole, because it is unknown which bytes of the file belong to a row of it.
    if ((whole.n_rows_left -= job.n) == 0 && tensor.source != nullptr) file_.release(tensor);
    if (tensor.source == nullptr) {
      TensorView part = tensor;
      part.data = tensor.data.subspan(job.first * tensor.row_bytes(), job.n * tensor.row_bytes());
      file_.release(part);
    }
    return job.n * tensor.row_bytes();
  }

  const ModelFile& file_;
  const std::vector<TensorUse>& uses_;
  std::vector<std::unique_ptr<TensorSums>> sums_;  // one for each tensor
  std::vector<Job> jobs_;
  std::vector<double> squares_;  // one for each job
};

std::string of_text(uint64_t n, uint64_t all, const char* what) {
  return grouped_text(n) + " of " + grouped_text(all) + " " + what;
}

void judge_values(const TensorUse& use, const TensorSums& sums, std::vector<Finding>& findings) {
  const uint64_t n_values = sums.n_rows * sums.n_cols;
  const auto add = [&](FindingKind kind, uint64_t count, std::string text) {
    findings.push_back({kind, use.name, count, std::move(text)});
  };
  if (sums.n_nan > 0) add(FindingKind::kNaN, sums.n_nan, of_text(sums.n_nan, n_values, "values are NaN"));
  if (sums.n_infinite > 0) {
    add(FindingKind::kInfinity, sums.n_infinite, of_text(sums.n_infinite, n_values, "values are infinite"));
  }
  if (use.tensor.shape.rank < 2) return;
  if (sums.n_zero_rows == sums.n_rows) {
    add(FindingKind::kAllZero, sums.n_rows, "every value is 0");
  } else if (sums.n_zero_rows > 0) {
    add(FindingKind::kZeroRows, sums.n_zero_rows, of_text(sums.n_zero_rows, sums.n_rows, "rows are all 0"));
  }
  if (const uint64_t far = sums.rows.n_far(kFarRowPowers); far > 0) {
    add(FindingKind::kFarRows, far,
        of_text(far, sums.n_rows, "rows are more than 32 times as large or as small as the median row"));
  }
}

// Checks a norm. Norms are small enough to be read a second time.
void judge_norm(const TensorUse& use, const ModelConfig* config, std::vector<Finding>& findings) {
  if (use.tensor_class != "norms" || use.tensor.source != nullptr) return;
  std::vector<float> weights(use.tensor.shape.elements());
  dequantize_row(use.tensor.dtype, use.tensor.data, weights);
  const float one = config != nullptr && config->norms_minus_one ? 1.0f : 0.0f;
  for (float& weight : weights) weight = std::fabs(weight + one);
  std::vector<float> sorted = weights;
  std::erase_if(sorted, [](float weight) { return !std::isfinite(weight); });
  if (sorted.empty()) return;
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2));
  const float median = sorted[sorted.size() / 2];
  const auto far = static_cast<uint64_t>(std::ranges::count_if(
      weights, [&](float weight) { return std::isfinite(weight) && median > 0 && weight > kFarNorm * median; }));
  if (far == 0) return;
  const float most = *std::ranges::max_element(sorted);
  findings.push_back({FindingKind::kNormOutlier, use.name, far,
                      of_text(far, weights.size(), "weights are more than 128 times the median one, ") +
                          short_number_text(median) + "; the largest is " + short_number_text(most)});
}

// Compares each matrix with the matrices of the same role (name in the tensor table) in other layers.
void judge_layers(const std::vector<TensorUse>& uses, const Check& check, std::vector<Finding>& findings) {
  std::map<std::string_view, std::vector<double>> by_role;
  const auto is_compared = [&](size_t i) {
    return uses[i].layer != kNoLayer && uses[i].tensor.shape.rank > 1 && is_readable(uses[i].tensor);
  };
  for (size_t i = 0; i < uses.size(); ++i) {
    if (is_compared(i)) by_role[uses[i].role].push_back(check.sums(i).rms());
  }
  for (auto& [role, values] : by_role) std::ranges::sort(values);
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!is_compared(i) || by_role[uses[i].role].size() < kLayersToCompare) continue;
    const std::vector<double>& others = by_role[uses[i].role];
    const double median = others[others.size() / 2], rms = check.sums(i).rms();
    if (rms == 0 || median == 0 || (rms <= median * kFarMatrix && rms >= median / kFarMatrix)) continue;
    findings.push_back(
        {FindingKind::kFarMatrix, uses[i].name, 0,
         "its RMS is " + short_number_text(rms) + ", the median of all layers is " + short_number_text(median)});
  }
}

const TensorUse* use_of(const std::vector<TensorUse>& uses, std::string_view tensor_class) {
  const auto found = std::ranges::find_if(
      uses, [&](const TensorUse& use) { return use.tensor_class == tensor_class && use.tensor.shape.rank == 2; });
  return found == uses.end() ? nullptr : &*found;
}

}  // namespace

const char* finding_name(FindingKind kind) {
  switch (kind) {
    case FindingKind::kNaN: return "nan";
    case FindingKind::kInfinity: return "infinity";
    case FindingKind::kAllZero: return "all zero";
    case FindingKind::kVocabulary: return "vocabulary";
    case FindingKind::kZeroRows: return "zero rows";
    case FindingKind::kFarRows: return "far rows";
    case FindingKind::kFarMatrix: return "far matrix";
    case FindingKind::kNormOutlier: return "norm outlier";
    case FindingKind::kUnread: return "not read";
  }
  return "";
}

uint64_t bytes_to_check(const std::vector<TensorUse>& uses) {
  uint64_t bytes = 0;
  for (const TensorUse& use : uses) bytes += is_readable(use.tensor) ? use.tensor.bytes() : 0;
  return bytes;
}

void add_findings(WeightReport& report, std::vector<Finding> findings) {
  for (Finding& finding : findings) report.findings.push_back(std::move(finding));
  // std::ranges::stable_partition of libstdc++ does not compile with clang 14.
  std::stable_partition(report.findings.begin(), report.findings.end(),
                        [](const Finding& finding) { return is_damage(finding.kind); });
}

Result<WeightReport> check_weights(const ModelFile& file, const std::vector<TensorUse>& uses, const ModelConfig* config,
                                   int n_threads, const std::function<void(uint64_t)>& progress) {
  Check check(file, uses);
  TRY(check.run(n_threads, progress));
  WeightReport report;
  report.bytes = bytes_to_check(uses);
  std::vector<Finding> findings;
  for (size_t i = 0; i < uses.size(); ++i) {
    if (!is_readable(uses[i].tensor)) {
      if (can_dequantize(uses[i].tensor.dtype)) continue;  // a weight type, but the tensor is scalar or empty
      const std::string type(dtype_name(uses[i].tensor.dtype));
      findings.push_back({FindingKind::kUnread, uses[i].name, 0, "it holds no weights, but " + type});
      continue;
    }
    ++report.n_tensors;
    report.n_values += uses[i].tensor.shape.elements();
    judge_values(uses[i], check.sums(i), findings);
    judge_norm(uses[i], config, findings);
  }
  judge_layers(uses, check, findings);
  add_findings(report, std::move(findings));
  return report;
}

std::vector<Finding> check_vocabulary(const std::vector<TensorUse>& uses, const ModelConfig* config,
                                      const Tokenizer* tokenizer) {
  std::vector<Finding> findings;
  const TensorUse* embedding = use_of(uses, "embedding");
  const TensorUse* head = use_of(uses, "head");
  if (embedding == nullptr) return findings;
  const uint64_t rows = embedding->tensor.shape[0];
  const auto add = [&](const std::string& tensor, const std::string& text) {
    findings.push_back({FindingKind::kVocabulary, tensor, 0, text});
  };
  if (head != nullptr && head->tensor.shape[0] != rows) {
    add(head->name,
        "the head has " + std::to_string(head->tensor.shape[0]) + " rows, the embedding " + std::to_string(rows));
  }
  if (config != nullptr && config->vocab_size != rows) {
    add(embedding->name,
        "it has " + std::to_string(rows) + " rows, the configuration says " + std::to_string(config->vocab_size));
  }
  if (tokenizer == nullptr) return findings;
  if (tokenizer->vocab_size() > rows) {
    add(embedding->name, "it has " + std::to_string(rows) + " rows, the tokenizer " +
                             std::to_string(tokenizer->vocab_size()) + " tokens");
  }
  return findings;
}

}  // namespace ibid
