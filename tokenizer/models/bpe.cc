#include "tokenizer/models/bpe.h"

#include <algorithm>
#include <span>
#include <utility>

#include "base/utf8.h"

namespace ibid {
namespace {

std::vector<RankedMerge> by_rank(const std::vector<Merge>& merges) {
  std::vector<RankedMerge> out;
  out.reserve(merges.size());
  for (const Merge& merge : merges) {
    out.push_back({merge.left, merge.right, merge.result, static_cast<uint32_t>(out.size())});
  }
  return out;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, BpeModel model)
    : vocabulary_(&vocabulary),
      model_(std::move(model)),
      merges_(by_rank(model_.merges)),
      reachable_(new std::atomic<uint8_t>[vocabulary.size()] {}) {
  for (const Merge& merge : model_.merges) {
    if (is_control(merge.result)) control_merges_.emplace(merge.result, merge);
  }
}

bool Bpe::is_control(TokenId id) const {
  return static_cast<size_t>(id) < model_.is_control.size() && model_.is_control[static_cast<size_t>(id)];
}

void Bpe::encode(std::string_view piece, bool allow_control, Tokens& out) const {
  if (piece.size() == 1) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(piece[0])];
    if (id != kNoToken) out.push_back(id);
    return;
  }
  const TokenId whole = vocabulary_->find(piece);
  const bool usable = whole != kNoToken && (allow_control || !is_control(whole));
  if (usable && model_.ignore_merges) {
    out.push_back(whole);
    return;
  }
  std::atomic<uint8_t>* reachable = whole != kNoToken ? &reachable_[static_cast<size_t>(whole)] : nullptr;
  const uint8_t known = reachable != nullptr ? reachable->load(std::memory_order_relaxed) : uint8_t{kNo};
  if (usable && known == kYes) {
    out.push_back(whole);
    return;
  }
  const size_t begin = out.size();
  merge(piece, out);
  if (known == kUnknown) {
    const bool yes = out.size() == begin + 1 && out[begin] == whole;
    reachable->store(yes ? kYes : kNo, std::memory_order_relaxed);
  }
  if (!control_merges_.empty() && !allow_control) undo_control(begin, out);
}

void Bpe::merge(std::string_view piece, Tokens& out) const {
  std::array<TokenId, kShortPiece> few;
  std::vector<TokenId> many(piece.size() > few.size() ? piece.size() : 0);
  const std::span<TokenId> symbols = many.empty() ? std::span<TokenId>(few) : many;
  size_t n = 0;
  for (const char byte : piece) {
    const TokenId id = model_.byte_ids[static_cast<unsigned char>(byte)];
    if (id != kNoToken) symbols[n++] = id;
  }
  n = merges_.merge(symbols.first(n));
  out.insert(out.end(), symbols.begin(), symbols.begin() + static_cast<ptrdiff_t>(n));
}

// Replaces each control token from `begin` on by the two tokens whose merge made it, until no control token is left.
void Bpe::undo_control(size_t begin, Tokens& out) const {
  Tokens todo(out.rbegin(), out.rend() - static_cast<ptrdiff_t>(begin));
  out.resize(begin);
  while (!todo.empty()) {
    const TokenId id = todo.back();
    todo.pop_back();
    const auto merge = control_merges_.find(id);
    if (merge == control_merges_.end()) {
      out.push_back(id);
    } else {
      todo.push_back(merge->second.right);
      todo.push_back(merge->second.left);
    }
  }
}

namespace {

// Number of the characters that are in no pair of adjacent characters.
constexpr uint32_t kNoCharacter = 0xFFFFFFFF;

}  // namespace

CharBpe::CharBpe(CharBpeModel model)
    : PieceModel(std::move(model.written)),
      merges_(model.merges),
      byte_ids_(model.byte_ids),
      untokenized_(model.characters_without_token.size()),
      unknown_(model.unknown),
      byte_fallback_(model.byte_fallback),
      fuse_unknown_(model.fuse_unknown),
      ignore_merges_(model.ignore_merges),
      reachable_(new std::atomic<uint8_t>[written().size()] {}) {
  const bool all_bytes = std::find(byte_ids_.begin(), byte_ids_.end(), kNoToken) == byte_ids_.end();
  // An unknown character becomes a token only when the next character with a token follows, so no part of a text may
  // end after an unknown character.
  unknown_joins_ = !(byte_fallback_ && all_bytes);
  for (size_t id = 0; id < written().size(); ++id) {
    const std::string_view text = written().bytes(static_cast<TokenId>(id));
    if (text.empty() || !written().is_indexed(static_cast<TokenId>(id))) continue;
    const DecodedChar c = utf8_decode(text, 0);
    if (c.valid && c.length == text.size()) symbols_.set(c.code_point, static_cast<TokenId>(id));
  }
  for (const auto& [code_point, number] : model.characters_without_token) {
    symbols_.set(code_point, number);
    utf8_append(untokenized_[static_cast<size_t>(number) - written().size()], code_point);
  }
  std::vector<bool> no_character(written().size());
  for (const TokenId id : byte_ids_) {
    if (id != kNoToken) no_character[static_cast<size_t>(id)] = true;
  }
  if (unknown_ != kNoToken) no_character[static_cast<size_t>(unknown_)] = true;
  std::vector<bool> counted(written().size());  // tokens already counted: a token may be the result of several merges
  for (const RankedMerge& merge : model.merges) {
    for (const TokenId side : {merge.left, merge.right}) {
      unknown_joins_ |= static_cast<size_t>(side) < no_character.size() && no_character[static_cast<size_t>(side)];
    }
    if (counted[static_cast<size_t>(merge.result)]) continue;
    counted[static_cast<size_t>(merge.result)] = true;
    const std::string_view text = written().bytes(merge.result);
    for (size_t pos = 0, length = 0; pos < text.size(); pos += length) {
      length = utf8_decode(text, pos).length;
      if (pos + length == text.size()) break;
      pairs_.add(utf8_decode(text, pos).code_point, utf8_decode(text, pos + length).code_point);
    }
  }
}

