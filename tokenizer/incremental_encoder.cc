#include "tokenizer/incremental_encoder.h"

#include <utility>

#include "base/token_prefix.h"

namespace ibid {

IncrementalEncoder::Delta IncrementalEncoder::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return {n_tokens(), {}};
  pending_.append(bytes, origin);
  bytes_encoded_ += pending_.size();
  const GrowingEncoding now = tokenizer_->encode_growing(pending_, context_);

  const size_t n_kept = common_prefix_length(now.tokens, pending_tokens_);
  Delta delta{n_final_ + n_kept, Tokens(now.tokens.begin() + static_cast<ptrdiff_t>(n_kept), now.tokens.end())};

  n_final_ += now.n_final_tokens;
  pending_tokens_.assign(now.tokens.begin() + static_cast<ptrdiff_t>(now.n_final_tokens), now.tokens.end());
  context_ = now.resume;
  pending_.remove_prefix(now.n_final_bytes);
  return delta;
}

}  // namespace ibid
