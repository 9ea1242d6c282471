#include <algorithm>

#include "kernels/ops/attention.h"

namespace ibid {
namespace {

constexpr size_t kBlockPages = kAttentionBlock / kPagePositions;

// The blocks before a sequence's new rows: they are full, and all of its rows see all of them (but for a window).
size_t full_blocks(const AttentionSequence& sequence) {
  return sequence.n_rows == 0 ? 0 : sequence.first_position / kAttentionBlock;
}

// How many first blocks are the same pages, of which the first `known` are known to be.
size_t common_blocks(const AttentionSequence& a, const AttentionSequence& b, size_t known) {
  const size_t limit = std::min(full_blocks(a), full_blocks(b));
  size_t n = known;
  const auto same = [&](size_t block) {
    const std::byte* const* pages = a.pages + block * kBlockPages;
    return std::equal(pages, pages + kBlockPages, b.pages + block * kBlockPages);
  };
  while (n < limit && same(n)) ++n;
  return n;
}

// Where a sequence belongs among those in order, and what it shares with the one then in front of it.
struct Position {
  size_t index = 0;
  size_t shared_with_previous = 0;
};

// Its place is behind the last of those with which it shares most. Each of those in order is asked in turn how much it
// shares with its neighbour in front. If that is less than what the new sequence shares with that neighbour, the place
// is found. If it is more, the new sequence shares as much with both, and nothing is compared. Only if it is the same,
// blocks are compared, from there on. So no block of the sequence is compared twice but for the first that differs.
Position position_of(const AttentionSequence& sequence, std::span<const AttentionSequence> in_order) {
  if (in_order.empty()) return {};
  size_t shared = common_blocks(in_order[0], sequence, 0);
  for (size_t i = 1; i < in_order.size(); ++i) {
    if (in_order[i].shared_blocks < shared) return {i, shared};
    if (in_order[i].shared_blocks == shared) shared = common_blocks(in_order[i], sequence, shared);
  }
  return {in_order.size(), shared};
}

}  // namespace

void share_blocks(std::span<AttentionSequence> sequences) {
  for (size_t n = 0; n < sequences.size(); ++n) {
    const Position to = position_of(sequences[n], sequences.first(n));
    sequences[n].shared_blocks = to.shared_with_previous;   // the one behind shares with it what it did before
    const auto begin = sequences.begin();
    std::rotate(begin + static_cast<std::ptrdiff_t>(to.index), begin + static_cast<std::ptrdiff_t>(n),
                begin + static_cast<std::ptrdiff_t>(n) + 1);
  }
}

}  // namespace ibid
