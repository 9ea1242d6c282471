#include "tokenizer/byte_level_builder.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "weights/in_quotes.h"

namespace ibid {
namespace {

// Texts of special tokens that end a turn, whichever model they come from.
constexpr std::string_view kTurnEnds[] = {
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<|end_of_turn|>",
    "<|END_OF_TURN_TOKEN|>",
    "<|eot|>",
    "<|return|>",
    "<|call|>",
    "</s>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

}  // namespace

ByteLevelBuilder::ByteLevelBuilder(std::string source, size_t vocab_size)
    : source_(std::move(source)), spec_(vocab_size) {
  spec_.bpe.byte_ids.fill(kNoToken);
  spec_.bpe.is_control.assign(vocab_size, false);
}

Status ByteLevelBuilder::check_text(TokenId id, std::string_view text) const {
  if (text.empty()) return error(ErrorCode::kBadVocab, "token " + std::to_string(id) + " is empty");
  if (text.size() > VocabularyLimits::kMaxTokenBytes) {
    return error(ErrorCode::kBadVocab, "token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                                           " bytes, more than " +
                                           std::to_string(VocabularyLimits::kMaxTokenBytes));
  }
  return {};
}

Status ByteLevelBuilder::add_model_token(TokenId id, std::string_view text) {
  TRY(check_text(id, text));
  if (spec_.vocabulary.has_bytes(id)) {
    return error(ErrorCode::kBadVocab,
                 "two tokens have the id " + std::to_string(id) + ", one is " + in_quotes(text));
  }
  const std::optional<std::string> bytes = alphabet_to_bytes(text);
  spec_.vocabulary.set_bytes(id, bytes ? *bytes : text);
  const bool is_new = bytes ? spec_.vocabulary.index(id) : other_texts_.emplace(text, id).second;
  if (!is_new) return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
  if (bytes && bytes->size() == 1) spec_.bpe.byte_ids[static_cast<unsigned char>((*bytes)[0])] = id;
  return {};
}

Status ByteLevelBuilder::add_added_token(AddedToken token) {
  TRY(check_text(token.id, token.text));
  if (token.text.size() > AddedTokenSet::kMaxTextBytes) {
    return error(ErrorCode::kBadVocab, "the added token " + in_quotes(token.text) + " has more than " +
                                           std::to_string(AddedTokenSet::kMaxTextBytes) + " bytes");
  }
  if (!spec_.vocabulary.has_bytes(token.id)) {
    if (find_text(token.text)) {
      return error(ErrorCode::kBadVocab, "the token " + in_quotes(token.text) + " is there twice");
    }
    // Shown as the reference's decoder shows it, which takes added tokens for the alphabet as well.
    spec_.vocabulary.set_bytes(token.id, alphabet_to_bytes(token.text).value_or(token.text));
    other_texts_.emplace(token.text, token.id);
  }
  if (token.special) spec_.bpe.is_control[static_cast<size_t>(token.id)] = true;
  spec_.added.push_back(std::move(token));
  return {};
}

Status ByteLevelBuilder::add_byte_token(TokenId id, std::string_view text) {
  const auto digit = [](char c) {
    const std::string_view digits = "0123456789ABCDEF";
    return digits.find(c);
  };
  const bool shaped = text.size() == 6 && text.starts_with("<0x") && text[5] == '>';
  const size_t high = shaped ? digit(text[3]) : std::string_view::npos;
  const size_t low = shaped ? digit(text[4]) : std::string_view::npos;
  if (high == std::string_view::npos || low == std::string_view::npos) {
    return error(ErrorCode::kBadByteToken, "token " + std::to_string(id) + " is a byte token, but " +
                                               in_quotes(text) + " is not <0x00> to <0xFF>");
  }
  if (!other_texts_.emplace(text, id).second) {
    return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
  }
  const char byte = static_cast<char>(high * 16 + low);
  spec_.vocabulary.set_bytes(id, std::string_view(&byte, 1));
  return {};
}

Status ByteLevelBuilder::unknown_in_merge(std::string_view left, std::string_view right,
                                          std::string_view missing) const {
  return error(ErrorCode::kBadMerge, "merge " + std::to_string(spec_.bpe.merges.size()) + " of " +
                                         in_quotes(left) + " and " + in_quotes(right) + " needs the token " +
                                         in_quotes(missing) + ", which the vocabulary lacks");
}

Status ByteLevelBuilder::add_merge(std::string_view left, std::string_view right) {
  if (left.empty() || right.empty()) {
    return error(ErrorCode::kBadMerge,
                 "merge " + std::to_string(spec_.bpe.merges.size()) + " has an empty side");
  }
  if (spec_.bpe.merges.size() >= VocabularyLimits::kMaxMerges) {
    return error(ErrorCode::kBadMerge,
                 "more than " + std::to_string(VocabularyLimits::kMaxMerges) + " merges");
  }
  const std::optional<std::string> left_bytes = alphabet_to_bytes(left),
                                   right_bytes = alphabet_to_bytes(right);
  const TokenId left_id = left_bytes ? spec_.vocabulary.find(*left_bytes) : kNoToken;
  if (left_id == kNoToken) return unknown_in_merge(left, right, left);
  const TokenId right_id = right_bytes ? spec_.vocabulary.find(*right_bytes) : kNoToken;
  if (right_id == kNoToken) return unknown_in_merge(left, right, right);
  merged_.assign(*left_bytes).append(*right_bytes);
  const TokenId result = spec_.vocabulary.find(merged_);
  if (result == kNoToken) return unknown_in_merge(left, right, bytes_to_alphabet(merged_));
  spec_.bpe.merges.push_back({left_id, right_id, result});
  return {};
}

Result<TokenId> ByteLevelBuilder::checked_id(int64_t id, std::string_view key) const {
  if (id < 0 || static_cast<uint64_t>(id) >= spec_.vocabulary.size()) {
    return error(ErrorCode::kBadVocab, std::string(key) + " is " + std::to_string(id) +
                                           ", the vocabulary has " + std::to_string(spec_.vocabulary.size()) +
                                           " tokens");
  }
  return static_cast<TokenId>(id);
}

std::optional<TokenId> ByteLevelBuilder::find_text(std::string_view text) const {
  if (const auto other = other_texts_.find(std::string(text)); other != other_texts_.end())
    return other->second;
  const std::optional<std::string> bytes = alphabet_to_bytes(text);
  const TokenId id = bytes ? spec_.vocabulary.find(*bytes) : kNoToken;
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

bool ByteLevelBuilder::lacks_bytes() const {
  const auto& ids = spec_.bpe.byte_ids;
  return std::find(ids.begin(), ids.end(), kNoToken) != ids.end();
}

std::unique_ptr<Tokenizer> ByteLevelBuilder::finish() {
  std::vector<TokenId>& ends = spec_.end_of_turn;
  const auto add = [&ends](TokenId id) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  if (spec_.eos) add(*spec_.eos);
  // In the harmony format <|end|> closes one message of several.
  const bool harmony = find_text("<|return|>").has_value() && find_text("<|call|>").has_value();
  for (const std::string_view text : kTurnEnds) {
    if (harmony && text == "<|end|>") continue;
    const std::optional<TokenId> id = find_text(text);
    if (id && spec_.bpe.is_control[static_cast<size_t>(*id)]) add(*id);
  }
  return std::make_unique<ByteLevelTokenizer>(std::move(spec_));
}

}  // namespace ibid
