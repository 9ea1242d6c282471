// IncrementalEncoder: keeps the ids of a text that grows at its end, at the cost of what is new.
//
// After any number of append() calls, the ids equal what a full encode of the concatenated pieces gives
// (each piece under its own origin; where the origin changes, added tokens do not match across the border).
// Rule of exactness: a pre-token is final once its match, lookahead included, did not touch the end of the
// text; special tokens are barriers; everything behind the last final boundary is encoded again.
//
// A value: copy it to fork a conversation, keep a copy to rewind one. Not thread-safe.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/marked_text.h"
#include "ibid/token.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class IncrementalEncoder {
 public:
  // `tokenizer` must outlive the encoder. `before`: what stands in front of the text, encoded elsewhere (sampled ids).
  explicit IncrementalEncoder(const Tokenizer& tokenizer, TextContext before = {})
      : tokenizer_(&tokenizer), context_(before) {}

  struct Delta {
    size_t keep;    // of the ids known before the call, the first `keep` stay
    Tokens tokens;  // the ids that follow them now
  };
  // Appends bytes and returns how the ids changed. Work and memory are O(bytes + pending tail).
  Delta append(std::string_view bytes, TextOrigin origin);

  size_t n_tokens() const { return n_final_ + pending_tokens_.size(); }

  // Bytes run through the pre-tokenizer since construction, the re-encoded tails included: the counter
  // that proves O(delta).
  size_t bytes_encoded() const { return bytes_encoded_; }

 private:
  const Tokenizer* tokenizer_;
  TextContext context_;    // before pending_
  size_t n_final_ = 0;     // ids that no append can change any more
  Tokens pending_tokens_;  // the ids of pending_
  MarkedText pending_;     // the text behind the last final boundary
  size_t bytes_encoded_ = 0;
};

}  // namespace ibid
