#include "tokenizer/loading/tokenizer_builder.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <system_error>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/models/unigram.h"

namespace ibid {
namespace {

// The alphabet of byte-level BPE (GPT-2, encoder.py) has a printable character for every byte, so that tokens can be
// written in JSON. Returns true for bytes that are written as themselves.
constexpr bool maps_to_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The character of each byte. Bytes that are not printable Latin-1 characters get U+0100 and up, in order.
constexpr std::array<uint16_t, 256> kCharacter = [] {
  std::array<uint16_t, 256> out{};
  uint16_t next = 0x100;
  for (unsigned b = 0; b < 256; ++b) out[b] = maps_to_itself(b) ? static_cast<uint16_t>(b) : next++;
  return out;
}();

constexpr size_t kCodePoints = 0x100 + 68;

constexpr std::array<int16_t, kCodePoints> kByteOf = [] {
  std::array<int16_t, kCodePoints> out{};
  for (int16_t& b : out) b = -1;
  for (unsigned b = 0; b < 256; ++b) out[kCharacter[b]] = static_cast<int16_t>(b);
  return out;
}();

// Appends the bytes that `token` spells. If a character is not in the alphabet, returns false, and some bytes may have
// been appended.
bool append_alphabet_bytes(std::string_view token, std::string& out) {
  for (size_t pos = 0; pos < token.size();) {
    const DecodedChar c = utf8_decode(token, pos);
    if (!c.valid || c.code_point >= kCodePoints || kByteOf[c.code_point] < 0) return false;
    out.push_back(static_cast<char>(kByteOf[c.code_point]));
    pos += c.length;
  }
  return true;
}

// Returns the bytes that `token` spells in the byte alphabet; nullopt if a character is not in the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view token) {
  std::string bytes;
  return append_alphabet_bytes(token, bytes) ? std::optional(std::move(bytes)) : std::nullopt;
}

// Texts of special tokens that end a turn in some model.
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
    "<|calls|>",
    "<|flush|>",
    "<turn|>",
    "<|tool_response>",
    "<end_of_utterance>",
    "<eos>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "</s>",
    "<\uFF5Cend\u2581of\u2581sentence\uFF5C>",
};

constexpr std::string_view defect_words(TokenDefect defect) {
  switch (defect) {
    case TokenDefect::kNoText: return "tokens without text";
    case TokenDefect::kSameText: return "tokens with the text of an earlier token";
    case TokenDefect::kSameId: return "tokens with the id of an earlier token";
    case TokenDefect::kTooLongToFind: return "added tokens that are too long to be found in a text";
    case TokenDefect::kWrongType: return "control tokens that the file types otherwise";
    case TokenDefect::kUnknownType: return "tokens of an unknown type";
    case TokenDefect::kNoByte: return "byte tokens that do not name a byte of their own";
    case TokenDefect::kN: break;
  }
  return "";
}

}  // namespace

bool is_turn_end(std::string_view text) {
  return text != "</s>" && std::ranges::find(kTurnEnds, text) != std::end(kTurnEnds);
}

bool looks_like_control(std::string_view text) {
  constexpr std::string_view kBar = "|", kWideBar = "\uFF5C";
  if (text.size() < 4 || !text.starts_with('<') || !text.ends_with('>')) return false;
  const std::string_view inner = text.substr(1, text.size() - 2);
  if (inner.find_first_of(" \t\r\n<>") != inner.npos) return false;
  for (const std::string_view bar : {kBar, kWideBar}) {
    if (inner != bar && (inner.starts_with(bar) || inner.ends_with(bar))) return true;
  }
  return inner.find("_of_") != inner.npos;
}

void TokenizerBuilder::note(TokenDefect defect, TokenId id, std::string_view text) {
  Noted& noted = noted_[static_cast<size_t>(defect)];
  if (noted.n_tokens++ == 0) noted.first = std::to_string(id) + (text.empty() ? "" : " " + in_quotes(text));
}

