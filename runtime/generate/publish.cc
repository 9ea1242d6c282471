#include "runtime/generate/publish.h"

#include "kernels/kernels.h"

namespace ibid {

// Other prompts resume from full pages or, with recurrent layers, only from states, some of which may lie after the
// full pages. All rows are published if a waiting prompt needs such a state, and at the prompt's end if the state
// before the first user message is such a state, because other conversations with the same beginning resume there.
void publish(const SharedPrompt& shared, PendingPrefixes::Reading& reading, KvCacheEntry& entry,
             const CheckpointPositions& checkpoints, size_t n_unread) {
  const size_t n = entry.length(), n_pages = n / kPagePositions * kPagePositions;
  if (entry.layout().n_states() == 0) {
    shared.publish(entry, false);
    return reading.published(n_pages);
  }
  const bool is_end = n_unread == 0;
  const size_t border = is_end ? n : checkpoints.last(n);
  const size_t next = is_end ? n + 1 : checkpoints.next(n, n + n_unread);
  const size_t hidden = checkpoints.next(n_pages, border);  // the first state after the full pages
  const bool is_wanted = is_end && checkpoints.first_turn_boundary() > n_pages;
  const bool whole = n_pages < border && border == n && (is_wanted || reading.is_awaited(hidden, next));
  const size_t n_found = shared.publish(entry, whole) ? n : n_pages;
  // A longer prefix becomes available only at the next border, so waiters need not wake before.
  if (border > 0) reading.published(border <= n_found ? next - 1 : hidden - 1);
}

}  // namespace ibid
