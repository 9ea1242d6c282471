#include "grammar/token_trie.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <functional>

namespace ibid {
namespace {

using BytesOf = std::function<std::string_view(TokenId)>;

// Reads UTF-8 byte by byte.
class CharReader {
 public:
  // Returns the class of the next byte of a token.
  ByteClasses read(uint8_t byte) {
    if (broken_) return kBrokenClass;
    if (n_read_ == 0 && byte < 0x80) return byte_class(byte);
    if (n_read_ == 0) possible_ = ~0u;
    const std::vector<ByteSequence>& all = multi_byte_sequences();
    bool ends = false;
    for (size_t i = 0; i < all.size(); ++i) {
      if ((possible_ >> i & 1) == 0) continue;
      const bool fits = n_read_ < all[i].size() && all[i][n_read_].first <= byte && byte <= all[i][n_read_].last;
      if (!fits) possible_ &= ~(1u << i);
      ends |= fits && n_read_ + 1 == all[i].size();
    }
    broken_ = (possible_ & ((1u << all.size()) - 1)) == 0;
    n_read_ = ends ? 0 : n_read_ + 1;
    return broken_ ? kBrokenClass : kMultiByteClass;
  }
  bool is_inside() const { return broken_ || n_read_ > 0; }

 private:
  uint32_t possible_ = 0;  // bit i: the current character may be of the byte sequence multi_byte_sequences()[i]
  size_t n_read_ = 0;      // number of bytes read of the current character
  bool broken_ = false;
};

// Sets Node::below of all nodes.
void find_classes(TokenTrie& trie) {
  std::vector<uint32_t> parents(trie.n_nodes());
  std::vector<ByteClasses> own(trie.n_nodes());
  std::vector<CharReader> readers(trie.n_nodes());
  std::vector<uint32_t> path(trie.max_length + 1);  // nodes by depth
  for (uint32_t at = 1; at < trie.n_nodes(); ++at) {
    const TokenTrie::Node& node = trie.nodes[at];
    path[node.depth] = at;
    parents[at] = path[node.depth - 1];
    readers[at] = readers[parents[at]];
    own[at] = readers[at].read(node.byte);
  }
  for (size_t at = trie.n_nodes() - 1; at > 0; --at) {
    trie.nodes[parents[at]].below |= own[at] | trie.nodes[at].below;
    if (readers[at].is_inside()) trie.nodes[at].below |= kBrokenClass;
  }
}

TokenTrie make_trie(std::vector<TokenId> ids, const BytesOf& bytes_of) {
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const std::string_view x = bytes_of(a), y = bytes_of(b);
    return x != y ? x < y : a < b;
  });
  TokenTrie trie;
  trie.nodes.push_back({0, 0, 0, 0, 0});
  std::vector<uint32_t> path = {0};  // nodes along the previous token, by depth
  std::string_view last;
  const auto close_to = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) {
      trie.nodes[path.back()].end = static_cast<uint32_t>(trie.nodes.size());
    }
  };
  for (const TokenId id : ids) {
    const std::string_view bytes = bytes_of(id);
    const auto [end, ignored] = std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end());
    close_to(static_cast<size_t>(end - last.begin()));
    for (size_t depth = path.size(); depth <= bytes.size(); ++depth) {
      path.push_back(static_cast<uint32_t>(trie.nodes.size()));
      trie.nodes.push_back({0, static_cast<uint32_t>(trie.tokens.size()), 0, static_cast<uint16_t>(depth),
                            static_cast<uint8_t>(bytes[depth - 1])});
    }
    trie.tokens.push_back(id);
    trie.max_length = std::max(trie.max_length, bytes.size());
    last = bytes;
  }
  close_to(0);
  const auto n = static_cast<uint32_t>(trie.nodes.size());
  trie.nodes[0].end = n;
  trie.nodes.push_back({n, static_cast<uint32_t>(trie.tokens.size()), 0, 0, 0});
  find_classes(trie);
  return trie;
}

// Returns the longest token in the trie that is a prefix of `text`, and its length.
TokenId longest_in(const TokenTrie& trie, std::string_view text, size_t& length) {
  TokenId best = -1;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const uint32_t end = trie.nodes[node].end;
    uint32_t child = node + 1;
    while (child < end && trie.nodes[child].byte != static_cast<uint8_t>(text[i])) child = trie.nodes[child].end;
    if (child >= end) break;
    node = child;
    if (trie.nodes[node].token_begin < trie.nodes[node + 1].token_begin && i + 1 > length) {
      best = trie.tokens[trie.nodes[node].token_begin];
      length = i + 1;
    }
  }
  return best;
}

}  // namespace

