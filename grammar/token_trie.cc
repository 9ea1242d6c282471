#include "grammar/token_trie.h"

#include <algorithm>
#include <array>
#include <functional>

namespace ibid {
namespace {

using BytesOf = std::function<std::string_view(TokenId)>;

TokenTrie make_trie(std::vector<TokenId> ids, const BytesOf& bytes_of) {
  std::ranges::sort(ids, [&](TokenId a, TokenId b) {
    const std::string_view x = bytes_of(a), y = bytes_of(b);
    return x != y ? x < y : a < b;
  });
  TokenTrie trie;
  trie.nodes.push_back({0, 0, 0, 0});
  std::vector<uint32_t> path = {0};  // nodes of the previous token, by depth
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
      trie.nodes.push_back({0, static_cast<uint32_t>(trie.tokens.size()), static_cast<uint16_t>(depth),
                            static_cast<uint8_t>(bytes[depth - 1])});
    }
    trie.tokens.push_back(id);
    trie.max_length = std::max(trie.max_length, bytes.size());
    last = bytes;
  }
  close_to(0);
  const auto n = static_cast<uint32_t>(trie.nodes.size());
  trie.nodes[0].end = n;
  trie.nodes.push_back({n, static_cast<uint32_t>(trie.tokens.size()), 0, 0});
  return trie;
}

// Returns the longest token in the trie that is a prefix of `text`.
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
