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
#include "sampling/repeat_index.h"

namespace ibid {

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
