// Feeds a model token by token, and measures how far its logits are from reference logits: the largest difference, the
// KL divergence, and how often the likeliest token is the same.
//
// A reference file (safetensors) holds, for sequence N, ids.N int64 [T], and either logits.N float32 [P, V] at
// positions.N int64 [P] (all T positions where positions.N is absent), or top_ids.N int64 [T, 10],
// top_logits.N float32 [T, 10] best first and logsumexp.N float32 [T] for every position, or both.
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

// Feeds `tokens` as one new sequence, in chunks of the given sizes, repeated (none: as large as the model
// takes, but small enough that the logits of a chunk fit in 256 MB), and calls on_row for every position.
// The pool for keys and values lives for the call. Errors: those of LanguageModel::forward().
Status feed(LanguageModel& model, TokenSpan tokens, std::span<const size_t> chunks,
            const std::function<void(size_t position, std::span<const float> logits)>& on_row);

class LogitsComparison {
 public:
  // Takes one row of our logits at `position` of sequence `n`, and compares it with what `reference` has
  // there; nothing is compared where it has nothing.
  // Errors: kBadShape, kBadType when the reference is not of the form above.
  Status add(const ModelFile& reference, size_t n, size_t position, std::span<const float> logits);

  double max_dlogit() const { return max_dlogit_; }
  // KL(reference || ours) in nats: over whole rows where the reference has whole rows only, else over the ten
  // likeliest tokens and the rest as one.
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

// log(sum(exp(x))) in double.
double log_sum_exp(std::span<const float> logits);

// The int64 tensor `name` as ids. Errors: kMissingTensor, kBadType.
Result<std::vector<int64_t>> read_int64(const ModelFile& file, const std::string& name);

}  // namespace ibid
