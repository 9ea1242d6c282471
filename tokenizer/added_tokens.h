// Added tokens: texts that are found whole, before any pre-token or merge.
//
// Semantics of Hugging Face `tokenizers` (AddedVocabulary): leftmost-longest, no overlaps; lstrip and rstrip take white
// space beside the match; single_word requires that no word character touches it. A special token that message text may
// not become is still matched there, and hides matches that overlap it.
//
// Two stages have a set each: tokens found in the raw text, and tokens found in the normalised text between these.
// Immutable and thread-safe.
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
  bool normalized = false;  // found in the normalised text
};

// End of a run of one origin. The first run starts at 0, each other where the previous one ended.
struct OriginEnd {
  size_t end;
  TextOrigin origin;
};

class AddedTokenSet {
 public:
  // Loaders reject longer texts: the search costs up to this much per byte of hostile text.
  static constexpr size_t kMaxTextBytes = 1024;

  // REQUIRES: texts are not empty and all different.
  explicit AddedTokenSet(std::vector<AddedToken> tokens);

  bool empty() const { return tokens_.empty(); }
  bool has_single_word() const { return has_single_word_; }

  // A match, or (kNoToken) the text between two. In text order with one exception, as in the reference: a token found
  // inside the white space that rstrip took lies inside the previous section.
  struct Section {
    size_t begin, end;
    TokenId token = kNoToken;
  };
  struct Split {
    std::vector<Section> sections;
    std::vector<Section> hidden;  // rejected matches: encoding must not resume inside one
    size_t certain_end;           // growing: no append makes text before it part of another match
  };

  // Splits `text`. after_word: the character before it is a word character. growing: returns only the sections that no
  // append can change, and the text up to certain_end as the last one.
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
    bool open;      // the text ended inside a possible longer match
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
  int only_start_ = -1;             // that byte, if there is only one; else -1
  bool has_lstrip_ = false;
  bool has_single_word_ = false;
};

// True if `text` ends with a word character (\w$).
bool ends_with_word(std::string_view text);

}  // namespace ibid
