#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/token_prefix.h"
#include "base/utf8.h"

namespace ibid {

PartialEncoding Tokenizer::encode_growing(const MarkedText& text, TextContext before) const {
  PartialEncoding out;
  for (const MarkedText::Run run : text.runs()) {
    const Tokens tokens = encode(run.bytes, run.origin);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  }
  out.resume = before;
  return out;
}

IncrementalEncoder::Delta IncrementalEncoder::append(std::string_view bytes, TextOrigin origin) {
  if (bytes.empty()) return {n_tokens(), {}};
  pending_.append(bytes, origin);
  bytes_encoded_ += pending_.size();
  const PartialEncoding now = tokenizer_->encode_growing(pending_, context_);

  const size_t n_kept = common_prefix_length(now.tokens, pending_tokens_);
  Delta delta{n_final_ + n_kept, Tokens(now.tokens.begin() + static_cast<ptrdiff_t>(n_kept), now.tokens.end())};

  n_final_ += now.n_final_tokens;
  pending_tokens_.assign(now.tokens.begin() + static_cast<ptrdiff_t>(now.n_final_tokens), now.tokens.end());
  context_ = now.resume;
  pending_.remove_prefix(now.n_final_bytes);
  return delta;
}

std::string StreamDecoder::push(TokenId id) {
  if (tokenizer_->is_special(id) && !std::ranges::binary_search(shown_, id)) return {};
  const std::string_view bytes = tokenizer_->token_bytes(id);
  if (bytes.empty()) return {};
  pending_.append(std::exchange(begins_, false) ? tokenizer_->first_token_bytes(id) : bytes);
  const size_t n_complete = pending_.size() - utf8_incomplete_tail(pending_);
  std::string out = utf8_sanitize(std::string_view(pending_).substr(0, n_complete));
  pending_.erase(0, n_complete);
  return out;
}

std::string StreamDecoder::finish() { return utf8_sanitize(std::exchange(pending_, {})); }

}  // namespace ibid
