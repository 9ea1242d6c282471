// Added tokens: texts that are found whole, before any pre-token or merge.
//
// Semantics of Hugging Face `tokenizers` (AddedVocabulary): leftmost-longest, matches do not overlap; lstrip
// and rstrip swallow white space beside the match; single_word asks that no word character touches it. A
// special token that message text may not become is still matched there, and hides what overlaps it.
//
// There is one set for each of two stages: tokens that are looked for in the raw text, and tokens that are looked
// for in the normalised text between these. Immutable and thread-safe.
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
  bool normalized = false;  // looked for in the normalised text
};

// Up to where a text has one origin; the first run starts at 0, the next where the last one ended.
struct OriginEnd {
  size_t end;
  TextOrigin origin;
};

class AddedTokenSet {
 public:
  // Longer texts are refused by the loader: the search costs up to this much per byte of hostile text.
  static constexpr size_t kMaxTextBytes = 1024;

  // REQUIRES: texts are not empty and differ.
  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool has_single_word() const { return has_single_word_; }

  // A match, or (kNoToken) the text between two. In file order but for one case that the reference has as
  // well: a token found inside the white space that rstrip swallowed lies inside the section before it.
  struct Section {
    size_t begin, end;
    TokenId token = kNoToken;
  };
  struct Split {
    std::vector<Section> sections;
    std::vector<Section> hidden;  // matches that do not count: no search may resume inside one
    size_t certain_end;           // growing: nothing before it can become part of another match
  };

  // Cuts `text`. after_word: the character before it is a word character. With growing, only what no append
  // can change: the sections before the first doubt, and the text up to certain_end as the last one.
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
    int32_t token;  // -1: none
    bool open;      // the search ran into the end of the text where more might have matched
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
  std::array<bool, 256> starts_{};  // bytes that some token starts with
  int only_start_ = -1;             // when it is one
  bool has_lstrip_ = false;
  bool has_single_word_ = false;
};

// Whether `text` ends with a word character (\w$).
bool ends_with_word(std::string_view text);

}  // namespace ibid
