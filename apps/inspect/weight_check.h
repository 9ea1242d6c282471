// Reads every weight of a model once, and lists damage and anomalies. Rows are decoded in pieces by
// weights/block_formats.h on all threads, so memory does not grow with the model. Findings do not depend on the number
// of threads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "apps/inspect/tensor_uses.h"
#include "base/result.h"
#include "model/config/config.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {

// The sum of squares of the finite values, and the numbers of NaNs and infinities.
struct ValueSums {
  double squares = 0;
  uint64_t n_nan = 0, n_infinite = 0;
  bool all_zero = true;

  void add(std::span<const float> values);
};

// Histogram of rows by the exponent of their root mean square (RMS).
class RmsHistogram {
 public:
  void add(double rms);
  void add(const RmsHistogram& other);
  // Returns the number of rows whose RMS is more than 2^powers times the median RMS, or less than the median divided by
  // 2^powers. Compares only exponents.
  uint64_t n_far(int powers) const;

 private:
  static constexpr int kSmallest = -64;
  static constexpr size_t kBins = 128;
  std::array<uint64_t, kBins> n_{};
};

enum class FindingKind : uint8_t {
  // Damage, which a valid model never has:
  kNaN,
  kInfinity,
  kAllZero,     // a matrix of zeros
  kVocabulary,  // tokenizer, embedding and configuration have different sizes
  // Anomalies, which a valid model may have:
  kZeroRows,     // zero rows of a matrix
  kFarRows,      // rows whose RMS is far from that of the median row
  kFarMatrix,    // a matrix whose RMS is far from those of the same matrix in other layers
  kNormOutlier,  // weights of a norm that are far above the norm's median
  kUnread,       // a tensor whose type is not a weight type
};

// Returns the finding's name for text and JSON: "nan", "zero rows" ...
const char* finding_name(FindingKind kind);
inline bool is_damage(FindingKind kind) { return kind <= FindingKind::kVocabulary; }

struct Finding {
  FindingKind kind;
  std::string tensor;  // name of the tensor; empty: the finding is about the whole model
  uint64_t count = 0;  // number of values or rows; 0 if not applicable
  std::string text;    // description without the tensor's name
};

struct WeightReport {
  size_t n_tensors = 0;  // number of tensors read
  uint64_t n_values = 0;
  uint64_t bytes = 0;
  std::vector<Finding> findings;  // damage first, then in the order of the tensors

  bool sound() const { return findings.empty() || !is_damage(findings.front().kind); }
};

// Checks the weights. Calls progress(bytes done) repeatedly on one thread. Errors: kOutOfMemory (threads),
// kChangedOnDisk.
Result<WeightReport> check_weights(const ModelFile& file, const std::vector<TensorUse>& uses, const ModelConfig* config,
                                   int n_threads, const std::function<void(uint64_t bytes)>& progress);
// Returns the number of bytes that check_weights() reads.
uint64_t bytes_to_check(const std::vector<TensorUse>& uses);

// Reports differences between the sizes in tokenizer, embedding, head and configuration. config, tokenizer: nullptr if
// they could not be read.
std::vector<Finding> check_vocabulary(const std::vector<TensorUse>& uses, const ModelConfig* config,
                                      const Tokenizer* tokenizer);

// Inserts findings, keeping the order of WeightReport::findings.
void add_findings(WeightReport& report, std::vector<Finding> findings);

}  // namespace ibid
