// ReplyText: turns the sampled ids of one answer into text, and says how much of it may be shown: whole characters,
// and nothing that may belong to a stop string. Owned by one answer. Not thread-safe.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"
#include "runtime/generate/generate.h"
#include "sampling/stop_detector.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

class ReplyText {
 public:
  // shown: special tokens that give text (StreamDecoder).
  ReplyText(const Tokenizer& tokenizer, StopDetector stops, TokenSpan shown = {});

  // Takes an id; true when a stop string is complete.
  bool push(TokenId id);

  // What may be shown so far. It only grows.
  const std::string& text() const { return text_; }

  // How many of the first ids stay, whatever comes: all of their text may be shown. n_known: an earlier result.
  size_t n_certain_ids(size_t n_known) const;

  // Ends the text, since no id follows. Unfinished characters and what was held back become text, and may complete
  // a stop string. Ids, text and what ended the answer go to `out`.
  void finish(Generation& out);

 private:
  bool show(std::string_view piece);
  void drop_ids_behind(size_t n_bytes);

  StreamDecoder decoder_;
  StopDetector stops_;
  Tokens ids_;
  std::vector<size_t> text_ends_;
  std::vector<bool> leaves_open_;
  size_t n_decoded_ = 0;  // bytes out of the decoder, held back or not
  std::string text_;
};

}  // namespace ibid
