#include "tokenizer/loading/tokenizer_builder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <system_error>

#include "base/text.h"

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

Status TokenizerBuilder::check_text(TokenId id, std::string_view text) const {
  if (text.empty()) return error(ErrorCode::kBadVocab, "token " + std::to_string(id) + " is empty");
  if (text.size() > VocabularyLimits::kMaxTokenBytes) {
    return error(ErrorCode::kBadVocab, "token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                                           " bytes, more than " +
                                           std::to_string(VocabularyLimits::kMaxTokenBytes));
  }
  return {};
}

Status TokenizerBuilder::check_free(TokenId id, std::string_view text) const {
  if (!pipeline_->vocabulary.has_bytes(id)) return {};
  return error(ErrorCode::kBadVocab,
               "two tokens have the id " + std::to_string(id) + ", one is " + in_quotes(text));
}

Status TokenizerBuilder::add_other_text(TokenId id, std::string_view text) {
  if (other_texts_.emplace(text, id).second) return {};
  return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
}

Status TokenizerBuilder::add_added_token(AddedToken token) {
  TRY(check_text(token.id, token.text));
  if (token.text.size() > AddedTokenSet::kMaxTextBytes) {
    return error(ErrorCode::kBadVocab, "the added token " + in_quotes(token.text) + " has more than " +
                                           std::to_string(AddedTokenSet::kMaxTextBytes) + " bytes");
  }
  if (!pipeline_->vocabulary.has_bytes(token.id)) {
    if (find_text(token.text)) {
      return error(ErrorCode::kBadVocab, "the token " + in_quotes(token.text) + " is there twice");
    }
    pipeline_->vocabulary.set_bytes(token.id, shown(token.text));
    TRY(add_other_text(token.id, token.text));
  }
  if (token.special) pipeline_->special[static_cast<size_t>(token.id)] = true;
  pipeline_->added.push_back(std::move(token));
  return {};
}

std::optional<uint8_t> TokenizerBuilder::parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, code] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  return code == std::errc() && end == text.data() + 5 ? std::optional(byte) : std::nullopt;
}

Result<uint8_t> TokenizerBuilder::byte_of(TokenId id, std::string_view text) const {
  if (const std::optional<uint8_t> byte = parse_byte_token(text)) return *byte;
  return error(ErrorCode::kBadByteToken, "token " + std::to_string(id) + " is a byte token, but " +
                                             in_quotes(text) + " is not <0x00> to <0xFF>");
}

Status TokenizerBuilder::check_merge(const TextMerge& merge, TokenId left, TokenId right, TokenId result) const {
  if (merge.left.empty() || merge.right.empty()) {
    return error(ErrorCode::kBadMerge, "merge " + std::to_string(n_merges_) + " has an empty side");
  }
  if (n_merges_ >= VocabularyLimits::kMaxMerges) {
    return error(ErrorCode::kBadMerge,
                 "more than " + std::to_string(VocabularyLimits::kMaxMerges) + " merges");
  }
  if (left != kNoToken && right != kNoToken && result != kNoToken) return {};
  std::string missing(left == kNoToken ? merge.left : right == kNoToken ? merge.right : merge.left);
  if (left != kNoToken && right != kNoToken) missing += merge.right;
  return error(ErrorCode::kBadMerge, "merge " + std::to_string(n_merges_) + " of " + in_quotes(merge.left) + " and " +
                                         in_quotes(merge.right) + " needs the token " + in_quotes(missing) +
                                         ", which the vocabulary lacks");
}

Status TokenizerBuilder::add_merges(std::span<const TextMerge> merges) {
  while (!merges.empty()) {
    const size_t n = std::min(kMergesTogether, merges.size());
    TRY(add_few_merges(merges.first(n)));
    merges = merges.subspan(n);
  }
  return {};
}

// Left, right and both joined of each merge are looked up together.
Status TokenizerBuilder::add_few_merges(std::span<const TextMerge> merges) {
  std::array<std::array<size_t, 3>, kMergesTogether> ends;  // in sides_: of what stands before, of left, of right
  sides_.clear();
  for (size_t i = 0; i < merges.size(); ++i) {
    ends[i][0] = sides_.size();
    if (!append_symbol(merges[i].left, sides_)) sides_.resize(ends[i][0]);
    ends[i][1] = sides_.size();
    if (!append_symbol(merges[i].right, sides_)) sides_.resize(ends[i][1]);
    ends[i][2] = sides_.size();
  }
  std::array<std::string_view, 3 * kMergesTogether> texts;
  for (size_t i = 0; i < merges.size(); ++i) {
    const auto between = [&](size_t from, size_t to) {
      return std::string_view(sides_).substr(ends[i][from], ends[i][to] - ends[i][from]);
    };
    texts[3 * i] = between(0, 1);
    texts[3 * i + 1] = between(1, 2);
    texts[3 * i + 2] = between(0, 2);
  }
  std::array<TokenId, 3 * kMergesTogether> ids;
  symbols().find_all(std::span(texts).first(3 * merges.size()), std::span(ids).first(3 * merges.size()));
  for (size_t i = 0; i < merges.size(); ++i) {
    TRY(check_merge(merges[i], ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]));
    take_merge({ids[3 * i], ids[3 * i + 1], ids[3 * i + 2], static_cast<uint32_t>(n_merges_++)});
  }
  return {};
}

Result<TokenId> TokenizerBuilder::checked_id(int64_t id, std::string_view key) const {
  const size_t n = pipeline_->vocabulary.size();
  if (id < 0 || static_cast<uint64_t>(id) >= n) {
    return error(ErrorCode::kBadVocab, std::string(key) + " is " + std::to_string(id) +
                                           ", the vocabulary has " + std::to_string(n) + " tokens");
  }
  return static_cast<TokenId>(id);
}

std::optional<TokenId> TokenizerBuilder::find_text(std::string_view text) const {
  if (const auto other = other_texts_.find(std::string(text)); other != other_texts_.end())
    return other->second;
  const TokenId id = find_model_token(text);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

void TokenizerBuilder::complete_end_of_turn() {
  std::vector<TokenId>& ends = pipeline_->end_of_turn;
  const auto add = [&ends](TokenId id) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  if (pipeline_->eos) add(*pipeline_->eos);
  // In the harmony format <|end|> closes one message of several.
  const bool harmony = find_text("<|return|>").has_value() && find_text("<|call|>").has_value();
  for (const std::string_view text : kTurnEnds) {
    if (harmony && text == "<|end|>") continue;
    const std::optional<TokenId> id = find_text(text);
    if (id && pipeline_->special[static_cast<size_t>(*id)]) add(*id);
  }
}

}  // namespace ibid
