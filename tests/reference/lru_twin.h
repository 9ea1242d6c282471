// Reference implementation of a prefix store: a list of sequences, searched linearly. Unless it evicts, LruKvCacheStore
// must find exactly the same prefixes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "ibid/token.h"

namespace ibid {

class LruReference {
 public:
  void insert(const std::string& name_space, TokenSpan tokens, bool is_shared) {
    sequences_.push_back({name_space, is_shared, Tokens(tokens.begin(), tokens.end())});
  }

  size_t longest_prefix(const std::string& name_space, TokenSpan ids) const {
    size_t longest = 0;
    for (const Sequence& sequence : sequences_) {
      if (!sequence.is_shared && sequence.name_space != name_space) continue;
      size_t n = 0;
      while (n < ids.size() && n < sequence.tokens.size() && ids[n] == sequence.tokens[n]) ++n;
      longest = std::max(longest, n);
    }
    return longest;
  }

  void clear(const std::string& name_space) {
    std::erase_if(sequences_, [&](const Sequence& s) { return !s.is_shared && s.name_space == name_space; });
  }

 private:
  struct Sequence {
    std::string name_space;
    bool is_shared;
    Tokens tokens;
  };
  std::vector<Sequence> sequences_;
};

}  // namespace ibid
