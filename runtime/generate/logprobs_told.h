// LogprobQueue: log-probabilities of an answer's tokens, and how many of them were emitted. A value for one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/generate/reply_text.h"
#include "sampling/sampler.h"

namespace ibid {

class LogprobQueue {
 public:
  void add(TokenLogprobs one) { all_.push_back(std::move(one)); }

  // Returns the log-probabilities that are final and not yet emitted, and marks them as emitted.
  std::vector<TokenLogprobs> tell(const ReplyText& reply) {
    if (all_.empty()) return {};
    const size_t first = std::exchange(n_told_, std::clamp(reply.n_certain_ids(n_told_), n_told_, all_.size()));
    return {all_.begin() + static_cast<std::ptrdiff_t>(first), all_.begin() + static_cast<std::ptrdiff_t>(n_told_)};
  }
  // Returns the log-probabilities of the first n tokens (or of all, if fewer), emitted or not.
  std::vector<TokenLogprobs> take(size_t n) {
    all_.resize(std::min(n, all_.size()));
    return std::move(all_);
  }

 private:
  std::vector<TokenLogprobs> all_;
  size_t n_told_ = 0;
};

}  // namespace ibid
