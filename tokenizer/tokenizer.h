// Tokenizer: converts text to tokens and back, exactly as Hugging Face `tokenizers` does with the same file. Immutable
// after loading and thread-safe.
//
// Law: the text of a message can never become a control token. encode() takes the origin of its text, and finds special
// tokens only in text of origin TextOrigin::kTemplate.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/marked_text.h"
#include "base/result.h"
#include "ibid/token.h"

namespace ibid {

class ModelFile;

// Properties of the preceding text on which the encoding of a text depends.
struct TextContext {
  bool at_start = true;     // nothing precedes the text
  bool after_word = false;  // the preceding character is a word character (\w)
  // The preceding character is a word character after normalization: "²" is not a word character, but "2" is.
  bool after_normalized_word = false;
  bool after_text = false;  // ordinary text directly precedes the text, not an added token
};

// The tokens of a text that may still grow at its end.
struct PartialEncoding {
  Tokens tokens;              // tokens of the whole text so far
  size_t n_final_tokens = 0;  // number of tokens, from the first on, that no append can change
  size_t n_final_bytes = 0;   // number of bytes that the final tokens encode; encoding may resume after these bytes
  TextContext resume;         // context in which encoding resumes
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual size_t vocab_size() const = 0;  // largest token id + 1

  // Encodes one whole text. add_special: adds the tokens of the file's post-processor (BOS, EOS). Every byte string can
  // be encoded: bytes that the vocabulary lacks are dropped, as in `tokenizers`.
  virtual Tokens encode(std::string_view text, TextOrigin origin, bool add_special = false) const = 0;

  // Encodes a text whose parts have different origins. The only difference from encode() of the same bytes: matches of
  // added tokens may not span parts of different origin (pre-tokens may). Adds no tokens of a post-processor. The
  // default implementation reports no final tokens and encodes each part by itself, which is enough for tokenizers
  // without merges.
  virtual PartialEncoding encode_growing(const MarkedText& text, TextContext before) const;
  Tokens encode_marked(const MarkedText& text) const { return encode_growing(text, {}).tokens; }

  // Returns the bytes of a token, special ones included; empty for an id out of range. The view lives as long as the
  // tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // Returns the bytes of a token that is the first of a decoded text. SentencePiece's tokenizers add a space before a
  // text, and their decoders remove it.
  virtual std::string_view first_token_bytes(TokenId id) const { return token_bytes(id); }
  // Decodes tokens, special ones included, without removing spaces. The result may begin or end in the middle of a
  // UTF-8 character.
  virtual std::string decode(TokenSpan ids) const = 0;

  virtual bool is_special(TokenId id) const = 0;  // true for an added token with special=true
  // finds a token by its exact text, special tokens included
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // Returns all tokens that end a model's turn: eos, eot (<|im_end|>, <|eot_id|>, <|end|>, ...), which the file names
  // or whose texts are well known.
  virtual const std::vector<TokenId>& end_of_turn() const = 0;
  // Adds a token that ends a turn. Call only before the tokenizer is shared by threads.
  virtual void add_end_of_turn(TokenId id) = 0;

  // Warnings about defects of the file in spite of which the tokenizer loaded.
  virtual const std::vector<std::string>& warnings() const = 0;
};

// Loads from GGUF metadata or from tokenizer.json (preferred if both exist). Single defective tokens are warnings.
// Errors: kUnsupported (names the model, pre-tokenizer or component), kBadVocab, kBadMerge, kBadByteToken, kMissingKey.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file);

// --- IncrementalEncoder: keeps the tokens of a text that grows at its end, at a cost proportional to the new text.
// After any number of append() calls, the tokens equal a full encode of the concatenated pieces (each piece under its
// own origin; added tokens do not match across a change of origin). This is exact, because a pre-token is final once
// its match, lookahead included, did not read the end of the text; no match crosses a special token; everything after
// the last final boundary is encoded again. A value: copy it to fork a conversation, keep a copy to rewind one. Not
// thread-safe.

class IncrementalEncoder {
 public:
  // `tokenizer` must outlive the encoder. `before`: describes the preceding text, which was encoded elsewhere (sampled
  // tokens).
  explicit IncrementalEncoder(const Tokenizer& tokenizer, TextContext before = {})
      : tokenizer_(&tokenizer), context_(before) {}

  struct Delta {
    size_t keep;    // number of leading tokens that stay the same
    Tokens tokens;  // tokens that follow the first `keep` tokens
  };
  // Appends bytes and returns how the tokens changed. Time and memory: O(number of bytes + length of the text that is
  // not final).
  Delta append(std::string_view bytes, TextOrigin origin);

  size_t n_tokens() const { return n_final_ + pending_tokens_.size(); }

  // Number of bytes pre-tokenized since construction, including text that was encoded again. Tests check the cost of
  // append() with this number.
  size_t bytes_encoded() const { return bytes_encoded_; }

 private:
  const Tokenizer* tokenizer_;
  TextContext context_;    // context of pending_
  size_t n_final_ = 0;     // number of tokens that no append can change any more
  Tokens pending_tokens_;  // tokens of pending_
  MarkedText pending_;     // the text after the final tokens
  size_t bytes_encoded_ = 0;
};

// --- StreamDecoder: decodes generated tokens one by one into whole UTF-8 characters. O(1) per token; keeps at most
// three pending bytes. Bytes that can never become a character become U+FFFD. The first token that has text is decoded
// with Tokenizer::first_token_bytes(). A value: copyable.

class StreamDecoder {
 public:
  // Special tokens give no text, except those in `shown` (in some models, markers of calls and of reasoning are special
  // tokens). `shown` must be sorted and outlive the decoder. begins: the text begins here, so the space that some
  // tokenizers add before a text is removed.
  explicit StreamDecoder(const Tokenizer& tokenizer, TokenSpan shown = {}, bool begins = true)
      : tokenizer_(&tokenizer), shown_(shown), begins_(begins) {}

  // Returns the characters that `id` completes; empty while a character is incomplete.
  std::string push(TokenId id);
  // True if the last tokens end in the middle of a character.
  bool is_open() const { return !pending_.empty(); }
  // Ends the stream. Returns U+FFFD for its incomplete bytes, if any.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenSpan shown_;
  std::string pending_;
  bool begins_;  // no text was decoded yet
};

}  // namespace ibid
