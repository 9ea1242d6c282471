// KvPagePool: the memory of all keys and values: refcounted pages under one byte budget.
//
// A page is written by the one entry that holds it alone; a page with several holders is immutable. The pool
// knows nothing of tokens. Thread-safe. Address space is taken in slabs as it is needed, so a large budget
// costs nothing until it is used. A page is zeroed by the thread that lets it go, before anybody can get it: no
// reader ever sees another conversation's rows, and none lie about in memory. Freed pages are kept for reuse;
// under AddressSanitizer nobody may touch one.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cache/pages/kv_layout.h"

namespace ibid {

class KvPagePool;

// A counted reference to one page. Copying shares the page; the last handle gives it back.
class KvPage {
 public:
  KvPage() = default;
  KvPage(const KvPage& other);
  KvPage(KvPage&& other) noexcept;
  KvPage& operator=(KvPage other) noexcept;
  ~KvPage();

  explicit operator bool() const { return slot_ != nullptr; }
  std::byte* data() const;
  // Holders of this page. 1 means: this handle alone, so its owner may write.
  size_t use_count() const;
  bool operator==(const KvPage& other) const { return slot_ == other.slot_; }

 private:
  friend class KvPagePool;
  struct Slot;
  explicit KvPage(Slot* slot) : slot_(slot) {}
  Slot* slot_ = nullptr;
};

class KvPagePool {
 public:
  // Returns true when it has freed pages, `n_pages` or as many as will do: the pool looks again and may ask
  // again. Returns false, and has changed nothing, when so many cannot be freed.
  using Reclaim = std::function<bool(size_t n_pages)>;

  // The budget counts pages: whole pages that fit into budget_bytes are handed out, never more.
  KvPagePool(KvLayout layout, size_t budget_bytes);
  ~KvPagePool();  // REQUIRES: no handle is left
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  const KvLayout& layout() const { return layout_; }

  // Hands out n zeroed pages, or none. When the budget is reached, `reclaim` is first asked for what is missing.
  // Error: kOutOfMemory with the wanted bytes, the bytes in use and the budget, or for want of heap memory.
  Result<std::vector<KvPage>> allocate(size_t n_pages);
  Result<KvPage> allocate();

  // Called without the pool's lock when pages are wanted and the budget is used up. The store installs its
  // eviction here; an empty function takes it away again. Setting it while others allocate is safe, but a
  // call that has begun may still be running afterwards.
  void set_reclaim(Reclaim reclaim);

  // Called in the same way when reclaim could not help. It lets go of handles that can be spared, such as those of
  // pages that wait to be written to disk, and returns whether it let go of any. Then reclaim is asked once more.
  using LetGo = std::function<bool()>;
  void set_let_go(LetGo let_go);

  // Copies the first n_rows rows of a page into a fresh one, and counts the bytes.
  void copy_rows(const KvPage& from, const KvPage& to, size_t n_rows);

  size_t budget_bytes() const;
  size_t budget_pages() const;  // whole pages that fit
  size_t bytes_in_use() const;  // pages with holders
  size_t peak_bytes() const;    // largest bytes_in_use so far
  size_t pages_in_use() const;
  size_t reserved_bytes() const;  // slabs: pages in use and freed ones
  size_t bytes_copied() const;    // by copy_rows, since construction

  // For tests: pages are handed out filled with `fill` instead of zero (0xff: every float is a NaN), so that
  // a reader of rows that were never written shows. Breaks the zero padding of heads that are not a multiple
  // of 16 wide.
  void set_fresh_fill(std::byte fill);

 private:
  friend class KvPage;
  struct State;
  KvLayout layout_;
  std::unique_ptr<State> state_;
};

}  // namespace ibid
