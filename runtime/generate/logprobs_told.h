// LogprobsTold: the log-probabilities of an answer's ids, and which of them its owner was told while it came. A value,
// which only the answer's own thread touches.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "runtime/generate/reply_text.h"
#include "sampling/sampler.h"

namespace ibid {

class LogprobsTold {
 public:
  void add(TokenLogprobs one) { all_.push_back(std::move(one)); }

  // Those of the ids that stay, whatever comes, and were not told yet; they are now.
  std::vector<TokenLogprobs> tell(const ReplyText& reply) {
    if (all_.empty()) return {};
    const size_t first = std::exchange(n_told_, std::clamp(reply.n_certain_ids(n_told_), n_told_, all_.size()));
    return {all_.begin() + static_cast<std::ptrdiff_t>(first), all_.begin() + static_cast<std::ptrdiff_t>(n_told_)};
  }
  // Those of the first n ids, told or not; n at most.
  std::vector<TokenLogprobs> take(size_t n) {
    all_.resize(std::min(n, all_.size()));
    return std::move(all_);
  }

 private:
  std::vector<TokenLogprobs> all_;
  size_t n_told_ = 0;
};

}  // namespace ibid
