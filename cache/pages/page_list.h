// PageList: the pages of one sequence, in order, as handles and as bare pointers for attention; and the leases on the
// windows of its last ones (KvPagePool).
//
// It knows neither ids nor lengths: KvCacheEntry does, and decides from which page on windows are needed. Not
// thread-safe. The pool must outlive it.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "cache/pages/kv_page_pool.h"

namespace ibid {

class PageList {
 public:
  explicit PageList(KvPagePool& pool) noexcept : pool_(&pool) {}
  PageList(PageList&&) noexcept = default;
  PageList& operator=(PageList&& other) noexcept;  // what it had goes as by clear(): leases before pages

  std::span<const KvPage> pages() const { return pages_; }
  size_t size() const { return pages_.size(); }
  const KvPage& operator[](size_t i) const { return pages_[i]; }
  // Where the parts of the pages are, valid until the next non-const call. Of a window that is not leased: null.
  const std::byte* const* data(PagePart part) const { return data_[static_cast<size_t>(part)].data(); }
  PageMemory parts(size_t i) const { return pages_[i].parts(); }

  // Memory for n pages in all, apart, because data() may move only when nothing fails any more. May throw
  // std::bad_alloc.
  struct Room {
    std::array<std::vector<const std::byte*>, kPageParts> data;
    bool moves = false;
  };
  Room make_room(size_t n);
  void use(Room room) noexcept;

  // Adds a page, with its window leased. REQUIRES: there is room, and nobody has let go of the window.
  void push_back(KvPage page) noexcept;
  // The same with the window not leased.
  void push_found(KvPage page) noexcept;
  // Puts a page in the place of one, with its window leased if that of the other was. False, and nothing has changed:
  // its window is gone. On success the old page is in `page`.
  bool replace(size_t i, KvPage& page) noexcept;
  void resize(size_t n) noexcept;  // REQUIRES: n <= size()
  // Moves the pages behind the first n into an empty list, with their leases; and back. REQUIRES: the list that grows
  // has room.
  void move_tail(size_t n, PageList& to) noexcept;
  void take_back(PageList& tail) noexcept;
  void clear() noexcept { resize(0); }
  PageList fork(size_t n) const;  // of the first n; may throw std::bad_alloc

  // --- windows; without any, all of this is true and does nothing

  // Whether pages [first, end) have theirs. If not, `missing` is the last one that has not.
  bool have_windows(size_t first, size_t end, size_t& missing) const;
  // Leases the windows of pages [first, end), and returns those in front. False: one is gone, and nothing has changed.
  bool lease(size_t first, size_t end) noexcept;
  // Returns those in front of a page. O(what is returned).
  void return_before(size_t first) noexcept;

 private:
  bool has_windows() const { return pool_->layout().window() > 0; }
  void set_data(size_t i) noexcept;

  KvPagePool* pool_;
  std::vector<KvPage> pages_;
  std::array<std::vector<const std::byte*>, kPageParts> data_;
  size_t first_leased_ = 0;
  std::vector<KvWindowLease> leases_;  // of each page; none without windows. Behind pages_: leases go before pages
};

}  // namespace ibid
