// KvCacheEntry: the keys and values (KV) of one sequence, identified by the tokens from which they were computed.
//
// Positions [0, length()) are committed and never change. append() stages T positions after length() once in every
// layer; commit() publishes them and their tokens in all layers at once. Only commit() adds computed positions; adopt()
// and adopt_more() add positions that were committed elsewhere. An error or cancellation before commit() leaves the
// entry unchanged. slice_to_at_most(), slice_to_length() and fork() copy no data: pages are shared, and the first
// reserve() that writes into a shared partial page copies that page.
//
// For recurrent layers the entry also has their states (cache/pages/sequence_state.h). For sliding-window layers it
// leases the window parts of its last pages; window parts of earlier pages may be evicted (KvPagePool). Both restrict
// the positions at which a sequence can resume: see resumable_length().
//
// Not thread-safe, except append() by the workers of one parallel region. The pool must outlive the entry.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/pages/sequence_state.h"
#include "ibid/token.h"

namespace ibid {

// The pages of one sequence, in order, as handles and as raw pointers for attention, with the leases on the window
// parts (sliding-window layers) of the last pages. KvCacheEntry stores the length and decides which window parts are
// needed. Not thread-safe. The pool must outlive the list.
class PageList {
 public:
  explicit PageList(KvPagePool& pool) noexcept : pool_(&pool) {}
  PageList(PageList&&) noexcept = default;
  PageList& operator=(PageList&& other) noexcept;  // ends this list's leases before it frees its pages, as clear() does

  std::span<const KvPage> pages() const { return pages_; }
  size_t size() const { return pages_.size(); }
  const KvPage& operator[](size_t i) const { return pages_[i]; }
  // Addresses of one part of each page (PagePart: full-attention or sliding-window layers), valid until the next
  // non-const call. Null for a window part that is not leased.
  const std::byte* const* data(PagePart part) const { return data_[static_cast<size_t>(part)].data(); }
  PageMemory parts(size_t i) const { return pages_[i].parts(); }

  // Arrays of addresses for n pages. They are allocated in advance, so that adopt_storage() cannot fail. May throw
  // std::bad_alloc.
  struct Storage {
    std::array<std::vector<const std::byte*>, kPageParts> data;
    bool moves = false;
  };
  Storage allocate_storage(size_t n);
  void adopt_storage(Storage storage) noexcept;

  // Appends a page and leases its window part. REQUIRES: allocate_storage() made room; the window part was not evicted.
  void push_back(KvPage page) noexcept;
  // Appends a page without leasing its window part.
  void push_unleased(KvPage page) noexcept;
  // Swaps page i with `page`. If the window part of page i was leased, leases the window part of `page`. Returns false
  // and changes nothing if the window part of `page` was evicted.
  bool replace(size_t i, KvPage& page) noexcept;
  void resize(size_t n) noexcept;  // REQUIRES: n <= size()
  // move_tail() moves the pages after the first n, and their leases, to the empty list `to`; take_back() appends them
  // to this list again. REQUIRES: the destination has room.
  void move_tail(size_t n, PageList& to) noexcept;
  void take_back(PageList& tail) noexcept;
  void clear() noexcept { resize(0); }
  PageList fork(size_t n) const;  // copies the first n pages; may throw std::bad_alloc

  // --- Window parts. Without sliding-window layers these calls do nothing and return true.

  // Returns true if no window part (keys and values of sliding-window layers) of the pages [first, end) was evicted;
  // else sets `missing` to the last page whose part was evicted.
  bool have_windows(size_t first, size_t end, size_t& missing) const;
  // Leases the window parts of pages [first, end), and ends the leases before `first`. Returns false, changing nothing,
  // if one of the parts was evicted.
  bool lease(size_t first, size_t end) noexcept;
  // Ends the leases of pages before page `first`, whose positions have left the sliding window. O(ended leases).
  void return_before(size_t first) noexcept;

 private:
  bool has_windows() const { return pool_->layout().window() > 0; }
  void set_data(size_t i) noexcept;

  KvPagePool* pool_;
  std::vector<KvPage> pages_;
  std::array<std::vector<const std::byte*>, kPageParts> data_;
  size_t first_leased_ = 0;
  // One lease per page; no leases if the layout has no window parts. Declared after pages_, so that leases end before
  // pages are freed.
  std::vector<KvWindowLease> leases_;
};

class KvCacheEntry {
 public:
  explicit KvCacheEntry(KvPagePool& pool) noexcept : pool_(&pool), pages_(pool), state_(pool) {}
  KvCacheEntry(KvCacheEntry&&) noexcept = default;
  KvCacheEntry& operator=(KvCacheEntry&&) noexcept = default;
  KvCacheEntry(const KvCacheEntry&) = delete;  // use fork() instead, which copies references only
  KvCacheEntry& operator=(const KvCacheEntry&) = delete;

  const KvPagePool& pool() const { return *pool_; }
  const KvLayout& layout() const { return pool_->layout(); }
  size_t length() const { return tokens_.size(); }
  size_t capacity() const { return pages_.size() * kPagePositions; }
  TokenSpan tokens() const { return tokens_; }

  // Makes room for n_rows positions after length(): allocates pages, and copies the last page if it is partial and
  // shared. Drops staged positions. No other call of a pass can run out of memory. Error: kOutOfMemory; the entry is
  // unchanged and page_data() stays valid, but states that were kept for later prompts may have been freed.
  Status reserve(size_t n_rows);

  // Replaces the last page by a copy of its own if it is partial and shared, as reserve() does. Error: kOutOfMemory,
  // nothing changed.
  Status own_last_page();