ByteClasses byte_class(uint8_t byte) {
  static const std::array<uint8_t, 128> kClasses = [] {
    std::array<uint8_t, 128> out{};
    for (uint8_t c = 0; c < 128; ++c) {
      // One class for control characters, three for letters and digits; then a class for each character of
      // kPunctuation, the last of which also has all others.
      constexpr std::string_view kPunctuation = "\"\\ ,:{}[]/.-_<>'()=+@#&$`?";
      const size_t found = kPunctuation.find(static_cast<char>(c));
      if (c < ' ') continue;
      out[c] = static_cast<uint8_t>(found != kPunctuation.npos ? 4 + found : 29);
      if ('a' <= c && c <= 'z') out[c] = 1;
      if ('A' <= c && c <= 'Z') out[c] = 2;
      if ('0' <= c && c <= '9') out[c] = 3;
    }
    return out;
  }();
  return ByteClasses{1} << kClasses[byte];
}

const std::vector<ByteSequence>& multi_byte_sequences() {
  static const std::vector<ByteSequence> kSequences = utf8_sequences(CodePointSet::of(0x80, kLastCodePoint));
  return kSequences;
}

TokenTexts::TokenTexts(std::vector<Token> tokens) : tokens_(std::move(tokens)) {
  std::vector<TokenId> few, many, special, first;
  bool differs = false;
  for (size_t i = 0; i < tokens_.size(); ++i) {
    const Token& token = tokens_[i];
    const auto id = static_cast<TokenId>(i);
    n_bytes_ += sizeof(Token) + token.bytes.size();
    if (token.bytes.empty() || token.bytes.size() > kMaxLength) continue;
    if (token.special) {
      special.push_back(id);
      continue;
    }
    (token.bytes.size() <= kShortLength ? few : many).push_back(id);
    first.push_back(id);
    differs |= !token.first_bytes.empty();
  }
  const auto as_written = [&](TokenId id) { return bytes(id); };
  short_ = make_trie(std::move(few), as_written);
  long_ = make_trie(std::move(many), as_written);
  special_ = make_trie(std::move(special), as_written);
  if (differs) {
    first_ = std::make_unique<TokenTrie>(make_trie(std::move(first), [&](TokenId id) { return first_bytes(id); }));
  }
  const std::array<const TokenTrie*, 4> tries = {&short_, &long_, &special_, first_.get()};
  for (const TokenTrie* trie : tries) {
    if (trie == nullptr) continue;
    n_bytes_ += trie->nodes.size() * sizeof(TokenTrie::Node) + trie->tokens.size() * sizeof(TokenId);
  }
}

const TokenTexts::Token& TokenTexts::token(TokenId id) const {
  static const Token kNone;
  const auto i = static_cast<size_t>(id);
  return i < tokens_.size() ? tokens_[i] : kNone;
}

std::string_view TokenTexts::first_bytes(TokenId id) const {
  const Token& known = token(id);
  return known.first_bytes.empty() ? known.bytes : known.first_bytes;
}

Result<TokenId> TokenTexts::find(std::string_view reference) const {
  const Status unknown = {ErrorCode::kInvalidArgument, std::string(reference) + ": the model has no such token"};
  TokenId id = -1;
  if (reference.starts_with("<[")) {
    const std::string_view digits = reference.substr(2, reference.size() - 4);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), id);
    if (error != std::errc() || end != digits.data() + digits.size()) return unknown;
  } else {
    id = longest_special_prefix(reference);
    if (bytes(id) != reference) id = longest_prefix(reference);
    if (bytes(id) != reference) return unknown;
  }
  if (bytes(id).empty()) return unknown;
  return id;
}

TokenId TokenTexts::longest_prefix(std::string_view text) const {
  size_t length = 0;
  const TokenId in_short = longest_in(short_, text, length);
  const TokenId in_long = longest_in(long_, text, length);
  return in_long >= 0 ? in_long : in_short;
}

TokenId TokenTexts::longest_special_prefix(std::string_view text) const {
  size_t length = 0;
  return longest_in(special_, text, length);
}

}  // namespace ibid
