#include "cache/pages/kv_cache_entry.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked.h"
#include "base/growth.h"

namespace ibid {

PageList& PageList::operator=(PageList&& other) noexcept {
  if (this == &other) return *this;
  clear();
  pool_ = other.pool_;
  pages_ = std::move(other.pages_);
  data_ = std::move(other.data_);
  first_leased_ = std::exchange(other.first_leased_, 0);
  leases_ = std::move(other.leases_);
  return *this;
}

PageList::Storage PageList::allocate_storage(size_t n) {
  Storage storage;
  reserve_geometric(pages_, n);
  if (has_windows()) reserve_geometric(leases_, n);
  storage.moves = n > data_[0].capacity();
  if (!storage.moves) return storage;
  for (size_t part = 0; part < kPageParts; ++part) {
    storage.data[part].reserve(std::max(n, 2 * data_[part].capacity()));
    storage.data[part].assign(data_[part].begin(), data_[part].end());
  }
  return storage;
}

void PageList::adopt_storage(Storage storage) noexcept {
  if (storage.moves) data_ = std::move(storage.data);
}

void PageList::set_data(size_t i) noexcept {
  data_[0][i] = pages_[i].data();
  data_[1][i] = has_windows() && leases_[i] ? pages_[i].parts().window : nullptr;
}

void PageList::push_unleased(KvPage page) noexcept {
  pages_.push_back(std::move(page));
  for (auto& part : data_) part.push_back(nullptr);
  if (has_windows()) leases_.emplace_back();
  set_data(pages_.size() - 1);
}

void PageList::push_back(KvPage page) noexcept {
  push_unleased(std::move(page));
  if (!has_windows()) return;
  leases_.back() = pool_->lease_window(pages_.back());
  CHECK(static_cast<bool>(leases_.back())) << "a new page must have its window part";
  set_data(pages_.size() - 1);
}

bool PageList::replace(size_t i, KvPage& page) noexcept {
  if (has_windows() && leases_[i]) {
    KvWindowLease lease = pool_->lease_window(page);
    if (!lease) return false;
    leases_[i] = std::move(lease);
  }
  std::swap(pages_[i], page);
  set_data(i);
  return true;
}

void PageList::resize(size_t n) noexcept {
  if (has_windows()) leases_.resize(n);
  pages_.resize(n);
  for (auto& part : data_) part.resize(n);
  first_leased_ = std::min(first_leased_, n);
}

void PageList::move_tail(size_t n, PageList& to) noexcept {
  to.first_leased_ = saturating_sub(first_leased_, n);
  for (size_t i = n; i < size(); ++i) {
    to.pages_.push_back(std::move(pages_[i]));
    for (size_t part = 0; part < kPageParts; ++part) to.data_[part].push_back(data_[part][i]);
    if (has_windows()) to.leases_.push_back(std::move(leases_[i]));
  }
  resize(n);
}

void PageList::take_back(PageList& tail) noexcept {
  const size_t n = size();
  if (first_leased_ == n) first_leased_ += tail.first_leased_;
  for (size_t i = 0; i < tail.size(); ++i) {
    pages_.push_back(std::move(tail.pages_[i]));
    for (size_t part = 0; part < kPageParts; ++part) data_[part].push_back(tail.data_[part][i]);
    if (has_windows()) leases_.push_back(std::move(tail.leases_[i]));
  }
  tail.clear();
}

PageList PageList::fork(size_t n) const {
  PageList copy(*pool_);
  copy.pages_.assign(pages_.begin(), pages_.begin() + static_cast<ptrdiff_t>(n));
  for (size_t part = 0; part < kPageParts; ++part) {
    copy.data_[part].assign(data_[part].begin(), data_[part].begin() + static_cast<ptrdiff_t>(n));
  }
  if (has_windows()) copy.leases_.assign(leases_.begin(), leases_.begin() + static_cast<ptrdiff_t>(n));
  copy.first_leased_ = std::min(first_leased_, n);
  return copy;
}

bool PageList::have_windows(size_t first, size_t end, size_t& missing) const {
  if (!has_windows()) return true;
  for (size_t i = end; i > first; --i) {
    if (leases_[i - 1] || pool_->has_window(pages_[i - 1])) continue;
    missing = i - 1;
    return false;
  }
  return true;
}

bool PageList::lease(size_t first, size_t end) noexcept {
  if (!has_windows()) return true;
  const size_t n = end - first;
  if (!pool_->lease_windows(pages().subspan(first, n), std::span(leases_).subspan(first, n))) return false;
  for (size_t i = first; i < end; ++i) set_data(i);
  first_leased_ = std::min(first_leased_, first);
  return_before(first);
  return true;
}

void PageList::return_before(size_t first) noexcept {
  if (!has_windows()) return;
  for (; first_leased_ < std::min(first, size()); ++first_leased_) {
    leases_[first_leased_].end_as(WindowClass::kPassed);
    set_data(first_leased_);
  }
}

namespace {

// May throw std::bad_alloc.
Status check_budget(const KvPagePool& pool, size_t length, size_t n_rows) {
  const std::optional<size_t> rows = checked_add(length, n_rows);
  if (rows && pool.layout().bytes_for(*rows) <= pool.budget_bytes()) return {};
  return {ErrorCode::kOutOfMemory, "KV cache: " + std::to_string(n_rows) + " positions after " +
                                       std::to_string(length) + " need more than the budget of " +
                                       std::to_string(pool.budget_bytes()) + " bytes (" +
                                       std::to_string(pool.budget_pages()) + " pages of 64 positions)"};
}

}  // namespace

Status KvCacheEntry::reserve(size_t n_rows) {
  return guarded([&]() -> Status {
    TRY(check_budget(*pool_, length(), n_rows));
    // If memory is short, drop the recurrent states that are kept for later prompts: they only save work later, but
    // without memory this pass fails.
    Status status = reserve_or_throw(n_rows);
    while (status.code() == ErrorCode::kOutOfMemory && state_.drop_cheapest()) status = reserve_or_throw(n_rows);
    return status;
  });
}

Status KvCacheEntry::reserve_or_throw(size_t n_rows) {
  const size_t n_pages = KvLayout::pages_for(length() + n_rows);
  const bool copies_last = n_rows > 0 && shares_last_page();
  const size_t n_new = saturating_sub(n_pages, pages_.size());

  // Allocate the lists before the pages: allocating pages may evict other pages, which would be in vain if a list could
  // not be allocated afterwards.
  staged_.resize(layout().n_layers());
  reserve_geometric(tokens_, length() + n_rows);
  PageList::Storage storage = pages_.allocate_storage(n_pages);
  std::vector<KvPage> fresh;
  if (n_new > 0 || copies_last) {
    TRY_ASSIGN(fresh, pool_->allocate(n_new + (copies_last ? 1 : 0)));
  }
  TRY(state_.reserve(n_rows, length()));

  // Nothing below this line can fail.
  pages_.adopt_storage(std::move(storage));
  if (copies_last) {
    replace_last_page(std::move(fresh.back()));
    fresh.pop_back();
  }
  for (KvPage& page : fresh) pages_.push_back(std::move(page));
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  is_reserved_ = true;
  return {};
}

bool KvCacheEntry::shares_last_page() const {
  return length() % kPagePositions > 0 && pages_[length() / kPagePositions].use_count() > 1;
}

void KvCacheEntry::replace_last_page(KvPage page) {
  const size_t last = length() / kPagePositions;
  pool_->copy_rows(pages_[last], page, length() % kPagePositions);
  CHECK(pages_.replace(last, page));
  ++pages_copied_;
}

Status KvCacheEntry::own_last_page() {
  if (!shares_last_page()) return {};
  TRY_ASSIGN(KvPage page, pool_->allocate());
  replace_last_page(std::move(page));
  return {};
}

void KvCacheEntry::store_rows(const Worker& worker, const Kernels& kernels, size_t layer, const float* k,
                              const float* v, size_t stride, size_t n_rows, FinishRow finish, void* context) {
  if (n_rows == 0) return;
  const size_t begin = length();
  const size_t end = begin + n_rows;
  CHECK_LT(layer, layout().n_layers());
  CHECK_LE(end, capacity()) << "append without reserve";
  CHECK(is_reserved_) << "append without reserve";
  if (worker.index() == 0) {
    for (size_t page = begin / kPagePositions; page < KvLayout::pages_for(end); ++page) {
      CHECK_EQ(pages_[page].use_count(), size_t{1}) << "append() must not write a shared page";
    }
    staged_[layer] = n_rows;
  }

  const KvLayer& kv = layout().layer(layer);
  const size_t first_group = begin / kKeyGroup;
  const size_t n_groups = (end - 1) / kKeyGroup - first_group + 1;
  const Range units = worker.share(kv.row.n_kv_heads * n_groups);
  for (size_t unit = units.begin; unit < units.end; ++unit) {
    const size_t head = unit / n_groups;
    const size_t group = first_group + unit % n_groups;
    std::byte* block = pages_.parts(group * kKeyGroup / kPagePositions).head(kv, head);
    const size_t group_end = std::min(end, (group + 1) * kKeyGroup);
    for (size_t position = std::max(begin, group * kKeyGroup); position < group_end; ++position) {
      finish(context, position - begin, head);
      const size_t offset = (position - begin) * stride + head * kv.row.head_dim;
      kernels.kv_store(kv.block, block, position % kPagePositions, k + offset, v + offset);
    }
  }
}

void KvCacheEntry::commit(TokenSpan tokens) {
  if (tokens.empty()) return;
  CHECK(is_reserved_) << "commit without reserve";
  for (size_t layer = 0; layer < staged_.size(); ++layer) {
    CHECK_EQ(staged_[layer], tokens.size()) << "rows staged in layer " << layer << ", tokens to commit";
    staged_[layer] = 0;
  }
  state_.commit(tokens.size(), length());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  rows_appended_ += tokens.size();
  // Keep the leases on the window parts (keys and values of sliding-window layers) that are needed if
  // slice_to_at_most() later removes positions of this pass, and up to 64 positions before it.
  pages_.return_before(layout().first_window_page(saturating_sub(length(), tokens.size() + kPagePositions)));
}

// Returns the last position <= n at which all keys and values of the sliding windows exist. Ignores recurrent states.
size_t KvCacheEntry::resumable_windows(size_t n) const {
  for (size_t missing = 0; n > 0; n = missing * kPagePositions) {
    if (pages_.have_windows(layout().first_window_page(n), KvLayout::pages_for(n), missing)) break;
  }
  return n;
}

size_t KvCacheEntry::resumable_length(size_t n) const {
  for (;;) {
    const size_t m = resumable_windows(state_.resumable_length(n, length()));
    if (m == n) return n;
    n = m;
  }
}

void KvCacheEntry::slice_to_length(size_t n) {
  CHECK_LE(n, length());
  const size_t kept = slice_to_at_most(n);
  CHECK_EQ(kept, n) << "slice_to_length() needs a resumable position";
}

size_t KvCacheEntry::slice_to_at_most(size_t n) {
  n = std::min(n, length());
  size_t first = 0;
  do {
    n = resumable_length(n);
    first = layout().first_window_page(n);
    // A window part was evicted after resumable_windows() had seen it, so try an earlier position.
  } while (!pages_.lease(first, KvLayout::pages_for(n)));
  state_.slice(n, length());
  tokens_.resize(n);
  pages_.resize(KvLayout::pages_for(n));
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  return n;
}

Result<KvCacheEntry> KvCacheEntry::fork() const {
  return guarded([&]() -> Result<KvCacheEntry> {
    KvCacheEntry copy(*pool_);
    copy.pages_ = pages_.fork(KvLayout::pages_for(length()));
    copy.tokens_ = tokens_;
    copy.state_ = state_.fork();
    return copy;
  });
}

Status KvCacheEntry::adopt(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states) {
  TRY(guarded([&]() -> Status {
    tokens_.reserve(tokens.size());
    hold(std::move(pages), tokens.size());
    return {};
  }));
  tokens_.assign(tokens.begin(), tokens.end());
  state_.begin(std::move(states), length());
  (void)slice_to_at_most(length());
  return {};
}

// Adds the pages of n_tokens positions to an empty entry; the caller sets the tokens. If std::bad_alloc is thrown,
// nothing has changed.
void KvCacheEntry::hold(std::vector<KvPage> pages, size_t n_tokens) {
  CHECK_EQ(pages_.size(), size_t{0}) << "adopt() needs an empty entry, not one of length " << length();
  CHECK_EQ(pages.size(), KvLayout::pages_for(n_tokens));
  pages_.adopt_storage(pages_.allocate_storage(pages.size()));
  pool_->offer_windows(pages);
  for (KvPage& page : pages) pages_.push_unleased(std::move(page));
}

Tokens KvCacheEntry::release() noexcept {
  pages_.clear();
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  state_.clear();
  return std::exchange(tokens_, {});
}

Status KvCacheEntry::take_up(std::vector<KvPage> pages, size_t n_tokens, Tokens& tokens,
                             std::vector<StateSnapshot> states) {
  CHECK_LE(n_tokens, tokens.size());
  TRY(guarded([&]() -> Status {
    hold(std::move(pages), n_tokens);
    return {};
  }));
  tokens_ = std::exchange(tokens, {});
  tokens_.resize(n_tokens);
  state_.begin(std::move(states), n_tokens);
  (void)slice_to_at_most(n_tokens);
  return {};
}

Status KvCacheEntry::adopt_more(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states) {
  const size_t n_before = length();
  const size_t n_full = n_before / kPagePositions;
  const size_t n_tokens = n_before + tokens.size();
  CHECK_EQ(n_full + pages.size(), KvLayout::pages_for(n_tokens));
  PageList replaced(*pool_);
  try {
    reserve_geometric(tokens_, n_tokens);
    if (layout().n_states() > 0) {
      states.insert(states.end(), state_.kept().begin(), state_.kept().end());
      if (n_before > 0) states.push_back(state_.now(n_before));
    }
    replaced.adopt_storage(replaced.allocate_storage(pages_.size() - n_full));
    pages_.adopt_storage(pages_.allocate_storage(n_full + pages.size()));
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "KV cache: no heap memory for " + std::to_string(n_tokens) + " positions"};
  }
  // Nothing below this line can fail.
  SequenceState state_before = std::exchange(state_, SequenceState(*pool_));
  pages_.move_tail(n_full, replaced);
  for (KvPage& page : pages) pages_.push_unleased(std::move(page));
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  state_.begin(std::move(states), n_tokens);
  if (resumable_length(n_tokens) <= n_before) {
    tokens_.resize(n_before);
    state_ = std::move(state_before);
    pages_.resize(n_full);
    pages_.take_back(replaced);
    return {};
  }
  (void)slice_to_at_most(n_tokens);
  pool_->offer_windows(pages_.pages().subspan(n_full));
  return {};
}

KvPage KvCacheEntry::share_page(size_t index, KvPage page) {
  CHECK_LE((index + 1) * kPagePositions, length());
  CHECK(static_cast<bool>(page));
  (void)pages_.replace(index, page);
  return page;
}

}  // namespace ibid
