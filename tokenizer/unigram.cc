#include "tokenizer/unigram.h"

#include <algorithm>
#include <limits>

#include "base/utf8.h"

namespace ibid {

Unigram::Unigram(UnigramModel model)
    : PieceModel(std::move(model.written)),
      scores_(std::move(model.scores)),
      byte_ids_(model.byte_ids),
      byte_fallback_(model.byte_fallback),
      unknown_(model.unknown) {
  constexpr double kUnknownPenalty = 10;
  double least = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < scores_.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    const std::string_view text = written().bytes(id);
    if (text.empty()) continue;
    least = std::min(least, scores_[i]);
    if (!model.is_piece[i]) continue;
    if (id == unknown_) ends_of_unknown_[0] = utf8_decode(text, 0).code_point;
    for (size_t pos = 0, length = 0; pos < text.size(); pos += length) {
      const DecodedChar c = utf8_decode(text, pos);
      length = c.length;
      if (length == text.size()) single_.set(c.code_point, id);
      if (id == unknown_) ends_of_unknown_[1] = c.code_point;
      if (pos + length < text.size()) pairs_.add(c.code_point, utf8_decode(text, pos + length).code_point);
    }
  }
  unknown_score_ = least - kUnknownPenalty;
  build_trie(model.is_piece);
}

// Breadth first over ranges of the sorted texts, so that the edges of a node lie side by side.
void Unigram::build_trie(const std::vector<bool>& is_piece) {
  std::vector<TokenId> order;
  for (size_t i = 0; i < is_piece.size(); ++i) {
    if (is_piece[i]) order.push_back(static_cast<TokenId>(i));
  }
  const auto text = [this](TokenId id) { return written().bytes(id); };
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) { return text(a) < text(b); });
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, order.size(), 0}};
  nodes_.emplace_back();
  for (size_t at = 0; at < nodes_.size(); ++at) {
    Range range = ranges[at];
    if (range.begin < range.end && text(order[range.begin]).size() == range.depth) {
      nodes_[at].token = order[range.begin++];
    }
    nodes_[at].first_edge = static_cast<uint32_t>(edges_.size());
    while (range.begin < range.end) {
      const char byte = text(order[range.begin])[range.depth];
      size_t end = range.begin;
      while (end < range.end && text(order[end])[range.depth] == byte) ++end;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      ranges.push_back({range.begin, end, range.depth + 1});
      nodes_.emplace_back();
      range.begin = end;
    }
    nodes_[at].n_edges = static_cast<uint32_t>(edges_.size()) - nodes_[at].first_edge;
  }
}

const Unigram::Node* Unigram::child(const Node& node, uint8_t byte) const {
  const Edge* begin = edges_.data() + node.first_edge;
  const Edge* end = begin + node.n_edges;
  const Edge* edge = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? &nodes_[edge->node] : nullptr;
}

void Unigram::encode(std::string_view text, Tokens& out) const {
  std::vector<Best> best(text.size() + 1);
  const auto offer = [&best](size_t end, const Best& candidate) {
    if (best[end].begin == kNone || candidate.score > best[end].score) best[end] = candidate;
  };
  for (size_t begin = 0; begin < text.size();) {
    const double so_far = best[begin].score;
    const size_t length = utf8_decode(text, begin).length;
    bool has_single = false;
    const Node* node = &nodes_[0];
    for (size_t end = begin; end < text.size();) {
      node = child(*node, static_cast<uint8_t>(text[end++]));
      if (node == nullptr) break;
      if (node->token == kNoToken) continue;
      offer(end, {scores_[static_cast<size_t>(node->token)] + so_far, begin, node->token});
      has_single |= end - begin == length;
    }
    if (!has_single) offer(begin + length, {unknown_score_ + so_far, begin, unknown_});
    begin += length;
  }
  const size_t n_before = out.size();
  std::vector<std::pair<size_t, size_t>> unknown;  // in place of ids, from the end of the text
  for (size_t end = text.size(); end > 0;) {
    size_t begin = best[end].begin;
    const TokenId token = best[end].token;
    if (token == unknown_) {
      while (begin > 0 && best[begin].token == unknown_) begin = best[begin].begin;
      unknown.emplace_back(begin, end);
    }
    out.push_back(token);
    end = begin;
  }
  std::reverse(out.begin() + static_cast<ptrdiff_t>(n_before), out.end());
  if (unknown.empty()) return;
  const Tokens ids(out.begin() + static_cast<ptrdiff_t>(n_before), out.end());
  out.resize(n_before);
  for (const TokenId id : ids) {
    if (id != unknown_) {
      out.push_back(id);
      continue;
    }
    const auto [begin, end] = unknown.back();
    unknown.pop_back();
    add_unknown(text.substr(begin, end - begin), out);
  }
}

void Unigram::add_unknown(std::string_view text, Tokens& out) const {
  if (const TokenId id = written().find(text); id != kNoToken) {
    out.push_back(id);
    return;
  }
  const auto id_of = [this](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  const bool has_bytes = std::all_of(text.begin(), text.end(), [&](char b) { return id_of(b) != kNoToken; });
  if (!byte_fallback_ || !has_bytes) {
    out.push_back(unknown_);
    return;
  }
  for (const char byte : text) out.push_back(id_of(byte));
}

bool Unigram::is_known(const DecodedChar& c) const {
  const bool ends_unknown = c.code_point == ends_of_unknown_[0] || c.code_point == ends_of_unknown_[1];
  return c.valid && !ends_unknown && single_.find(c.code_point) != kNoToken;
}

Piece Unigram::scan(std::string_view text, size_t begin) const {
  DecodedChar last = utf8_decode(text, begin);
  for (size_t pos = begin + last.length; pos < text.size(); pos += last.length) {
    const DecodedChar next = utf8_decode(text, pos);
    const bool together = last.valid && next.valid && pairs_.contains(last.code_point, next.code_point);
    if (!together && (is_known(last) || is_known(next))) {
      const bool cut = pos + next.length == text.size() && utf8_incomplete_tail(text.substr(pos)) > 0;
      return {pos, cut};
    }
    last = next;
  }
  return {text.size(), true};
}

}  // namespace ibid
