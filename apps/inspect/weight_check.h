// Reads every weight of a model once and lists damage and oddities of the numbers.
//
// Rows are decoded by weights/block_formats.h, in pieces, on all threads; memory does not grow with the model. The
// findings do not depend on the number of threads.
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

// Squares of finite values; counts of the others.
struct ValueSums {
  double squares = 0;
  uint64_t n_nan = 0, n_infinite = 0;
  bool all_zero = true;

  void add(std::span<const float> values);
};

// Rows by the power of two of their RMS.
class RmsHistogram {
 public:
  void add(double rms);
  void add(const RmsHistogram& other);
  // Rows more than `powers` powers of two away from the median row.
  uint64_t n_far(int powers) const;

 private:
  static constexpr int kSmallest = -64;
  static constexpr size_t kBins = 128;
  std::array<uint64_t, kBins> n_{};
};

enum class FindingKind : uint8_t {
  // Damage: no sound model has these.
  kNaN,
  kInfinity,
  kAllZero,        // a matrix without a value but 0
  kVocabulary,     // tokenizer, embedding and configuration disagree
  // Oddities: a sound model may have them.
  kZeroRows,       // rows of a matrix without a value but 0
  kFarRows,        // rows whose RMS is far from that of the matrix' other rows
  kFarMatrix,      // a matrix whose RMS is far from that of the same one in other layers
  kNormOutlier,    // a weight of a norm that is far from the others
  kUnread,         // a tensor of a type that holds no weights
};

// "nan", "zero rows": for people and for JSON.
const char* finding_name(FindingKind kind);
inline bool is_damage(FindingKind kind) { return kind <= FindingKind::kVocabulary; }

struct Finding {
  FindingKind kind;
  std::string tensor;    // empty: of the model
  uint64_t count = 0;    // of values or rows; 0 where there is nothing to count
  std::string text;      // the whole of it in words, without the tensor's name
};

struct WeightReport {
  size_t n_tensors = 0;  // that were read
  uint64_t n_values = 0;
  uint64_t bytes = 0;
  std::vector<Finding> findings;  // damage first, each in the order of the tensors

  bool sound() const { return findings.empty() || !is_damage(findings.front().kind); }
};

// progress(bytes done) is called from one thread, now and then. Errors: kOutOfMemory (threads), kChangedOnDisk.
Result<WeightReport> check_weights(const ModelFile& file, const std::vector<TensorUse>& uses, const ModelConfig* config,
                                   int n_threads, const std::function<void(uint64_t bytes)>& progress);
// The bytes that check_weights() will read.
uint64_t bytes_to_check(const std::vector<TensorUse>& uses);

// Where tokenizer, embedding, head and configuration do not go together. config, tokenizer: nullptr where they could
// not be read.
std::vector<Finding> check_vocabulary(const std::vector<TensorUse>& uses, const ModelConfig* config,
                                      const Tokenizer* tokenizer);

// Sorts them in as WeightReport has them.
void add_findings(WeightReport& report, std::vector<Finding> findings);

}  // namespace ibid
