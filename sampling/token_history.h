// TokenHistory: the tokens that a sampler's penalties apply to, counted as they are appended.
//
// Holds the tokens of prompt and answer, counts each token in the last `window` of them and in the answer, and finds
// earlier occurrences of the end (RepeatIndex). Appending a token costs amortised O(1), and so does dropping one by
// truncate(). So extending a conversation costs its new tokens, and rewinding it costs the dropped tokens.
//
// Does not depend on logits or sampler options. A value: a copy is independent. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/checked.h"
#include "ibid/token.h"

namespace ibid {

// --- RepeatIndex: finds earlier occurrences of the end of a sequence: which tokens followed them, and how many tokens
// of the end matched. A penalty on repetition (DRY, sampler.h) needs this for every token. It is a suffix automaton
// (Blumer et al. 1985), extended by one token at a time. A state is a set of token strings that end at the same
// positions, its edges are the tokens that followed these strings, and suffix links lead from the end of the sequence
// to all shorter suffixes that also occur elsewhere. So the result is read from the few states on the links of the end,
// for any number of occurrences. Each state has its last end position, so a window costs one comparison. append() is
// amortised O(1), and truncate() undoes appends one by one, in as many steps as they took. find() visits at most
// kMaxMatch states and their edges. Does not depend on penalties. A value: some hundred bytes per token. Not
// thread-safe.

class RepeatIndex {
 public:
  static constexpr size_t kMaxMatch = 50;  // longer matches count as matches of this length

  // Token `id` followed an earlier occurrence of the last `length` tokens of the sequence.
  struct Repeat {
    TokenId id = 0;
    size_t length = 0;
  };

  size_t size() const { return records_.size(); }
  void append(TokenId id);
  void truncate(size_t n);  // keeps the first n tokens; REQUIRES: n <= size()

  // Replaces `out` by all tokens that followed an earlier occurrence of a suffix of the sequence, each with the length
  // of its longest match, `min_length` to `max_length` tokens. Only the last `window` tokens are searched. Sorted by
  // token. REQUIRES: min_length >= 1.
  void find(size_t min_length, size_t max_length, size_t window, std::vector<Repeat>& out) const;

  // Number of states and edges visited so far, for tests of the cost.
  size_t n_steps() const { return n_steps_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct State {
    // Length of the longest string of the state; its shortest string is one token longer than the longest string of
    // `link`.
    uint32_t length = 0;
    uint32_t link = kNone;  // state of the longest suffix of these strings that belongs to another state
    uint32_t last_end = 0;  // last position at which one of the state's strings of up to kMaxMatch + 1 tokens ends
    uint32_t first_edge = kNone;
  };
  struct Edge {
    uint32_t from = 0;
    TokenId id = 0;
    uint32_t to = 0;
    uint32_t next = kNone;  // next edge that begins at the same state
  };
  // Record of one append, from which undo_last() undoes it.
  struct Record {
    uint32_t state;      // state of the whole sequence after this append
    uint32_t end_state;  // end_state_ and end_length_ before the append
    uint32_t end_length;
    uint32_t n_edges;        // size of edges_ before the append
    uint32_t n_end_changes;  // size of end_changes_ before the append
    uint32_t split_from;     // first state whose edge was redirected to the copy; kNone: no state was split
    uint32_t copy;
    uint32_t original;  // the state that was split
  };
  struct EndChange {
    uint32_t state;
    uint32_t last_end;  // value of last_end before the append
  };

  static uint64_t edge_key(uint32_t state, TokenId id) { return uint64_t{state} << 32 | static_cast<uint32_t>(id); }
  uint32_t find_edge(uint32_t state, TokenId id) const;
  void add_edge(uint32_t from, TokenId id, uint32_t to);
  // Returns the state to which the new state links: that of its longest suffix that occurred before. p: the first
  // state, along the links from the end, that has an edge for `id`.
  uint32_t link_target(uint32_t p, TokenId id, Record& record);
  // Advances the end state by `id`, and sets last_end of the states on its suffix links.
  void advance_end(TokenId id);
  void undo_last();

  std::vector<State> states_;  // states_[0] is the state of the empty string; an empty index has no states
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, uint32_t> edge_of_;
  std::vector<Record> records_;  // one record for each token
  std::vector<EndChange> end_changes_;
  Tokens ids_;
  uint32_t end_state_ = 0;   // state of the string of the last end_length_ tokens
  uint32_t end_length_ = 0;  // number of tokens followed by end_state_: all tokens, but at most kMaxMatch + 1
  mutable size_t n_steps_ = 0;
};

// --- TokenHistory.

class TokenHistory {
 public:
  static constexpr size_t kEverything = SIZE_MAX;        // value of `window` for the whole history
  using Counts = std::unordered_map<TokenId, uint32_t>;  // tokens that do not occur have no entry

  // Sets what to keep from now on: counts of the last `window` tokens (0: none) and, if `repeats`, the RepeatIndex.
  // O(1) if nothing changes; otherwise the cost is that of the tokens in the window or, for the RepeatIndex, of all
  // tokens.
  void keep(size_t window, bool repeats);

  size_t size() const { return ids_.size(); }
  TokenSpan ids() const { return ids_; }
  void append(TokenSpan ids);  // appends prompt tokens
  void begin_answer();         // tokens pushed from now on are the answer
  void push(TokenId id);       // appends a sampled token
  void truncate(size_t n);     // keeps the first n tokens; REQUIRES: n <= size()

  const Counts& recent() const { return recent_; }  // counts of the tokens in the last `window` tokens
  const Counts& answer() const { return answer_; }  // counts of the tokens since begin_answer()
  // REQUIRES: keep() was called with repeats.
  const RepeatIndex& repeats() const { return repeats_; }

  // Number of tokens counted and steps of the index, for tests of the cost.
  size_t n_steps() const { return n_steps_ + repeats_.n_steps(); }

 private:
  size_t window_begin() const { return saturating_sub(ids_.size(), window_); }
  void add(Counts& counts, TokenId id);
  void remove(Counts& counts, TokenId id);

  Tokens ids_;
  size_t window_ = 0;
  bool keeps_repeats_ = false;
  size_t answer_begin_ = 0;
  Counts recent_;
  Counts answer_;
  RepeatIndex repeats_;
  size_t n_steps_ = 0;
};

}  // namespace ibid