Result<bool> TokenizerBuilder::begin_token(TokenId id, std::string_view text) {
  if (text.size() > VocabularyLimits::kMaxTokenBytes) {
    return error(ErrorCode::kBadVocab, "token " + std::to_string(id) + " has " + std::to_string(text.size()) +
                                           " bytes, more than " + std::to_string(VocabularyLimits::kMaxTokenBytes));
  }
  if (pipeline_->vocabulary.has_bytes(id)) {
    note(TokenDefect::kSameId, id, text);
    return false;
  }
  if (!text.empty()) return true;
  pipeline_->vocabulary.set_bytes(id, text);
  note(TokenDefect::kNoText, id, text);
  return false;
}

void TokenizerBuilder::add_other_text(TokenId id, std::string_view text) {
  if (!other_texts_.emplace(text, id).second) note(TokenDefect::kSameText, id, text);
}

Status TokenizerBuilder::add_added_token(AddedToken token) {
  Vocabulary& vocabulary = pipeline_->vocabulary;
  if (!vocabulary.has_bytes(token.id)) {
    TRY_ASSIGN(const bool usable, begin_token(token.id, token.text));
    if (!usable) return {};
    vocabulary.set_bytes(token.id, decoded_bytes(token.text));
    if (find_model_token(token.text) != kNoToken) note(TokenDefect::kSameText, token.id, token.text);
    add_other_text(token.id, token.text);
  }
  if (token.special) pipeline_->special[static_cast<size_t>(token.id)] = true;
  if (find_text(token.text) != token.id) return {};
  if (token.text.size() > AddedTokenSet::kMaxTextBytes) {
    note(TokenDefect::kTooLongToFind, token.id, token.text);
    return {};
  }
  pipeline_->added.push_back(std::move(token));
  return {};
}

std::optional<uint8_t> TokenizerBuilder::parse_byte_token(std::string_view text) {
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  uint8_t byte = 0;
  const auto [end, code] = std::from_chars(text.data() + 3, text.data() + 5, byte, 16);
  return code == std::errc() && end == text.data() + 5 ? std::optional(byte) : std::nullopt;
}

