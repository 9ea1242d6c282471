// WriteQueue: what waits to be written by a tier, pages in their order and then states. It holds references, and at
// most so many bytes. It does not know when anything is written; WriteBehind does.
//
// Not thread-safe. Calls that throw std::bad_alloc have changed nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "cache/pages/kv_page_pool.h"
#include "cache/pages/sequence_state.h"
#include "cache/tier/page_name.h"
#include "ibid/token.h"

namespace ibid {

// A page to be written, and all that identifies it.
struct WaitingPage {
  KvPageIdentity identity;
  PageName before_that, before, name;    // up to the page before's beginning, up to this one's beginning, to its end
  std::shared_ptr<const Tokens> tokens;  // of the sequence
  size_t n_ids = 0;                      // up to the end of the page
  KvPage page;                           // empty once its rows are copied

  size_t first_position() const { return (n_ids - 1) / kPagePositions * kPagePositions; }
  size_t n_rows() const { return n_ids - first_position(); }
  TokenSpan ids() const { return TokenSpan(*tokens).first(n_ids); }
  TokenSpan page_ids() const { return ids().subspan(first_position()); }
};

// A recurrent state to be written, with the rows behind it. Its position lies in the page behind `before`, or at that
// page's beginning.
struct WaitingState {
  KvPageIdentity identity;
  PageName before_that, before, name;
  std::shared_ptr<const Tokens> tokens;  // of the sequence
  StateSnapshot snapshot;                // its state: empty once it is copied

  size_t n_front() const { return snapshot.position % kPagePositions; }
  size_t page_begin() const { return snapshot.position - n_front(); }
  TokenSpan ids() const { return TokenSpan(*tokens).first(snapshot.end()); }
  TokenSpan page_ids() const { return ids().subspan(page_begin()); }
};

class WriteQueue {
 public:
  // One record is taken whatever its size.
  WriteQueue(const KvLayout& layout, size_t max_bytes) : layout_(layout), max_bytes_(max_bytes) {}

  size_t size() const { return pages_.size() + states_.size(); }
  bool empty() const { return size() == 0; }
  size_t bytes() const { return pages_.size() * layout_.page_bytes() + state_bytes_; }

  // False when there is no room. What waits already is not added again, and what holds the beginning of the same page,
  // or the same state with fewer rows, is replaced.
  bool add(WaitingPage page);
  bool add(WaitingState state);

  // The first one: a page as long as there is any. Nothing: it is empty.
  struct Next {
    std::optional<WaitingPage> page;
    std::optional<WaitingState> state;
  };
  Next pop();

  void forget(const Sha256Digest& name_space);
  void clear();
  // Everything that waits moves there, to be dropped. REQUIRES: `other` is empty.
  void move_to(WriteQueue& other) noexcept;

 private:
  bool has_room(size_t bytes) const { return empty() || this->bytes() + bytes <= max_bytes_; }
  size_t bytes_of(const WaitingState& state) const;

  const KvLayout& layout_;
  const size_t max_bytes_;
  std::deque<WaitingPage> pages_;
  std::deque<WaitingState> states_;
  size_t state_bytes_ = 0;
};

}  // namespace ibid
