// Added tokens: tokens whose texts are found before a text is split into pre-tokens and merged.
//
// Semantics of Hugging Face `tokenizers` (AddedVocabulary): leftmost-longest, no overlaps; lstrip and rstrip take white
// space beside the match; single_word requires that no word character touches the match. In message text, which may not
// become a special token, a match of a special token stays text, but still hides matches that overlap it.
//
// There are two stages with one set each: the first finds tokens in the raw text, the second in the normalised text
// between them. Immutable and thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ibid/token.h"
#include "tokenizer/models/vocabulary.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

struct AddedToken {
  std::string text;
  TokenId id = kNoToken;
  bool special = false;
  bool lstrip = false, rstrip = false;
  bool single_word = false;
  bool normalized = false;  // true: found in the normalised text; false: in the raw text
};

// The end of one part of a text, and whether the part is from the template or from a message. The first part starts at
// 0, each other part at the end of the previous part.
struct OriginEnd {
  size_t end;
  TextOrigin origin;
};

class AddedTokenSet {
 public:
  // Loaders reject longer texts, because the search may cost this many steps per byte of hostile text.
  static constexpr size_t kMaxTextBytes = 1024;

  // REQUIRES: no text is empty, and no two are equal.
  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool has_single_word() const { return has_single_word_; }

  // A match, or (kNoToken) the text between two matches. Sections are in text order with one exception, as in
  // `tokenizers`: if a token with rstrip takes white space in which another token is found, the section of the other
  // token lies inside the section of the first.
  struct Section {
    size_t begin, end;
    TokenId token = kNoToken;
  };
  struct Split {
    std::vector<Section> sections;
    std::vector<Section> hidden;  // matches that stay text; encoding must not resume inside such a match
    size_t certain_end;           // growing: an append can change matches only from this position on
  };

  // Splits `text`. after_word: the character before `text` is a word character. growing: text may be appended later, so
  // returns only the sections up to certain_end, which no append can change.
  Split split(std::string_view text, std::span<const OriginEnd> origins, bool after_word, bool growing) const;

 private:
  struct Node {
    uint32_t first_edge = 0;
    uint32_t n_edges = 0;
    int32_t token = -1;  // index into tokens_
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  struct Found {
    size_t begin, end;
    int32_t token;  // -1: no match
    bool open;      // the text ends inside a possible longer match
  };
  struct Search;

  void build_trie();
  const Node* child(const Node& node, uint8_t byte) const;
  Found find(std::string_view text, size_t from, bool stop_if_open) const;
  size_t next_candidate(std::string_view text, size_t from) const;
  bool take(Search& search, const Found& found, TextOrigin origin) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<bool, 256> starts_{};  // indexed by a byte: true if some token starts with it
  int only_start_ = -1;             // the byte with which all tokens start; -1: they start with different bytes
  bool has_lstrip_ = false;
  bool has_single_word_ = false;
};

// True if `text` ends with a word character (\w$).
bool ends_with_word(std::string_view text);

}  // namespace ibid