CharBpe::Symbol CharBpe::symbol_at(std::string_view text, size_t position) const {
  const auto byte = static_cast<unsigned char>(text[position]);
  if (byte < 0x80) return {byte, symbols_.find(byte), 1, false};
  const DecodedChar c = utf8_decode(text, position);
  if (c.valid) return {c.code_point, symbols_.find(c.code_point), static_cast<uint8_t>(c.length), false};
  const bool cut = position + c.length == text.size() && utf8_incomplete_tail(text.substr(position)) > 0;
  return {kNoCharacter, kNoToken, static_cast<uint8_t>(c.length), cut};
}

bool CharBpe::joined(const Symbol& first, const Symbol& second) const {
  if (unknown_joins_ && (first.id == kNoToken || second.id == kNoToken)) return true;
  if (first.code_point == kNoCharacter || second.code_point == kNoCharacter) return false;
  return pairs_.contains(first.code_point, second.code_point);
}

Piece CharBpe::scan(std::string_view text, size_t begin) const {
  Symbol last = symbol_at(text, begin);
  size_t pos = begin + last.length;
  for (; pos < text.size(); pos += last.length) {
    const Symbol next = symbol_at(text, pos);
    if (!joined(last, next)) return {pos, next.cut};
    last = next;
  }
  return {text.size(), true};
}

void CharBpe::encode(std::string_view text, Tokens& out) const {
  if (text.empty()) return;
  if (ignore_merges_) {
    if (const TokenId whole = written().find(text); whole != kNoToken) {
      out.push_back(whole);
      return;
    }
  }
  for (size_t pos = 0; pos < text.size();) {
    const size_t end = scan(text, pos).end;
    encode_part(text.substr(pos, end - pos), out);
    pos = end;
  }
}

void CharBpe::encode_part(std::string_view text, Tokens& out) const {
  const TokenId whole = written().find(text);
  std::atomic<uint8_t>* reachable = whole == kNoToken ? nullptr : &reachable_[static_cast<size_t>(whole)];
  const uint8_t known = reachable == nullptr ? uint8_t{kNo} : reachable->load(std::memory_order_relaxed);
  if (known == kYes) {
    out.push_back(whole);
    return;
  }
  std::array<TokenId, kShortText> few;
  std::vector<TokenId> many(text.size() > few.size() ? text.size() : 0);
  Row row{many.empty() ? std::span<TokenId>(few) : many};
  bool pending = false;  // an unknown token waits to be appended, because the next one may be fused with it
  for (size_t pos = 0; pos < text.size();) {
    const Symbol symbol = symbol_at(text, pos);
    if (symbol.id != kNoToken) {
      if (std::exchange(pending, false)) row.push(unknown_);
      row.push(symbol.id);
    } else {
      add_unknown(text.substr(pos, symbol.length), pending, row);
    }
    pos += symbol.length;
  }
  if (pending) row.push(unknown_);
  row.n = merges_.merge(row.symbols.first(row.n));
  if (known == kUnknown) {
    const bool yes = row.n == 1 && row.symbols[0] == whole;
    reachable->store(yes ? kYes : kNo, std::memory_order_relaxed);
  }
  for (const TokenId symbol : row.symbols.first(row.n)) add_result(symbol, out);
}

// Appends the byte tokens of a character without a token, or else marks an unknown token as pending. As in
// `tokenizers`, a pending unknown token is appended before the next character with a token or at the end, so it follows
// the byte tokens of later characters.
void CharBpe::add_unknown(std::string_view bytes, bool& pending, Row& row) const {
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool has_bytes = std::all_of(bytes.begin(), bytes.end(), [&](char b) { return id_of(b) != kNoToken; });
  if (byte_fallback_ && has_bytes) {
    for (const char byte : bytes) row.push(id_of(byte));
    return;
  }
  if (unknown_ == kNoToken) return;
  if (pending && !fuse_unknown_) row.push(unknown_);
  pending = true;
}

// Appends the token of a symbol after all merges. The symbol of a character without a token becomes byte tokens or the
// unknown token.
void CharBpe::add_result(TokenId symbol, Tokens& out) const {
  if (static_cast<size_t>(symbol) < written().size()) {
    out.push_back(symbol);
    return;
  }
  std::array<TokenId, 4> bytes;
  Row ids{bytes};
  bool pending = false;
  add_unknown(untokenized_[static_cast<size_t>(symbol) - written().size()], pending, ids);
  out.insert(out.end(), bytes.begin(), bytes.begin() + ids.n);
  if (pending) out.push_back(unknown_);
}

}  // namespace ibid
