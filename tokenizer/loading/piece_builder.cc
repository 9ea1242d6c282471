#include "tokenizer/loading/piece_builder.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text.h"
#include "base/utf8.h"
#include "tokenizer/models/unigram.h"

namespace ibid {

PieceBuilder::PieceBuilder(std::string source, size_t vocab_size, Display display)
    : TokenizerBuilder(std::move(source), spec_),
      spec_(vocab_size),
      bpe_(vocab_size),
      display_(std::move(display)) {}

std::string PieceBuilder::shown(std::string_view text) const {
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
  TRY(check_text(id, text));
  TRY(check_free(id, text));
  spec_.vocabulary.set_bytes(id, shown(text));
  bpe_.written.set_bytes(id, text);
  if (bpe_.written.index(id)) return {};
  return error(ErrorCode::kBadVocab, "the token " + in_quotes(text) + " is there twice");
}

Status PieceBuilder::add_shown_token(TokenId id, std::string_view text) {
  TRY(check_text(id, text));
  TRY(check_free(id, text));
  spec_.vocabulary.set_bytes(id, shown(text));
  return add_other_text(id, text);
}

Status PieceBuilder::add_byte_token(TokenId id, std::string_view text) {
  TRY_ASSIGN(const uint8_t byte, byte_of(id, text));
  if (bpe_.byte_ids[byte] != kNoToken) {
    return error(ErrorCode::kBadByteToken, "tokens " + std::to_string(bpe_.byte_ids[byte]) + " and " +
                                               std::to_string(id) + " stand for one byte, " + in_quotes(text));
  }
  TRY(check_free(id, text));
  const char character = static_cast<char>(byte);
  spec_.vocabulary.set_bytes(id, std::string_view(&character, 1));
  bpe_.byte_ids[byte] = id;
  return add_other_text(id, text);
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
  // Message text must not become a control token; template text finds it before any merge.
  if (!spec_.special[static_cast<size_t>(merge.result)]) bpe_.merges.push_back(merge);
}

// A side of a merge: a token, or a single character, which gets a number when it is no token.
TokenId PieceBuilder::symbol_of(std::string_view text) {
  const TokenId id = bpe_.written.find(text);
  if (id != kNoToken) return id;
  const DecodedChar c = utf8_decode(text, 0);
  if (!c.valid || c.length != text.size()) return kNoToken;
  if (loose_.find(c.code_point) == kNoToken) {
    const size_t number = bpe_.written.size() + bpe_.loose_characters.size();
    loose_.set(c.code_point, static_cast<TokenId>(number));
    bpe_.loose_characters.emplace_back(c.code_point, static_cast<TokenId>(number));
  }
  return loose_.find(c.code_point);
}

void PieceBuilder::add_splits(TokenId id, uint32_t rank) {
  const std::string_view text = bpe_.written.bytes(id);
  if (!utf8_is_valid(text)) return;  // no text is ever cut into such characters
  for (size_t cut = utf8_decode(text, 0).length; cut < text.size(); cut += utf8_decode(text, cut).length) {
    const TokenId left = symbol_of(text.substr(0, cut));
    const TokenId right = left == kNoToken ? kNoToken : symbol_of(text.substr(cut));
    if (right != kNoToken) bpe_.merges.push_back({left, right, id, rank});
  }
}

Status PieceBuilder::check_score(TokenId id, double score) const {
  if (std::isfinite(score)) return {};
  return error(ErrorCode::kBadVocab, "the score of token " + std::to_string(id) + " " +
                                         in_quotes(bpe_.written.bytes(id)) + " is " + std::to_string(score) +
                                         ", wanted a finite number");
}

Status PieceBuilder::use_unigram(std::vector<double> scores, int64_t unknown, std::string_view unknown_key,
                                 bool byte_fallback) {
  UnigramModel model(bpe_.written.size());
  TRY_ASSIGN(model.unknown, checked_id(unknown, unknown_key));
  if (!bpe_.written.has_bytes(model.unknown)) {
    return error(ErrorCode::kBadVocab, std::string(unknown_key) + " is " + std::to_string(unknown) +
                                           ", which is no token of the model's vocabulary");
  }
  if (byte_fallback) use_byte_tokens();
  scores.resize(bpe_.written.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (!bpe_.written.has_bytes(id)) continue;
    TRY(check_score(id, scores[i]));
    // Message text must not become a control token; template text finds it before. The unknown token controls
    // nothing.
    model.is_piece[i] = !spec_.special[i] || id == model.unknown;
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
    if (!bpe_.written.has_bytes(id)) continue;
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
  uint32_t rank = 0;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i > 0 && score(order[i]) != score(order[i - 1])) ++rank;
    add_splits(order[i], rank);
  }
  return {};
}

std::unique_ptr<Tokenizer> PieceBuilder::finish() {
  complete_end_of_turn();
  if (spec_.model == nullptr) spec_.model = std::make_unique<CharBpe>(std::move(bpe_));
  return std::make_unique<PieceTokenizer>(std::move(spec_));
}

}  // namespace ibid
