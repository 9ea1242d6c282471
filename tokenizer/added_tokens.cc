#include "tokenizer/added_tokens.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/unicode/unicode.h"
#include "base/utf8.h"

namespace ibid {
namespace {

bool starts_with_word(std::string_view text) {
  if (text.empty()) return false;
  const DecodedChar c = utf8_decode(text, 0);
  return c.valid && is_word(c.code_point);
}

// True if an append can change the character at text[pos], because the text ends there or cuts that character.
bool is_open_at(std::string_view text, size_t pos) { return pos + utf8_incomplete_tail(text) >= text.size(); }

}  // namespace

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const DecodedChar c = utf8_decode(text, utf8_previous(text, text.size()));
  return c.valid && is_word(c.code_point);
}

AddedTokenSet::AddedTokenSet(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::sort(tokens_.begin(), tokens_.end(), [](const auto& a, const auto& b) { return a.text < b.text; });
  build_trie();
  size_t n_starts = 0;
  for (const AddedToken& token : tokens_) {
    has_lstrip_ |= token.lstrip;
    has_single_word_ |= token.single_word;
    bool& starts = starts_[static_cast<unsigned char>(token.text[0])];
    n_starts += starts ? 0 : 1;
    starts = true;
    only_start_ = static_cast<unsigned char>(token.text[0]);
  }
  if (n_starts != 1) only_start_ = -1;
}

// Builds the trie breadth first, from ranges of the sorted texts, so that the edges of a node are contiguous.
void AddedTokenSet::build_trie() {
  struct Range {
    size_t begin, end, depth;
  };
  std::vector<Range> ranges{{0, tokens_.size(), 0}};
  nodes_.emplace_back();
  for (size_t at = 0; at < nodes_.size(); ++at) {
    Range range = ranges[at];
    if (range.begin < range.end && tokens_[range.begin].text.size() == range.depth) {
      nodes_[at].token = static_cast<int32_t>(range.begin++);
    }
    nodes_[at].first_edge = static_cast<uint32_t>(edges_.size());
    while (range.begin < range.end) {
      const char byte = tokens_[range.begin].text[range.depth];
      size_t end = range.begin;
      while (end < range.end && tokens_[end].text[range.depth] == byte) ++end;
      edges_.push_back({static_cast<uint8_t>(byte), static_cast<uint32_t>(nodes_.size())});
      ranges.push_back({range.begin, end, range.depth + 1});
      nodes_.emplace_back();
      range.begin = end;
    }
    nodes_[at].n_edges = static_cast<uint32_t>(edges_.size()) - nodes_[at].first_edge;
  }
}

const AddedTokenSet::Node* AddedTokenSet::child(const Node& node, uint8_t byte) const {
  const Edge* begin = edges_.data() + node.first_edge;
  const Edge* end = begin + node.n_edges;
  const Edge* edge = std::lower_bound(begin, end, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge != end && edge->byte == byte ? &nodes_[edge->node] : nullptr;
}

size_t AddedTokenSet::next_candidate(std::string_view text, size_t from) const {
  if (from >= text.size()) return text.size();
  if (only_start_ >= 0) {
    const void* at = std::memchr(text.data() + from, only_start_, text.size() - from);
    return at == nullptr ? text.size() : static_cast<size_t>(static_cast<const char*>(at) - text.data());
  }
  while (from < text.size() && !starts_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

// Returns the leftmost match from `from` on; of several matches there, the longest. `open` is set if the text ends
// inside a possible longer token. stop_if_open: returns the position of such a possible token even if no token matches
// there.
AddedTokenSet::Found AddedTokenSet::find(std::string_view text, size_t from, bool stop_if_open) const {
  for (size_t begin = next_candidate(text, from); begin < text.size(); begin = next_candidate(text, begin + 1)) {
    Found found{begin, begin, -1, false};
    const Node* node = &nodes_[0];
    size_t pos = begin;
    while (node != nullptr) {
      if (node->token >= 0) found = {begin, pos, node->token, false};
      if (pos == text.size()) {
        found.open = node->n_edges > 0;
        break;
      }
      node = child(*node, static_cast<uint8_t>(text[pos++]));
    }
    if (found.token >= 0 || (found.open && stop_if_open)) return found;
  }
  return {text.size(), text.size(), -1, false};
}

struct AddedTokenSet::Search {
  std::string_view text;
  bool after_word, growing;
  size_t covered = 0;     // end of the last section, including white space that its token took
  size_t spaces_end = 0;  // end of the white space that the last token with rstrip took
  Split out{{}, {}, 0};
};

// Adds a section for a match. A match of a special token in input text is hidden instead, as is a match of a
// single_word token beside a word character. Returns false if the decision depends on text that is appended later.
bool AddedTokenSet::take(Search& search, const Found& found, TextOrigin origin) const {
  const AddedToken& token = tokens_[static_cast<size_t>(found.token)];
  if (token.special && origin == TextOrigin::kInput) {
    search.out.hidden.push_back({found.begin, found.end});
    return true;
  }
  const std::string_view text = search.text;
  if (token.single_word) {
    if (search.growing && is_open_at(text, found.end)) return false;
    const bool word_before = found.begin == 0 ? search.after_word : ends_with_word(text.substr(0, found.begin));
    if (word_before || starts_with_word(text.substr(found.end))) {
      search.out.hidden.push_back({found.begin, found.end});
      return true;
    }
  }
  size_t begin = found.begin, end = found.end;
  if (token.lstrip) begin = std::max(spaces_begin(text, begin, search.covered), search.covered);
  if (token.rstrip) {
    // The end of the white space may be known from an earlier token: measuring the white space again for each of many
    // tokens that are white space would take quadratic time.
    end = end <= search.spaces_end ? search.spaces_end : spaces_end(text, end);
    search.spaces_end = end;
    if (search.growing && is_open_at(text, end)) return false;
  }
  if (begin >= end) return true;  // the previous token took this white space: no section
  if (search.covered < begin) search.out.sections.push_back({search.covered, begin});
  search.out.sections.push_back({begin, end, token.id});
  search.covered = end;
  return true;
}

AddedTokenSet::Split AddedTokenSet::split(std::string_view text, std::span<const OriginEnd> origins, bool after_word,
                                          bool growing) const {
  Search search{text, after_word, growing};
  search.out.certain_end = text.size();
  size_t pos = 0;
  bool decided = true;
  for (const OriginEnd& run : origins) {
    if (tokens_.empty()) break;
    const std::string_view upto = text.substr(0, run.end);
    const bool may_grow = growing && run.end == text.size();
    while (decided) {
      const Found found = find(upto, pos, may_grow);
      if (found.token < 0 && !found.open) break;
      decided = !(found.open && may_grow) && take(search, found, run.origin);
      if (!decided) search.out.certain_end = found.begin;
      pos = found.end;
    }
    pos = run.end;
  }
  size_t& certain = search.out.certain_end;
  if (growing && has_lstrip_) {
    // White space at the end may belong to a token with lstrip that is appended later.
    if (certain == text.size()) certain -= utf8_incomplete_tail(text);
    certain = spaces_begin(text, certain, std::min(certain, search.covered));
  }
  if (search.covered < certain) search.out.sections.push_back({search.covered, certain});
  return std::move(search.out);
}

}  // namespace ibid
