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

#include "base/result.h"
#include "base/types.h"

namespace ibid {

class ModelFile;

// Where a piece of text comes from, which decides what it may become.
enum class TextOrigin {
  kTemplate,  // written by the chat template: every added token is found in it
  kInput,     // written by a user, a tool or a model: added tokens with special=true are ordinary text
};

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual size_t vocab_size() const = 0;  // largest id + 1

  // The ids of one whole text. add_special: also what the file's post-processor adds (BOS, EOS).
  // Total: every byte string has an encoding (bytes that the vocabulary lacks vanish, as in the reference).
  virtual Tokens encode(std::string_view text, TextOrigin origin, bool add_special = false) const = 0;

  // The bytes that an id stands for, special tokens shown; empty for an id out of range.
  // The view lives as long as the tokenizer.
  virtual std::string_view token_bytes(TokenId id) const = 0;
  // The text of ids, special tokens shown, no clean-up of spaces; may hold invalid UTF-8 at its ends.
  virtual std::string decode(TokenSpan ids) const = 0;

  virtual bool is_special(TokenId id) const = 0;               // an added token with special=true
  virtual std::optional<TokenId> find_token(std::string_view text) const = 0;  // by its exact text, specials included
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

}  // namespace ibid
