#include "tokenizer/byte_level_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "weights/in_quotes.h"

namespace ibid {

ByteLevelBuilder::ByteLevelBuilder(std::string source, size_t vocab_size)
    : TokenizerBuilder(std::move(source), spec_), spec_(vocab_size) {
  spec_.bpe.byte_ids.fill(kNoToken);
}

Status ByteLevelBuilder::add_model_token(TokenId id, std::string_view text) {
  TRY(check_text(id, text));
  TRY(check_free(id, text));
  const std::optional<std::string> bytes = alphabet_to_bytes(text);
  spec_.vocabulary.set_bytes(id, bytes ? *bytes : text);
  if (!bytes) return add_other_text(id, text);
  if (!spec_.vocabulary.index(id)) {
    return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
  }
  if (bytes->size() == 1) spec_.bpe.byte_ids[static_cast<unsigned char>((*bytes)[0])] = id;
  return {};
}

// Added tokens are shown as the reference's decoder shows them, which takes them for the alphabet as well.
std::string ByteLevelBuilder::shown(std::string_view text) const {
  return alphabet_to_bytes(text).value_or(std::string(text));
}

Status ByteLevelBuilder::add_byte_token(TokenId id, std::string_view text) {
  TRY_ASSIGN(const uint8_t byte, byte_of(id, text));
  TRY(add_other_text(id, text));
  const char character = static_cast<char>(byte);
  spec_.vocabulary.set_bytes(id, std::string_view(&character, 1));
  return {};
}

Status ByteLevelBuilder::add_merge(std::string_view left, std::string_view right) {
  const size_t rank = spec_.bpe.merges.size();
  TRY(check_merge(rank, left, right));
  const std::optional<std::string> left_bytes = alphabet_to_bytes(left),
                                   right_bytes = alphabet_to_bytes(right);
  const TokenId left_id = left_bytes ? spec_.vocabulary.find(*left_bytes) : kNoToken;
  if (left_id == kNoToken) return unknown_in_merge(rank, left, right, left);
  const TokenId right_id = right_bytes ? spec_.vocabulary.find(*right_bytes) : kNoToken;
  if (right_id == kNoToken) return unknown_in_merge(rank, left, right, right);
  merged_.assign(*left_bytes).append(*right_bytes);
  const TokenId result = spec_.vocabulary.find(merged_);
  if (result == kNoToken) return unknown_in_merge(rank, left, right, bytes_to_alphabet(merged_));
  spec_.bpe.merges.push_back({left_id, right_id, result});
  return {};
}

TokenId ByteLevelBuilder::find_model_token(std::string_view text) const {
  const std::optional<std::string> bytes = alphabet_to_bytes(text);
  return bytes ? spec_.vocabulary.find(*bytes) : kNoToken;
}

bool ByteLevelBuilder::lacks_bytes() const {
  const auto& ids = spec_.bpe.byte_ids;
  return std::find(ids.begin(), ids.end(), kNoToken) != ids.end();
}

std::unique_ptr<Tokenizer> ByteLevelBuilder::finish() {
  complete_end_of_turn();
  return std::make_unique<ByteLevelTokenizer>(std::move(spec_));
}

}  // namespace ibid
