#include "tokenizer/tokenizer.h"

namespace ibid {

GrowingEncoding Tokenizer::encode_growing(const MarkedText& text, TextContext before) const {
  GrowingEncoding out;
  for (const MarkedText::Run run : text.runs()) {
    const Tokens tokens = encode(run.bytes, run.origin);
    out.tokens.insert(out.tokens.end(), tokens.begin(), tokens.end());
  }
  out.resume = before;
  return out;
}

}  // namespace ibid
