// KvCacheEntry: the keys and values of one sequence, described by the token ids that were fed and by nothing
// else.
//
// Rows [0, length()) are committed and never change. append() stages rows [length, length + T) once in every
// layer; commit() publishes them and their ids in all layers at once. It is the only place where rows that were
// computed make the sequence longer; adopt() and adopt_more() take rows that somebody else committed. Whatever
// happens before commit (error, cancellation) leaves the entry as if never called.
// slice_to_at_most(), slice_to_length() and fork() move no rows: full pages are shared, a shared partial page is copied
// by the first reserve() that wants to write into it.
//
// Where a model has recurrent layers, the entry has their states too (cache/pages/sequence_state.h). Where layers have
// windows, it has a lease on their rows of its last positions, and the rows further back may be gone (KvPagePool). In
// both cases it cannot go on from every position: resumable_length() says from where.
//
// Not thread-safe, except that the workers of one region call append() together. The pool must outlive it.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

#include "base/parallel.h"
#include "base/result.h"
#include "cache/pages/kv_page_pool.h"
#include "cache/pages/page_list.h"
#include "cache/pages/sequence_state.h"
#include "ibid/token.h"

namespace ibid {

class KvCacheEntry {
 public:
  explicit KvCacheEntry(KvPagePool& pool) noexcept : pool_(&pool), pages_(pool), state_(pool) {}
  KvCacheEntry(KvCacheEntry&&) noexcept = default;
  KvCacheEntry& operator=(KvCacheEntry&&) noexcept = default;
  KvCacheEntry(const KvCacheEntry&) = delete;  // fork() copies, at the cost of references
  KvCacheEntry& operator=(const KvCacheEntry&) = delete;

  const KvPagePool& pool() const { return *pool_; }
  const KvLayout& layout() const { return pool_->layout(); }
  size_t length() const { return tokens_.size(); }
  size_t capacity() const { return pages_.size() * kPagePositions; }
  TokenSpan tokens() const { return tokens_; }

  // Makes room for n_rows after length(): allocates pages, and copies the rows of the partial last page when
  // somebody else holds it too. Forgets what was staged. It is the only call of a pass that can fail for memory
  // (kOutOfMemory). A call that fails changes nothing, and page_data() stays valid; but where the pool is short, states
  // that were kept for later prompts go before the call fails.
  Status reserve(size_t n_rows);

  // Gives the entry its own page in place of a partial last one that somebody else holds too, as reserve() does. Error:
  // kOutOfMemory, and nothing has changed.
  Status own_last_page();

  // Stages n_rows rows of one layer at positions [length, length + n_rows). Called by every worker of a
  // region with the same arguments; each stores its share (heads and groups of 16 positions, so that no two
  // write one cache line of K). The caller puts a barrier before anybody reads them. Calling it again before
  // commit, as after a pass that was cancelled, stores them anew.
  //   k, v: [n_rows, stride], a row holds n_kv_heads * head_dim floats; k is already rotated. Of latent rows v is not
  //   read.
  //   finish(row, head), where given, is called for each row and head by the worker that stores it, just before:
  //   it may still change k and v there.
  // REQUIRES: reserve(n_rows) succeeded since the last commit, slice or fork.
  template <typename Finish>
  void append(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v,
              size_t stride, size_t n_rows, Finish&& finish) {
    using Plain = std::remove_reference_t<Finish>;
    store_rows(worker, kernels, layer, k, v, stride, n_rows,
               [](void* context, size_t row, size_t head) { (*static_cast<Plain*>(context))(row, head); }, &finish);
  }
  void append(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v,
              size_t stride, size_t n_rows) {
    append(worker, kernels, layer, k, v, stride, n_rows, [](size_t, size_t) {});
  }

  // The recurrent layers' part. A pass writes it between reserve() and commit().
  SequenceState& state() { return state_; }
  const SequenceState& state() const { return state_; }

  // Publishes the staged rows and states. REQUIRES: every layer was appended, and every state staged, with
  // tokens.size() rows.
  void commit(TokenSpan tokens);

