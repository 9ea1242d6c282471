// TokenHistory: the ids that a sampler's penalties look back on, counted as they come.
//
// It holds the ids of the prompt and of the answer. It counts how often each id stands in the last `window` of them
// and in the answer, and knows where the end stood before (RepeatIndex). An append costs amortised O(1), and so
// does each id that truncate() drops. A conversation that only grows therefore costs its new ids, and one that is
// rewound costs what it drops.
//
// It knows nothing of logits or options of a sampler. A value: a copy continues on its own. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/checked.h"
#include "ibid/token.h"

namespace ibid {

// --- RepeatIndex: finds the earlier places in a sequence where its end stood before. It says which ids followed
// there, and how many ids of the end stood there. A penalty on repetition (DRY, sampler.h) asks this for every token.
// It is a suffix automaton (Blumer et al. 1985) that grows by one id at a time. A state is a set of strings of ids
// that end in the same places, its edges are the ids that followed them, and suffix links lead from the sequence's
// end to all shorter ends that stood elsewhere as well. So an answer is read off the few states behind the end,
// however many places there are. Each state knows the last place where it ended, so a window costs one comparison.
// append() is amortised O(1), and truncate() undoes appends one by one, in as many steps as they took: a conversation
// that is rewound costs what it drops. find() visits at most kMaxMatch states and their edges.
// It knows nothing of penalties. A value: some hundred bytes per id. Not thread-safe.

class RepeatIndex {
 public:
  static constexpr size_t kMaxMatch = 50;  // longer matches count as this long

  // `id` stood behind the last `length` ids of the sequence.
  struct Repeat {
    TokenId id = 0;
    size_t length = 0;
  };

  size_t size() const { return records_.size(); }
  void append(TokenId id);
  void truncate(size_t n);  // keeps the first n ids; REQUIRES: n <= size()

  // For every id that stood behind the end's last ids: the longest match, at least `min_length` and at most
  // `max_length` ids long, that lies with its id in the last `window` ids. In order of id.
  // REQUIRES: min_length >= 1.
  void find(size_t min_length, size_t max_length, size_t window, std::vector<Repeat>& out) const;

  // States and edges looked at so far: what tests hold to account.
  size_t n_steps() const { return n_steps_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct State {
    uint32_t length = 0;        // of its longest string; the shortest is one longer than its link's longest
    uint32_t link = kNone;      // the state of the longest suffix that ends elsewhere as well
    uint32_t last_end = 0;      // the last position its strings end at, as far as kMaxMatch asks for it
    uint32_t first_edge = kNone;
  };
  struct Edge {
    uint32_t from = 0;
    TokenId id = 0;
    uint32_t to = 0;
    uint32_t next = kNone;  // of the same state
  };
  // The changes of one append, so that it can be undone.
  struct Record {
    uint32_t state;         // of the whole sequence up to here
    uint32_t end_state;     // end_state_ and end_length_ before
    uint32_t end_length;
    uint32_t n_edges;       // before
    uint32_t n_end_changes; // before
    uint32_t split_from;    // the first state whose edge was turned to the copy; kNone: nothing was split
    uint32_t copy;
    uint32_t original;      // that was split
  };
  struct EndChange {
    uint32_t state;
    uint32_t last_end;  // before
  };

  static uint64_t edge_key(uint32_t state, TokenId id) {
    return uint64_t{state} << 32 | static_cast<uint32_t>(id);
  }
  uint32_t find_edge(uint32_t state, TokenId id) const;
  void add_edge(uint32_t from, TokenId id, uint32_t to);
  // The link of `state`, new at the end: where a shorter end stood before. Begins at `p`, the first state that has
  // an edge for `id`.
  uint32_t link_target(uint32_t p, TokenId id, Record& record);
  // Moves the end's state on, and tells the states behind it that they end here.
  void advance_end(TokenId id);
  void undo_last();

  std::vector<State> states_;  // [0]: the empty string; none before the first append, so that an index without ids
                               // needs no memory
  std::vector<Edge> edges_;
  std::unordered_map<uint64_t, uint32_t> edge_of_;
  std::vector<Record> records_;         // one per id
  std::vector<EndChange> end_changes_;
  Tokens ids_;
  uint32_t end_state_ = 0;   // of the last end_length_ ids
  uint32_t end_length_ = 0;  // kMaxMatch + 1, or all there are
  mutable size_t n_steps_ = 0;
};

// --- TokenHistory.

class TokenHistory {
 public:
  static constexpr size_t kEverything = SIZE_MAX;  // a window without an end
  using Counts = std::unordered_map<TokenId, uint32_t>;  // no zeros

  // Says what is to be kept from here on. Costs nothing when that is what was kept before; else it costs the ids of
  // the window or, for the repeats, all ids. window 0: no counts.
  void keep(size_t window, bool repeats);

  size_t size() const { return ids_.size(); }
  TokenSpan ids() const { return ids_; }
  void append(TokenSpan ids);  // of the prompt
  void begin_answer();         // what is pushed from here on is the answer
  void push(TokenId id);       // of the answer
  void truncate(size_t n);     // keeps the first n ids; REQUIRES: n <= size()

  const Counts& recent() const { return recent_; }  // of the last `window` ids
  const Counts& answer() const { return answer_; }  // since begin_answer()
  // REQUIRES: repeats are kept.
  const RepeatIndex& repeats() const { return repeats_; }

  // Ids counted, and the steps of the index: what tests hold to account.
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
