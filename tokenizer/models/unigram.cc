#include "tokenizer/models/unigram.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/utf8.h"

namespace ibid {

// Builds the trie node by node: places the children of a node in free units. Searches only the last few blocks for free
// units, which bounds the time per node; free units of older blocks stay unused.
class ByteTrie::Builder {
 public:
  Builder(std::vector<Unit>& units, std::span<const Entry> sorted) : units_(units), sorted_(sorted) {}

  void run() {
    add_block();
    take(0, kFree);  // the root has no parent
    std::vector<Node> open{{0, 0, sorted_.size(), 0}};
    while (!open.empty()) {
      const Node node = open.back();
      open.pop_back();
      grow(node, open);
    }
  }

 private:
  static constexpr size_t kBlock = 256, kOpenBlocks = 8;
  struct Node {
    uint32_t unit;
    size_t begin, end;  // range of the entries below the node
    size_t depth;       // number of bytes that lead to the node
  };
  struct FreeBits {
    std::array<uint64_t, 4> bits;
    bool has(uint8_t place) const { return bits[place / 64] >> (place % 64) & 1; }
  };

  // Sets the value of `node` if an entry ends there, places its children, and appends them to `open`.
  void grow(Node node, std::vector<Node>& open) {
    if (node.begin < node.end && sorted_[node.begin].text.size() == node.depth) {
      units_[node.unit].value = sorted_[node.begin++].value;
    }
    labels_.clear();
    const size_t n_open = open.size();
    for (size_t begin = node.begin, end = begin; begin < node.end; begin = end) {
      const char label = sorted_[begin].text[node.depth];
      while (end < node.end && sorted_[end].text[node.depth] == label) ++end;
      labels_.push_back(static_cast<uint8_t>(label));
      open.push_back({0, begin, end, node.depth + 1});
    }
    if (labels_.empty()) return;
    const uint32_t base = find_base();
    units_[node.unit].base = base;
    for (size_t i = 0; i < labels_.size(); ++i) {
      open[n_open + i].unit = base ^ labels_[i];
      take(base ^ labels_[i], node.unit);
    }
  }

  uint32_t find_base() {
    const size_t n_blocks = free_.size();
    for (size_t block = saturating_sub(n_blocks, kOpenBlocks); block < n_blocks; ++block) {
      for (size_t word = 0; word < 4; ++word) {
        for (uint64_t bits = free_[block].bits[word]; bits != 0; bits &= bits - 1) {
          const auto place = static_cast<uint8_t>(64 * word + static_cast<size_t>(std::countr_zero(bits)));
          const auto low = static_cast<uint8_t>(place ^ labels_[0]);
          const bool fits = std::all_of(labels_.begin(), labels_.end(), [&](uint8_t label) {
            return free_[block].has(static_cast<uint8_t>(low ^ label));
          });
          if (fits) return static_cast<uint32_t>(block * kBlock + low);
        }
      }
    }
    add_block();
    return static_cast<uint32_t>((free_.size() - 1) * kBlock);
  }

  void add_block() {
    CHECK(units_.size() + kBlock < kFree);
    units_.resize(units_.size() + kBlock);
    free_.push_back({{~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}}});
  }

  void take(uint32_t unit, uint32_t parent) {
    units_[unit].parent = parent;
    free_[unit / kBlock].bits[unit % kBlock / 64] &= ~(uint64_t{1} << (unit % 64));
  }

  std::vector<Unit>& units_;
  std::span<const Entry> sorted_;
  std::vector<FreeBits> free_;   // free units of each block
  std::vector<uint8_t> labels_;  // scratch memory: the bytes of a node's children
};

ByteTrie::ByteTrie(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.text < b.text; });
  Builder(units_, entries).run();
}

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
  std::vector<ByteTrie::Entry> pieces;
  for (size_t i = 0; i < model.is_piece.size(); ++i) {
    const auto id = static_cast<TokenId>(i);
    if (model.is_piece[i]) pieces.push_back({written().bytes(id), id});
  }
  pieces_ = ByteTrie(std::move(pieces));
}

// One pass from left to right (Viterbi). best[i] is the best split of text[0, i); it is final when the pass reaches i.
void Unigram::find_best(std::string_view text, Best* best) const {
  for (size_t begin = 0; begin < text.size();) {
    const double so_far = best[begin].score;
    const size_t length = utf8_decode(text, begin).length;
    bool has_single = false;
    const auto offer = [&](size_t bytes, TokenId token, double score) {
      Best& there = best[begin + bytes];
      if (there.length == 0 || score > there.score) there = {score, static_cast<uint32_t>(bytes), token};
    };
    pieces_.for_each_prefix(text, begin, [&](size_t bytes, TokenId token) {
      offer(bytes, token, scores_[static_cast<size_t>(token)] + so_far);
      has_single |= bytes == length;
    });
    if (!has_single) offer(length, unknown_, unknown_score_ + so_far);
    begin += length;
  }
}

void Unigram::encode(std::string_view text, Tokens& out) const {
  std::array<Best, kShortText + 1> few;
  std::vector<Best> many(text.size() > kShortText ? text.size() + 1 : 0);
  Best* const best = many.empty() ? few.data() : many.data();
  find_best(text, best);
  const size_t n_before = out.size();
  // Runs of unknown characters, the last run first; `out` has one unknown token for each run.
  std::vector<std::pair<size_t, size_t>> unknown;
  for (size_t end = text.size(); end > 0;) {
    const TokenId token = best[end].token;
    size_t begin = end - best[end].length;
    if (token == unknown_) {
      while (begin > 0 && best[begin].token == unknown_) begin -= best[begin].length;
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
