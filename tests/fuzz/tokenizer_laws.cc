#include "tests/fuzz/tokenizer_laws.h"

#include <string>
#include <vector>

#include "base/check.h"
#include "base/utf8.h"
#include "tokenizer/tokenizer.h"

namespace ibid::fuzz {

namespace {

void check_growing(const Tokenizer& tokenizer, std::string_view text, TextOrigin origin, const Tokens& whole,
                   Script& script) {
  IncrementalEncoder encoder(tokenizer);
  Tokens grown;
  while (!text.empty()) {
    const size_t n = std::min<size_t>(1 + script.byte() % 16u, text.size());
    const IncrementalEncoder::Delta delta = encoder.append(text.substr(0, n), origin);
    CHECK_LE(delta.keep, grown.size());
    grown.resize(delta.keep);
    grown.insert(grown.end(), delta.tokens.begin(), delta.tokens.end());
    text.remove_prefix(n);
  }
  CHECK(grown == whole) << "incremental encoding differs from the whole";
}

void check_stream(const Tokenizer& tokenizer, const Tokens& ids) {
  StreamDecoder decoder(tokenizer);
  std::string streamed;
  Tokens shown;
  for (const TokenId id : ids) {
    streamed += decoder.push(id);
    if (!tokenizer.is_special(id)) shown.push_back(id);
  }
  streamed += decoder.finish();
  CHECK(utf8_is_valid(streamed));
  CHECK(streamed == utf8_sanitize(tokenizer.decode(shown))) << "streamed text differs from decode()";
}

}  // namespace

void check_tokenizer(const Tokenizer& tokenizer, std::string_view text, Script& script) {
  const TextOrigin origin = script.flag() ? TextOrigin::kTemplate : TextOrigin::kInput;
  const Tokens ids = tokenizer.encode(text, origin);
  for (const TokenId id : ids) {
    CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer.vocab_size()) << id;
  }
  check_growing(tokenizer, text, origin, ids, script);
  check_stream(tokenizer, ids);
  (void)tokenizer.encode(text, origin, true);
  for (const TokenId id : tokenizer.end_of_turn()) CHECK(id >= 0 && static_cast<size_t>(id) < tokenizer.vocab_size());
}

}  // namespace ibid::fuzz
