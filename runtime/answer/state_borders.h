// Where a prompt's recurrent states are kept, so that later prompts can go on from there. Pure functions of
// numbers.
#pragma once

#include <cstddef>
#include <vector>

namespace ibid {

// A template may write the end of a prompt, where the answer begins, in another way when the answer has become part of
// the history. It lies within so many ids: what they give to the states is kept (cache/pages/sequence_state.h).
inline constexpr size_t kPromptEnd = 16;

// The positions behind n_read at which a pass over a prompt of n_prompt ids ends, ascending: in front of what the user
// says (n_opening; 0: not known), where other conversations with the same beginning part; every `spacing` ids; and in
// front of the prompt's end, unless one short pass reads all of it.
std::vector<size_t> state_borders(size_t n_read, size_t n_prompt, size_t n_opening, size_t spacing);

// The first border within positions (begin, end); end: there is none.
size_t next_border(const std::vector<size_t>& borders, size_t begin, size_t end);

// Every how many ids a state is kept, so that the states of a whole context take at most a quarter of the budget. At
// least 512, and a multiple of a page. REQUIRES: state_bytes > 0.
size_t state_spacing(size_t state_bytes, size_t max_seq_len, size_t budget_bytes);

}  // namespace ibid
