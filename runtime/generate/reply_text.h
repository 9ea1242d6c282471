// ReplyText: decodes the sampled tokens of one answer to text, and determines how much may be shown: whole characters,
// and nothing that may belong to a stop string.
// LogprobQueue: emits the log-probabilities of tokens whose text is shown.
//
// Owned by one answer. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ibid/token.h"
#include "runtime/generate/generate.h"
#include "sampling/sampler.h"
#include "sampling/stop_detector.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class ReplyText {
 public:
  // shown: special tokens that produce text; begins: the text begins here, so the space that some tokenizers add before
  // a text is removed.
  ReplyText(const Tokenizer& tokenizer, StopDetector stops, TokenSpan shown = {}, bool begins = true);

  // Adds a token; returns true if a stop string is complete.
  bool push(TokenId id);

  // The text that may be shown so far; it only grows.
  const std::string& text() const { return text_; }

  // Number of leading tokens that are final: all of their text may be shown. n_known: an earlier result.
  size_t n_certain_tokens(size_t n_known) const;

  // Ends the text. Incomplete characters and held-back bytes become text, and may complete a stop string. Moves tokens,
  // text and the reason of the end to `out`.
  void finish(Generation& out);

 private:
  bool show(std::string_view piece);
  void drop_tokens_after(size_t n_bytes);

  StreamDecoder decoder_;
  StopDetector stops_;
  Tokens ids_;
  std::vector<size_t> text_ends_;
  std::vector<bool> leaves_open_;
  size_t n_decoded_ = 0;  // bytes that the decoder returned so far, including held-back ones
  std::string text_;
};

// Log-probabilities of an answer's tokens, and how many of them were emitted.
class LogprobQueue {
 public:
  void add(TokenLogprobs one) { all_.push_back(std::move(one)); }

  // Returns the log-probabilities that are final and not yet emitted, and marks them as emitted.
  std::vector<TokenLogprobs> take_certain(const ReplyText& reply) {
    if (all_.empty()) return {};
    const size_t first =
        std::exchange(n_emitted_, std::clamp(reply.n_certain_tokens(n_emitted_), n_emitted_, all_.size()));
    return {all_.begin() + static_cast<std::ptrdiff_t>(first), all_.begin() + static_cast<std::ptrdiff_t>(n_emitted_)};
  }
  // Returns the log-probabilities of the first n tokens (or of all, if fewer), emitted or not.
  std::vector<TokenLogprobs> take(size_t n) {
    all_.resize(std::min(n, all_.size()));
    return std::move(all_);
  }

 private:
  std::vector<TokenLogprobs> all_;
  size_t n_emitted_ = 0;
};

}  // namespace ibid
