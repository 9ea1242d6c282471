// KvPagePool: the memory of all keys and values: refcounted pages under one byte budget.
//
// A page is written by the one entry that holds it alone; a page with several holders is immutable. The pool
// knows nothing of tokens. Thread-safe. Freed pages are kept for reuse and zeroed before they are handed out
// again, so that no reader ever sees another conversation's rows.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/arena.h"
#include "base/result.h"
#include "cache/kv_layout.h"

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
  KvPagePool(KvLayout layout, size_t budget_bytes);
  ~KvPagePool();  // REQUIRES: no handle is left
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  const KvLayout& layout() const { return layout_; }

  // A zeroed page. When the budget is reached, `reclaim` is asked first (see set_reclaim).
  // Error: kOutOfMemory with the wanted bytes, the bytes in use and the budget.
  Result<KvPage> allocate();

  // Called without the pool's lock when a page is wanted and the budget is used up; frees at least one page
  // and returns true, or returns false when it has nothing to give. The store installs its eviction here.
  void set_reclaim(std::function<bool()> reclaim);

  size_t budget_bytes() const;
  size_t bytes_in_use() const;      // pages with holders
  size_t peak_bytes() const;
  size_t pages_in_use() const;

 private:
  friend class KvPage;
  struct State;
  KvLayout layout_;
  std::unique_ptr<State> state_;
};

}  // namespace ibid
