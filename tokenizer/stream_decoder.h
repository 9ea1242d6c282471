// StreamDecoder: text of generated ids, id by id, in whole UTF-8 characters only. O(1) per id; keeps at
// most three pending bytes. Bytes that can never become a character come out as U+FFFD. The first id that shows
// something is shown as the first of a text (Tokenizer::first_token_bytes). A value: copyable.
#pragma once

#include <string>

#include "ibid/token.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class StreamDecoder {
 public:
  // Special tokens give no text, but those of `shown`: markers of calls and of reasoning are special tokens in some
  // models. They ascend, and outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, TokenSpan shown = {}) : tokenizer_(&tokenizer), shown_(shown) {}

  // The characters that `id` completes; empty while a character is still open.
  std::string push(TokenId id);
  // Whether the last ids hold the beginning of a character that is not whole yet.
  bool is_open() const { return !pending_.empty(); }
  // What is still open at the end of the stream, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenSpan shown_;
  std::string pending_;
  bool begins_ = true;  // nothing was shown yet
};

}  // namespace ibid
