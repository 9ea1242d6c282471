#include "tokenizer/stream_decoder.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/utf8.h"

namespace ibid {

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
