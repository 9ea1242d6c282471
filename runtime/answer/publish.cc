#include "runtime/answer/publish.h"

#include "kernels/kernels.h"

namespace ibid {

// Others go on from full pages. Where layers are recurrent they go on from states alone, of which the last may lie
// beyond the full pages: then somebody who waits for it gets all rows. So does whoever comes later, at the end.
void publish(const SharedPrompt& shared, PendingPrefixes::Reading& reading, KvCacheEntry& entry,
             const StateBorders& borders, size_t n_unread) {
  const size_t n = entry.length(), n_pages = n / kPagePositions * kPagePositions;
  if (entry.layout().n_states() == 0) {
    shared.publish(entry, false);
    return reading.published(n_pages);
  }
  const size_t border = n_unread == 0 ? n : borders.last(n);
  const size_t next = n_unread == 0 ? n + 1 : borders.next(n, n + n_unread);
  const bool whole = n_pages < border && border == n && (n_unread == 0 || reading.is_awaited(border, next));
  const size_t n_found = shared.publish(entry, whole) ? n : n_pages;
  // Up to the next border nobody will find more than now.
  if (border > 0) reading.published(border <= n_found ? next - 1 : border - 1);
}

}  // namespace ibid