  // The last position up to n from which the entry can go on: n, if no layer is recurrent or has a window. REQUIRES:
  // n <= length(). Without a lease, rows may be gone a moment later.
  size_t resumable_length(size_t n) const;
  // Keeps at most the first n positions: as many as the entry can go on from, down to none. Gives back what was
  // reserved beyond. Returns the new length(). O(pages dropped).
  [[nodiscard]] size_t slice_to_at_most(size_t n);
  // The same for a cut that loses nothing below n. REQUIRES: n == resumable_length(n), as for a cut to 0, within the
  // last pass, and to any length where no layer is recurrent or has a window.
  void slice_to_length(size_t n);

  // An entry with the same rows: O(pages) references, no row copied. Error: kOutOfMemory, for these references.
  Result<KvCacheEntry> fork() const;

  // The pages from position 0 on, for attention and for the store: those of length(), then reserved ones.
  std::span<const KvPage> pages() const { return pages_.pages(); }
  // The same as bare pointers to their parts, valid until the next non-const call. Windows: of the last pages only.
  const std::byte* const* page_data(PagePart part = PagePart::kAll) const {
    return pages_.data(part);
  }

  // Where the parts of a page are. REQUIRES: its window, if layers have one, is leased, or nobody else uses the pool.
  PageMemory parts(size_t page) const { return pages_.parts(page); }
  // Keeps the window of a page while it is copied. Nothing: it is gone.
  KvWindowLease read_window(size_t page) const { return pool_->read_window(pages_[page]); }

  // Adopts pages that the store found: rows [0, tokens.size()), and what the recurrent layers go on from. It keeps as
  // many positions as it can go on from. Error: kOutOfMemory; the entry is still empty. REQUIRES: the entry is empty,
  // the pages are as many as the tokens need, and one of the states reaches tokens.size().
  Status adopt(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states = {});

  // Gives everything back: the entry is empty. Returns the ids that it had.
  Tokens release() noexcept;
  // Undoes release(): takes pages with the rows of tokens[0, n_tokens), and the ids, cut to what it can go on from.
  // Error: kOutOfMemory; the entry is then still empty, and the ids are where they were. REQUIRES: as of adopt(), and
  // n_tokens <= tokens.size().
  Status take_up(std::vector<KvPage> pages, size_t n_tokens, Tokens& tokens, std::vector<StateSnapshot> states = {});

  // Continues the entry with rows that were found elsewhere: those of `tokens`, which follow tokens(). pages[0] takes
  // the place of the partial last page, if there is one, and holds its rows as well. The places to go on from that it
  // has stay. Gives back what was reserved and forgets what was staged. It becomes as long as it can go on from, and
  // stays what it is if that is not longer. O(tokens and pages that are given). Error: kOutOfMemory (the heap), and
  // nothing has changed. REQUIRES: the pages are as many as length() + tokens.size() needs beyond the full pages of
  // length(), and one of the states reaches that length. Windows of new pages were never leased.
  Status adopt_more(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states = {});

  // Puts `page` in place of page `index`, so that the same ids, computed twice, need memory only once. Returns the
  // page that was there, or `page`, if it lacks rows that the entry needs. REQUIRES: all 64 positions are committed and
  // both pages hold the rows of the same ids.
  KvPage share_page(size_t index, KvPage page);

  // Counters since construction, for the proofs of O(delta).
  size_t pages_copied() const { return pages_copied_; }
  size_t rows_appended() const { return rows_appended_; }

 private:
  Status reserve_or_throw(size_t n_rows);
  bool shares_last_page() const;
  void replace_last_page(KvPage page);
  Status hold(std::vector<KvPage> pages, size_t n_tokens);
  size_t resumable_windows(size_t n) const;
  using FinishRow = void (*)(void* context, size_t row, size_t head);
  void store_rows(const Worker& worker, const Kernels& kernels, size_t layer, const float* k, const float* v,
                  size_t stride, size_t n_rows, FinishRow finish, void* context);

  KvPagePool* pool_;
  PageList pages_;
  Tokens tokens_;
  std::vector<size_t> staged_;  // [n_layers] rows appended since reserve, 0: none
  bool is_reserved_ = false;    // ever
  SequenceState state_;
  size_t pages_copied_ = 0;
  size_t rows_appended_ = 0;
};

}  // namespace ibid
