#include "tokenizer/incremental_encoder.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace ibid {

IncrementalEncoder::Delta IncrementalEncoder::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return {n_tokens(), {}};
  if (pending_.empty() || pending_.back().origin != origin) pending_.push_back({std::string(), origin});
  pending_.back().bytes.append(bytes);

  std::vector<OriginRun> runs;
  runs.reserve(pending_.size());
  for (const Run& run : pending_) {
    runs.push_back({run.bytes, run.origin});
    bytes_encoded_ += run.bytes.size();
  }
  GrowingEncoding now = tokenizer_->encode_growing(runs, context_);

  const auto [changed, unused] =
      std::mismatch(now.tokens.begin(), now.tokens.end(), pending_tokens_.begin(), pending_tokens_.end());
  const auto n_kept = static_cast<size_t>(changed - now.tokens.begin());
  Delta delta{n_final_ + n_kept, Tokens(changed, now.tokens.end())};

  n_final_ += now.n_final_tokens;
  pending_tokens_.assign(now.tokens.begin() + static_cast<ptrdiff_t>(now.n_final_tokens), now.tokens.end());
  context_ = now.resume;
  drop_final_bytes(now.n_final_bytes);
  return delta;
}

void IncrementalEncoder::drop_final_bytes(size_t n) {
  size_t whole = 0;
  while (whole < pending_.size() && pending_[whole].bytes.size() <= n) n -= pending_[whole++].bytes.size();
  pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(whole));
  if (n > 0) pending_.front().bytes.erase(0, n);
}

}  // namespace ibid
