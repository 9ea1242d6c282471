#include "runtime/generate/publish.h"

#include "kernels/kernels.h"

namespace ibid {

// Others go on from full pages. Where layers are recurrent they go on from states alone, of which some may lie beyond
// the full pages: then those who wait for one of them get all rows. So does whoever comes while the answer is said, if
// the state in front of what the user says lies there: other conversations with the same beginning go on from it.
void publish(const SharedPrompt& shared, PendingPrefixes::Reading& reading, KvCacheEntry& entry,
             const StateBorders& borders, size_t n_unread) {
  const size_t n = entry.length(), n_pages = n / kPagePositions * kPagePositions;
  if (entry.layout().n_states() == 0) {
    shared.publish(entry, false);
    return reading.published(n_pages);
  }
  const bool is_end = n_unread == 0;
  const size_t border = is_end ? n : borders.last(n);
  const size_t next = is_end ? n + 1 : borders.next(n, n + n_unread);
  const size_t hidden = borders.next(n_pages, border);  // the first of those beyond the full pages
  const bool is_wanted = is_end && borders.opening() > n_pages;
  const bool whole = n_pages < border && border == n && (is_wanted || reading.is_awaited(hidden, next));
  const size_t n_found = shared.publish(entry, whole) ? n : n_pages;
  // Up to the next border nobody will find more than now.
  if (border > 0) reading.published(border <= n_found ? next - 1 : hidden - 1);
}

}  // namespace ibid