Status TokenizerBuilder::check_merge(const TextMerge& merge, TokenId left, TokenId right, TokenId result) const {
  if (merge.left.empty() || merge.right.empty()) {
    return error(ErrorCode::kBadMerge, "merge " + std::to_string(n_merges_) + " has an empty side");
  }
  if (n_merges_ >= VocabularyLimits::kMaxMerges) {
    return error(ErrorCode::kBadMerge, "more than " + std::to_string(VocabularyLimits::kMaxMerges) + " merges");
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

// Looks up the three texts of each merge (left, right, and both joined) for all merges in one batch.
Status TokenizerBuilder::add_few_merges(std::span<const TextMerge> merges) {
  // For each merge, three positions in sides_: start of the left side, end of the left side, end of the right side.
  std::array<std::array<size_t, 3>, kMergesTogether> ends;
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
  // If tokens with an empty or repeated text were dropped, merges may name texts that no token has.
  const bool has_lost = noted_[static_cast<size_t>(TokenDefect::kSameText)].n_tokens > 0 ||
                        noted_[static_cast<size_t>(TokenDefect::kNoText)].n_tokens > 0;
  for (size_t i = 0; i < merges.size(); ++i) {
    const bool lacks =
        std::ranges::find(std::span(ids).subspan(3 * i, 3), kNoToken) != std::span(ids).subspan(3 * i, 3).end();
    if (has_lost && lacks && !merges[i].left.empty() && !merges[i].right.empty()) {
      ++n_merges_;
      continue;
    }
    TRY(check_merge(merges[i], ids[3 * i], ids[3 * i + 1], ids[3 * i + 2]));
    take_merge({ids[3 * i], ids[3 * i + 1], ids[3 * i + 2], static_cast<uint32_t>(n_merges_++)});
  }
  return {};
}

Result<TokenId> TokenizerBuilder::checked_id(int64_t id, std::string_view key) const {
  const size_t n = pipeline_->vocabulary.size();
  if (id < 0 || static_cast<uint64_t>(id) >= n) {
    return error(ErrorCode::kBadVocab, std::string(key) + " is " + std::to_string(id) + ", the vocabulary has " +
                                           std::to_string(n) + " tokens");
  }
  return static_cast<TokenId>(id);
}

std::optional<TokenId> TokenizerBuilder::usable_id(int64_t id, std::string_view key) {
  const Result<TokenId> checked = checked_id(id, key);
  if (checked.ok()) return *checked;
  pipeline_->warnings.push_back(checked.status().message());
  return std::nullopt;
}

std::optional<TokenId> TokenizerBuilder::find_text(std::string_view text) const {
  if (const auto other = other_texts_.find(std::string(text)); other != other_texts_.end()) return other->second;
  const TokenId id = find_model_token(text);
  return id == kNoToken ? std::nullopt : std::optional<TokenId>(id);
}

void TokenizerBuilder::complete() {
  for (size_t i = 0; i < noted_.size(); ++i) {
    if (noted_[i].n_tokens == 0) continue;
    warn(std::string(defect_words(static_cast<TokenDefect>(i))) + ": " + std::to_string(noted_[i].n_tokens) +
         ", the first is " + noted_[i].first);
  }
  std::vector<TokenId>& ends = pipeline_->end_of_turn;
  const auto add = [&ends](TokenId id) {
    if (std::find(ends.begin(), ends.end(), id) == ends.end()) ends.push_back(id);
  };
  if (pipeline_->eos) add(*pipeline_->eos);
  // In the harmony format, and in a similar format, <|end|> ends a message but not the turn.
  const auto has = [this](std::string_view text) { return find_text(text).has_value(); };
  const bool harmony = (has("<|return|>") && has("<|call|>")) || (has("<|flush|>") && has("<|calls|>"));
  for (const std::string_view text : kTurnEnds) {
    if (harmony && text == "<|end|>") continue;
    const std::optional<TokenId> id = find_text(text);
    if (id && pipeline_->special[static_cast<size_t>(*id)]) add(*id);
  }
}

ByteLevelBuilder::ByteLevelBuilder(std::string source, size_t vocab_size)
    : TokenizerBuilder(std::move(source), spec_), spec_(vocab_size) {
  spec_.bpe.byte_ids.fill(kNoToken);
}

Status ByteLevelBuilder::add_model_token(TokenId id, std::string_view text) {
  TRY_ASSIGN(const bool usable, begin_token(id, text));
  if (!usable) return {};
  bytes_.clear();
  const bool in_alphabet = append_alphabet_bytes(text, bytes_);
  spec_.vocabulary.set_bytes(id, in_alphabet ? std::string_view(bytes_) : text);
  if (!in_alphabet) {
    add_other_text(id, text);
  } else if (!spec_.vocabulary.index(id)) {
    note(TokenDefect::kSameText, id, text);
  } else if (bytes_.size() == 1) {
    spec_.bpe.byte_ids[static_cast<unsigned char>(bytes_[0])] = id;
  }
  return {};
}

// Decodes an added token as `tokenizers` does: a text in the byte alphabet becomes the bytes that it spells.
std::string ByteLevelBuilder::decoded_bytes(std::string_view text) const {
  return alphabet_to_bytes(text).value_or(std::string(text));
}

Status ByteLevelBuilder::add_byte_token(TokenId id, std::string_view text) {
  const std::optional<uint8_t> byte = parse_byte_token(text);
  if (!byte) {
    note(TokenDefect::kNoByte, id, text);
    return add_model_token(id, text);
  }
  add_other_text(id, text);
  const char character = static_cast<char>(*byte);
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
  complete();
  return std::make_unique<ByteLevelTokenizer>(std::move(spec_));
}

PieceBuilder::PieceBuilder(std::string source, size_t vocab_size, Display display)
    : TokenizerBuilder(std::move(source), spec_), spec_(vocab_size), bpe_(vocab_size), display_(std::move(display)) {}

std::string PieceBuilder::decoded_bytes(std::string_view text) const {
  std::string out(text);
  for (const auto& [from, to] : display_.replacements) {
    for (size_t at = out.find(from); at != out.npos; at = out.find(from, at + to.size())) {
      out.replace(at, from.size(), to);
    }
  }
  if (!display_.bytes) return out;
  const std::optional<uint8_t> byte = parse_byte_token(out);
  return byte ? std::string(1, static_cast<char>(*byte)) : out;
}

Status PieceBuilder::add_model_token(TokenId id, std::string_view text) {
  TRY_ASSIGN(const bool usable, begin_token(id, text));
  if (!usable) return {};
  spec_.vocabulary.set_bytes(id, decoded_bytes(text));
  bpe_.written.set_bytes(id, text);
  if (!bpe_.written.index(id)) note(TokenDefect::kSameText, id, text);
  return {};
}

Status PieceBuilder::add_shown_token(TokenId id, std::string_view text) {
  TRY_ASSIGN(const bool usable, begin_token(id, text));
  if (!usable) return {};
  spec_.vocabulary.set_bytes(id, decoded_bytes(text));
  add_other_text(id, text);
  return {};
}

Status PieceBuilder::add_byte_token(TokenId id, std::string_view text) {
  const std::optional<uint8_t> byte = parse_byte_token(text);
  if (!byte || bpe_.byte_ids[*byte] != kNoToken) {
    note(TokenDefect::kNoByte, id, text);
    return byte ? add_shown_token(id, text) : add_model_token(id, text);
  }
  const char character = static_cast<char>(*byte);
  spec_.vocabulary.set_bytes(id, std::string_view(&character, 1));
  bpe_.byte_ids[*byte] = id;
  add_other_text(id, text);
  return {};
}

void PieceBuilder::use_byte_tokens() {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  for (size_t byte = 0; byte < 256; ++byte) {
    const std::string text = std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + '>';
    if (const TokenId id = bpe_.written.find(text); id != kNoToken) bpe_.byte_ids[byte] = id;
  }
}

bool PieceBuilder::lacks_bytes() const {
  return std::find(bpe_.byte_ids.begin(), bpe_.byte_ids.end(), kNoToken) != bpe_.byte_ids.end();
}

void PieceBuilder::take_merge(const RankedMerge& merge) {
  // Message text must not become a control token, so leave out merges that result in a control token. In template text,
  // control tokens are found before any merge.
  if (!spec_.special[static_cast<size_t>(merge.result)]) bpe_.merges.push_back(merge);
}

// Returns the symbol of one side of a merge: the token `found`, or for a single character without a token its number;
// else kNoToken.
TokenId PieceBuilder::symbol_of(std::string_view text, TokenId found) {
  if (found != kNoToken) return found;
  const DecodedChar c = utf8_decode(text, 0);
  if (!c.valid || c.length != text.size()) return kNoToken;
  if (untokenized_.find(c.code_point) == kNoToken) {
    const size_t number = bpe_.written.size() + bpe_.characters_without_token.size();
    untokenized_.set(c.code_point, static_cast<TokenId>(number));
    bpe_.characters_without_token.emplace_back(c.code_point, static_cast<TokenId>(number));
  }
  return untokenized_.find(c.code_point);
}

// Appends every split of a token's text into two texts.
void PieceBuilder::append_splits(TokenId id, uint32_t rank, std::vector<Split>& splits) const {
  const std::string_view text = bpe_.written.bytes(id);
  if (!utf8_is_valid(text)) return;  // no merge makes invalid UTF-8, because texts are split into whole characters
  for (size_t cut = utf8_decode(text, 0).length; cut < text.size(); cut += utf8_decode(text, cut).length) {
    splits.push_back({{text.substr(0, cut), text.substr(cut)}, id, rank});
  }
}

// Adds a merge for each split whose two sides are symbols (a token, or a character without a token).
void PieceBuilder::add_splits(std::span<const Split> splits) {
  std::vector<std::string_view> texts;
  std::vector<TokenId> ids(splits.size());
  for (const Split& split : splits) texts.push_back(split.sides.left);
  symbols().find_all(texts, ids);
  std::vector<RankedMerge> merges;  // merges whose left side is a symbol
  texts.clear();
  for (size_t i = 0; i < splits.size(); ++i) {
    const TokenId left = symbol_of(splits[i].sides.left, ids[i]);
    if (left == kNoToken) continue;
    merges.push_back({left, kNoToken, splits[i].id, splits[i].rank});
    texts.push_back(splits[i].sides.right);
  }
  ids.resize(texts.size());
  symbols().find_all(texts, ids);
  for (size_t i = 0; i < merges.size(); ++i) {
    merges[i].right = symbol_of(texts[i], ids[i]);
    if (merges[i].right != kNoToken) bpe_.merges.push_back(merges[i]);
  }
}

Status PieceBuilder::check_score(TokenId id, double score) const {
  if (std::isfinite(score)) return {};
  return error(ErrorCode::kBadVocab, "the score of token " + std::to_string(id) + " " +
                                         in_quotes(bpe_.written.bytes(id)) + " is " + std::to_string(score) +
                                         ", expected a finite number");
}

Status PieceBuilder::use_unigram(std::vector<double> scores, int64_t unknown, std::string_view unknown_key,
                                 bool byte_fallback) {
  UnigramModel model(bpe_.written.size());
  TRY_ASSIGN(model.unknown, checked_id(unknown, unknown_key));
  if (!bpe_.written.has_bytes(model.unknown)) {
    return error(ErrorCode::kBadVocab, std::string(unknown_key) + " is " + std::to_string(unknown) +
                                           ", which is not a token of the model's vocabulary");
  }
  if (byte_fallback) use_byte_tokens();
  scores.resize(bpe_.written.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!bpe_.written.has_bytes(id)) continue;
    TRY(check_score(id, scores[i]));
    // Message text must not become a control token other than the unknown token. In template text, control tokens are
    // found before this model runs.
    model.is_piece[i] = is_found(id) && (!spec_.special[i] || id == model.unknown);
  }
  model.written = bpe_.written;
  model.scores = std::move(scores);
  model.byte_ids = bpe_.byte_ids;
  model.byte_fallback = byte_fallback;
  spec_.model = std::make_unique<Unigram>(std::move(model));
  return {};
}

Status PieceBuilder::add_scores(const std::vector<double>& scores) {
  std::vector<TokenId> order;
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!is_found(id)) continue;
    TRY(check_score(id, scores[i]));
    if (bpe_.written.bytes(id).size() > kMaxScoredBytes) {
      return error(ErrorCode::kBadVocab, "token " + std::to_string(i) + " has a score and " +
                                             std::to_string(bpe_.written.bytes(id).size()) + " bytes, more than " +
                                             std::to_string(kMaxScoredBytes));
    }
    order.push_back(id);
  }
  const auto score = [&](TokenId id) { return scores[static_cast<size_t>(id)]; };
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return score(a) > score(b); });
  constexpr size_t kSplitsTogether = 1024;
  std::vector<Split> splits;
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
    append_splits(order[i], rank, splits);
    if (splits.size() < kSplitsTogether && i + 1 < order.size()) continue;
    add_splits(splits);
    splits.clear();
  }
  return {};
}

std::unique_ptr<Tokenizer> PieceBuilder::finish() {
  complete();
  if (spec_.model == nullptr) spec_.model = std::make_unique<CharBpe>(std::move(bpe_));
  return std::make_unique<PieceTokenizer>(std::move(spec_));
}

}  // namespace ibid
