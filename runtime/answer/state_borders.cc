#include "runtime/answer/state_borders.h"

#include <algorithm>

#include "cache/pages/sequence_state.h"
#include "kernels/kernels.h"

namespace ibid {

std::vector<size_t> state_borders(size_t n_read, size_t n_prompt, size_t n_opening, size_t spacing) {
  std::vector<size_t> borders;
  if (n_opening > n_read) borders.push_back(n_opening);
  for (size_t at = n_read / spacing * spacing + spacing; at < n_prompt; at += spacing) borders.push_back(at);
  if (n_prompt - std::min(n_prompt, n_read) > kMostKeptRows) borders.push_back(n_prompt - kPromptEnd);
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  std::erase_if(borders, [n_prompt](size_t border) { return border >= n_prompt; });
  return borders;
}

size_t next_border(const std::vector<size_t>& borders, size_t begin, size_t end) {
  const auto next = std::upper_bound(borders.begin(), borders.end(), begin);
  return next == borders.end() ? end : std::min(*next, end);
}

size_t state_spacing(size_t state_bytes, size_t max_seq_len, size_t budget_bytes) {
  constexpr size_t kLeast = 512;
  const size_t n_states = std::max<size_t>(budget_bytes / 4 / state_bytes, 1);
  const size_t spacing = (max_seq_len + n_states - 1) / n_states;
  return std::max(kLeast, (spacing + kPagePositions - 1) / kPagePositions * kPagePositions);
}

}  // namespace ibid
