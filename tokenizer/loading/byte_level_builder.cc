#include "tokenizer/loading/byte_level_builder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text.h"
#include "tokenizer/byte_alphabet.h"

namespace ibid {

ByteLevelBuilder::ByteLevelBuilder(std::string source, size_t vocab_size)
    : TokenizerBuilder(std::move(source), spec_), spec_(vocab_size) {
  spec_.bpe.byte_ids.fill(kNoToken);
}

Status ByteLevelBuilder::add_model_token(TokenId id, std::string_view text) {
  TRY(check_text(id, text));
  TRY(check_free(id, text));
  bytes_.clear();
  const bool in_alphabet = append_alphabet_bytes(text, bytes_);
  spec_.vocabulary.set_bytes(id, in_alphabet ? std::string_view(bytes_) : text);
  if (!in_alphabet) return add_other_text(id, text);
  if (!spec_.vocabulary.index(id)) {
    return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
  }
  if (bytes_.size() == 1) spec_.bpe.byte_ids[static_cast<unsigned char>(bytes_[0])] = id;
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

bool ByteLevelBuilder::append_symbol(std::string_view text, std::string& out) const {
  return append_alphabet_bytes(text, out);
}

void ByteLevelBuilder::take_merge(const RankedMerge& merge) {
  spec_.bpe.merges.push_back({merge.left, merge.right, merge.result});
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
