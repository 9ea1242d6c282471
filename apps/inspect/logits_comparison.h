// Compares a model's logits with reference logits: largest difference, KL divergence, and whether the most likely token
// is the same.
//
// A reference file (safetensors) has, for each sequence N, ids.N int64 [T], and one or both of: logits.N float32 [P, V]
// at positions.N int64 [P] (if that is missing, at all T positions); top_ids.N int64 [T, 10], top_logits.N float32 [T,
// 10] with the most likely token first, and logsumexp.N float32 [T].
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "ibid/token.h"
#include "model/config/model_options.h"
#include "model/forward/language_model.h"
#include "weights/model_file.h"

namespace ibid {

// Opens and loads the model at `path`.
Result<std::unique_ptr<LanguageModel>> load_for_feeding(const std::string& path, const ModelOptions& options);

// Feeds `tokens` as a new sequence, in chunks whose sizes are `chunks`, repeated cyclically (empty: the largest chunks
// whose logits fit into 256 MB), and calls on_row for every position. Uses its own KV pool. Errors: those of
// LanguageModel::forward().
Status feed(LanguageModel& model, TokenSpan tokens, std::span<const size_t> chunks,
            const std::function<void(size_t position, std::span<const float> logits)>& on_row);

class LogitsComparison {
 public:
  // Compares the logits of the model at `position` of sequence `n` with those in `reference`; does nothing if the
  // reference has no logits for this position. Errors: kBadShape, kBadType if `reference` does not have the format
  // above.
  Status add(const ModelFile& reference, size_t n, size_t position, std::span<const float> logits);

  double max_dlogit() const { return max_dlogit_; }
  // KL(reference || model) in nats: over the vocabulary if the reference has full rows, else over its ten most likely
  // tokens and one outcome for all others.
  double mean_kl() const { return n_kl_ == 0 ? 0 : sum_kl_ / static_cast<double>(n_kl_); }
  double largest_kl() const { return largest_kl_; }
  double top1_agreement() const {
    return n_kl_ == 0 ? 0 : static_cast<double>(n_same_top1_) / static_cast<double>(n_kl_);
  }
  size_t positions() const { return n_kl_; }
  Json to_json() const;

 private:
  void add_kl(double kl, bool same_top1);

  double max_dlogit_ = 0;
  double sum_kl_ = 0;
  double largest_kl_ = 0;
  size_t n_kl_ = 0;
  size_t n_same_top1_ = 0;
};

// Returns log(sum(exp(x))), computed in double.
double log_sum_exp(std::span<const float> logits);

// Reads the int64 tensor `name`. Errors: kMissingTensor, kBadType.
Result<std::vector<int64_t>> read_int64(const ModelFile& file, const std::string& name);

}  // namespace ibid
