// KvPagePool: the memory of all keys and values and of all recurrent states: refcounted pages under one byte budget.
//
// The second part of a page, the rows of layers with a window, has a life of its own. Sequences that need it have it
// leased; a part that was leased and is not any more stays as long as there is room, and goes before anything else is
// asked for memory, the one that was returned first. A page without it is still a page, and never gets it back.
//
// A page holds the rows of 64 positions, or the states of all recurrent layers behind one position (KvLayout has both
// sizes). It is written by the one owner that holds it alone; a page with several holders is immutable. The pool
// knows nothing of tokens. Thread-safe. Address space is taken in slabs as it is needed, so a large budget
// costs nothing until it is used. A page is zeroed by the thread that lets it go, before anybody can get it: no
// reader ever sees another conversation's rows, and none lie about in memory. Freed pages are kept for reuse, and
// their memory goes back to the system when the budget wants it for pages of another size; under AddressSanitizer
// nobody may touch one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
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
  std::byte* data() const;  // of the first part, or of a state
  // Both parts; the second, if it is there, for as long as somebody has it leased, or nobody ever had.
  PageMemory parts() const;
  // Holders of this page. 1 means: this handle alone, so its owner may write.
  size_t use_count() const;
  bool operator==(const KvPage& other) const { return slot_ == other.slot_; }

 private:
  friend class KvPagePool;
  friend class KvWindowLease;
  struct Slot;
  explicit KvPage(Slot* slot) : slot_(slot) {}
  Slot* slot_ = nullptr;
};

// A right to read the second part of a page: it stays while one of these lives. Copying shares it. The page's handle
// must outlive it.
class KvWindowLease {
 public:
  KvWindowLease() = default;
  KvWindowLease(const KvWindowLease& other);
  KvWindowLease(KvWindowLease&& other) noexcept;
  KvWindowLease& operator=(KvWindowLease other) noexcept;
  ~KvWindowLease();
  explicit operator bool() const { return slot_ != nullptr; }

 private:
  friend class KvPagePool;
  explicit KvWindowLease(KvPage::Slot* slot) : slot_(slot) {}
  KvPage::Slot* slot_ = nullptr;
};

class KvPagePool {
  struct State;

 public:
  // Asked for memory when the budget is used up, without the pool's lock. Returns true when it has freed some, `bytes`
  // or as many as will do: the pool looks again, and may ask again. Returns false, and has changed nothing, when it
  // cannot help.
  using Reclaimer = std::function<bool(size_t bytes)>;

  // Somebody who can give pages back, for as long as this lives: then the pool asks no more. A question that has begun
  // may still be under way, so nobody may allocate while whoever answers is destroyed. The pool must outlive it.
  class Registration {
   public:
    Registration() = default;
    Registration(Registration&& other) noexcept;
    Registration& operator=(Registration other) noexcept;
    ~Registration();

   private:
    friend class KvPagePool;
    Registration(State* pool, const Reclaimer* reclaimer) : pool_(pool), reclaimer_(reclaimer) {}
    State* pool_ = nullptr;
    const Reclaimer* reclaimer_ = nullptr;
  };

  // Whole pages that fit into budget_bytes are handed out, never more.
  KvPagePool(KvLayout layout, size_t budget_bytes);
  virtual ~KvPagePool();  // REQUIRES: no handle is left
  KvPagePool(const KvPagePool&) = delete;
  KvPagePool& operator=(const KvPagePool&) = delete;

  const KvLayout& layout() const { return layout_; }

  // Hands out n zeroed pages, or none. When the budget is reached, the reclaimers are first asked for what is missing.
  // Error: kOutOfMemory with the wanted bytes, the bytes in use and the budget, or for want of heap memory.
  // Virtual, so that tests can hand out pages whose unwritten rows show.
  virtual Result<std::vector<KvPage>> allocate(size_t n_pages);
  Result<KvPage> allocate();
  // The same for pages that hold states, of layout().state_bytes() each.
  Result<std::vector<KvPage>> allocate_states(size_t n_pages);

  // Adds somebody to ask, behind those who are asked already: what costs least to give back is added first. In an
  // engine that is the store, which forgets what was not used for the longest time, and then the tier, which lets go of
  // what waits to be written. Whenever one has helped, the pool begins with the first again. May throw std::bad_alloc.
  [[nodiscard]] Registration add_reclaimer(Reclaimer reclaimer);

  // Leases the second part of a page; nothing: it is gone. And whether it is there now.
  KvWindowLease lease_window(const KvPage& page);
  bool has_window(const KvPage& page) const;
  // Gives up the second parts of new pages that nobody has leased, at once or when the budget wants them.
  void drop_window(const KvPage& page);
  void offer_windows(std::span<const KvPage> pages);

  // Copies the first n_rows rows of a page into a fresh one, and counts the bytes. REQUIRES: both have their windows
  // leased, where there are any.
  void copy_rows(const KvPage& from, const KvPage& to, size_t n_rows);

  size_t budget_bytes() const;
  size_t budget_pages() const;  // whole pages of rows that fit, both parts
  size_t bytes_in_use() const;  // pages with holders, states included
  size_t peak_bytes() const;    // largest bytes_in_use so far
  size_t pages_in_use() const;  // of rows
  size_t state_bytes_in_use() const;
  size_t reserved_bytes() const;  // address space: pages in use and freed ones
  size_t bytes_copied() const;    // by copy_rows, since construction

 private:
  friend class KvPage;
  friend class KvWindowLease;
  enum class Kind : uint8_t { kRows, kState };
  Result<std::vector<KvPage>> hand_out(Kind kind, size_t n_pages);

  KvLayout layout_;
  std::unique_ptr<State> state_;
};

}  // namespace ibid