  // Stages n_rows positions of one layer, from length() on. Every worker of a region calls append() with the same
  // arguments and stores its share: some of the pairs of a head and a group of 16 positions, so that no two workers
  // write one cache line of K. The caller sets a barrier before reading. Staging again before commit(), as after a
  // cancelled pass, overwrites the staged positions.
  //   k, v: [n_rows, stride], a row has n_kv_heads * head_dim floats; k is rotated. v is not read for latent rows.
  //   finish(row, head): each worker calls it for each row and head that it stores, just before storing; it may change
  //   k and v.
  // REQUIRES: reserve(n_rows) succeeded since the last commit, slice or fork.
  template <typename Finish>
  void append(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v, size_t stride,
              size_t n_rows, Finish&& finish) {
    using Plain = std::remove_reference_t<Finish>;
    store_rows(
        worker, kernels, layer, k, v, stride, n_rows,
        [](void* context, size_t row, size_t head) { (*static_cast<Plain*>(context))(row, head); }, &finish);
  }
  void append(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v, size_t stride,
              size_t n_rows) {
    append(worker, kernels, layer, k, v, stride, n_rows, [](size_t, size_t) {});
  }

  // States of the recurrent layers after length(). A pass writes the next states between reserve() and commit().
  SequenceState& state() { return state_; }
  const SequenceState& state() const { return state_; }

  // Publishes the staged positions and states.
  // REQUIRES: every layer was appended, and every state staged, with tokens.size() rows.
  void commit(TokenSpan tokens);

  // Returns the last position <= n at which the entry can resume: n itself if no layer is recurrent or has a window.
  // Window parts that are not leased may be evicted after the call. REQUIRES: n <= length().
  size_t resumable_length(size_t n) const;
  // Slices to the last position <= n at which the entry can resume, possibly 0, and frees reserved pages. Returns the
  // new length(). O(freed pages).
  [[nodiscard]] size_t slice_to_at_most(size_t n);
  // Slices to exactly n positions. REQUIRES: n == resumable_length(n), which is true for 0, for positions within the
  // last pass, and for all positions if no layer is recurrent or has a window.
  void slice_to_length(size_t n);

  // Returns an entry with the same pages: O(pages) references, no data copied. Error: kOutOfMemory (heap).
  Result<KvCacheEntry> fork() const;

  // Pages from position 0 on, for attention and the store: first those with committed positions, then reserved ones.
  std::span<const KvPage> pages() const { return pages_.pages(); }
  // Addresses of one part of each page, valid until the next non-const call. Window parts that are not leased are null.
  const std::byte* const* page_data(PagePart part = PagePart::kAll) const { return pages_.data(part); }

  // Addresses of the parts of a page. REQUIRES: its window part, if any, is leased, or no other thread uses the pool.
  PageMemory parts(size_t page) const { return pages_.parts(page); }
  // Prevents the eviction of a page's window part (sliding-window layers) while the caller copies the page.
  KvWindowReader read_window(size_t page) const { return pool_->read_window(pages_[page]); }

  // Fills an empty entry with stored pages and states, and slices it to the last position at which it can resume.
  // Error: kOutOfMemory; the entry stays empty.
  // REQUIRES: the entry is empty, tokens.size() positions need exactly these pages, and in a model with recurrent
  // layers one of the states reaches tokens.size().
  Status adopt(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states = {});

  // Frees all pages and states. Returns the tokens that the entry had.
  Tokens release() noexcept;
  // Undoes release(): fills the empty entry with stored pages as adopt() does, but moves `tokens` into the entry
  // instead of copying them, and uses only the first n_tokens of them. Error: kOutOfMemory; the entry stays empty and
  // `tokens` unchanged.
  // REQUIRES: those of adopt() for n_tokens; n_tokens <= tokens.size().
  Status take_up(std::vector<KvPage> pages, size_t n_tokens, Tokens& tokens, std::vector<StateSnapshot> states = {});

  // Appends stored positions, whose tokens are `tokens`, after tokens(). If the entry's last page is partial, pages[0]
  // replaces that page and also holds its positions. Frees reserved pages, drops staged positions, and keeps the
  // entry's own states. Slices the result to the last position at which it can resume; if that position is not beyond
  // length(), the entry does not change. O(given tokens and pages).
  // Error: kOutOfMemory (heap), nothing changed.
  // REQUIRES: the pages are those that length() + tokens.size() positions need after the full pages of length(); one of
  // the states reaches length() + tokens.size(); window parts of new pages were never leased.
  Status adopt_more(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states = {});

  // Replaces page `index` by `page`, so that equal pages are stored once. Returns the replaced page; if `page` lacks a
  // window part that the entry needs, changes nothing and returns `page`.
  // REQUIRES: all 64 positions are committed, and both pages hold the KV of the same tokens.
  KvPage share_page(size_t index, KvPage page);

  // Counters since construction; tests use them to verify that a pass costs O(new positions).
  size_t pages_copied() const { return pages_copied_; }
  size_t rows_appended() const { return rows_appended_; }

 private:
  Status reserve_or_throw(size_t n_rows);
  bool shares_last_page() const;
  void replace_last_page(KvPage page);
  void hold(std::vector<KvPage> pages, size_t n_tokens);
  size_t resumable_windows(size_t n) const;
  using FinishRow = void (*)(void* context, size_t row, size_t head);
  void store_rows(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v,
                  size_t stride, size_t n_rows, FinishRow finish, void* context);

  KvPagePool* pool_;
  PageList pages_;
  Tokens tokens_;
  std::vector<size_t> staged_;  // [n_layers] number of rows that were appended to the layer since reserve()
  bool is_reserved_ = false;    // reserve() succeeded at least once since construction
  SequenceState state_;
  size_t pages_copied_ = 0;
  size_t rows_appended_ = 0;
};

}  // namespace ibid
