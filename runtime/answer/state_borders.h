// Where a prompt's recurrent states are kept, so that later prompts can go on from there.
#pragma once

#include <cstddef>
#include <vector>

#include "cache/pages/kv_cache_entry.h"
#include "runtime/prompt/prompt_cuts.h"

namespace ibid {

// A template may write the end of a prompt, where the answer begins, in another way when the answer has become part of
// the history. It lies within so many ids: what they give to the states is kept (cache/pages/sequence_state.h).
inline constexpr size_t kPromptEnd = 16;
// At answers, states stand at least so far apart: shorter passes would read a prompt slowly.
inline constexpr size_t kLeastApart = 128;

// What states of a prompt may take.
struct StateShare {
  size_t spacing = 0;  // every so many ids a state is kept; 0: there are none
  size_t n_most = 0;   // states of a prompt, about
};

// The states of a whole context take at most a quarter of the budget. spacing is at least 512, and a multiple of a
// page. REQUIRES: state_bytes > 0.
StateShare state_share(size_t state_bytes, size_t max_seq_len, size_t budget_bytes);

// The borders of a prompt, where its passes end, and what is kept there. A value.
class StateBorders {
 public:
  // None, and nothing is kept.
  StateBorders() = default;
  // Of a prompt of n_prompt ids, of which n_read are read already: in front of what the user says, where other
  // conversations with the same beginning part; every `spacing` ids; in front of answers and behind them, the last ones
  // first, as far as the share goes; and in front of the prompt's end, unless one short pass reads all of it.
  StateBorders(size_t n_read, size_t n_prompt, const PromptCuts& cuts, const StateShare& share);

  // Ascending.
  const std::vector<size_t>& positions() const { return positions_; }
  // The first border within positions (begin, end); end: there is none.
  size_t next(size_t begin, size_t end) const;
  // The last border up to n; 0: there is none.
  size_t last(size_t n) const;

  // After a pass: keeps the state at a border, and at the prompt's end what the last pass gave, because later prompts
  // may go on from anywhere in it. May throw std::bad_alloc.
  void keep(KvCacheEntry& entry, bool is_end) const;

 private:
  bool keeps_ = false;
  std::vector<size_t> positions_;
};

}  // namespace ibid
