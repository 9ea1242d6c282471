// Tokenizer: text to token ids and back, exactly as Hugging Face `tokenizers` does it for the same file.
// Immutable after loading and safe to use from several threads.
//
// Law: the text of a message can never become a control token. encode() takes the origin of its text, and
// only TextOrigin::kTemplate finds special tokens.
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

// The text before a text, as far as the encoding depends on it.
struct TextContext {
  bool at_start = true;     // nothing stands before it
  bool after_word = false;  // the character before it is a word character (\w)
  bool after_normalized_word = false;  // likewise of the text as normalized: "²" is not one, the "2" made of it is
  bool after_text = false;  // ordinary text, not an added token, stands before it
};

// The ids of a text that may still grow at its end.
struct GrowingEncoding {
  Tokens tokens;              // of the whole text as it stands
  size_t n_final_tokens = 0;  // the first of them that no append can change ...
  size_t n_final_bytes = 0;   // ... and the bytes they came from; encoding may resume behind these
  TextContext resume;         // with this context
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual size_t vocab_size() const = 0;  // largest id + 1

  // The ids of one whole text. add_special: also what the file's post-processor adds (BOS, EOS).
  // Total: every byte string has an encoding (bytes that the vocabulary lacks vanish, as in the reference).
  virtual Tokens encode(std::string_view text, TextOrigin origin, bool add_special = false) const = 0;

  // The ids of a text whose parts have different origins: pre-tokens run across the borders, a match of an added
  // token does not. Matches that a border hides are the only difference from encode() of the bytes. Additions of a
  // post-processor are not included. The default knows no final boundary and joins nothing: enough for tokenizers
  // without merges.
  virtual GrowingEncoding encode_growing(const MarkedText& text, TextContext before) const;
  Tokens encode_marked(const MarkedText& text) const { return encode_growing(text, {}).tokens; }

  // The bytes that an id stands for, special tokens shown; empty for an id out of range.
  // The view lives as long as the tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // The same for the first id of a text that is shown. SentencePiece's tokenizers put a space in front of a text,
  // and their decoders take it off again.
  virtual std::string_view first_token_bytes(TokenId id) const { return token_bytes(id); }
  // The text of ids, special tokens shown, no clean-up of spaces; may hold invalid UTF-8 at its ends.
  virtual std::string decode(TokenSpan ids) const = 0;

  virtual bool is_special(TokenId id) const = 0;  // an added token with special=true
  virtual std::optional<TokenId> find_token(
      std::string_view text) const = 0;  // by its exact text, specials included
  virtual std::optional<TokenId> bos() const = 0;
  virtual std::optional<TokenId> eos() const = 0;
  // Every id that ends a model's turn: eos, eot (<|im_end|>, <|eot_id|>, <|end|>, ...), as the file names
  // them or by their well-known texts.
  virtual const std::vector<TokenId>& end_of_turn() const = 0;
};

// Loads from GGUF metadata or from tokenizer.json (preferred where both exist).
// Errors: kUnsupported (names the model, pre-tokenizer or component), kBadVocab, kBadMerge, kBadByteToken,
// kMissingKey.
Result<std::unique_ptr<Tokenizer>> load_tokenizer(const ModelFile& file);

// --- IncrementalEncoder: keeps the ids of a text that grows at its end, at the cost of what is new.
// After any number of append() calls, the ids equal what a full encode of the concatenated pieces gives (each piece
// under its own origin; where the origin changes, added tokens do not match across the border). Rule of exactness: a
// pre-token is final once its match, lookahead included, did not touch the end of the text; special tokens are
// barriers; everything behind the last final boundary is encoded again.
// A value: copy it to fork a conversation, keep a copy to rewind one. Not thread-safe.

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

// --- StreamDecoder: text of generated ids, id by id, in whole UTF-8 characters only. O(1) per id; keeps at most
// three pending bytes. Bytes that can never become a character come out as U+FFFD. The first id that shows something
// is shown as the first of a text (Tokenizer::first_token_bytes). A value: copyable.

class StreamDecoder {
 public:
  // Special tokens give no text, but those of `shown`: markers of calls and of reasoning are special tokens in some
  // models. They ascend, and outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, TokenSpan shown = {}) : tokenizer_(&tokenizer), shown_(shown) {}

  // The characters that `id` completes; empty while a character is still open.
  std::string push(TokenId id);
  // Whether the last ids hold the beginning of a character that is not whole yet.
  bool is_open() const { return !pending_.empty(); }
  // The bytes that are still open at the end of the stream, as U+FFFD.
  std::string finish();

 private:
  const Tokenizer* tokenizer_;
  TokenSpan shown_;
  std::string pending_;
  bool begins_ = true;  // nothing was shown yet
};

}  // namespace ibid
