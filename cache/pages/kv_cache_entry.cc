#include "cache/pages/kv_cache_entry.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

namespace {

// Doubles, so that decoding one token at a time costs O(1) each.
template <typename T>
void reserve_geometric(std::vector<T>& items, size_t n) {
  if (n > items.capacity()) items.reserve(std::max(n, 2 * items.capacity()));
}

// Short enough for the string to need no memory.
Status out_of_heap() { return {ErrorCode::kOutOfMemory, "no heap memory"}; }

}  // namespace

Status KvCacheEntry::reserve(size_t n_rows) {
  try {
    return reserve_or_throw(n_rows);
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
}

Status KvCacheEntry::reserve_or_throw(size_t n_rows) {
  const std::optional<size_t> rows = checked_add(length(), n_rows);
  if (!rows || KvLayout::pages_for(*rows) > pool_->budget_pages()) {
    return {ErrorCode::kOutOfMemory, "KV cache: " + std::to_string(n_rows) + " positions after " +
                                         std::to_string(length()) + " need more than the budget of " +
                                         std::to_string(pool_->budget_bytes()) + " bytes (" +
                                         std::to_string(pool_->budget_pages()) + " pages of 64 positions)"};
  }
  const size_t n_pages = KvLayout::pages_for(*rows);
  const size_t last_rows = length() % kPagePositions;
  const size_t last = length() / kPagePositions;
  const bool copies_last = n_rows > 0 && last_rows > 0 && pages_[last].use_count() > 1;
  const size_t n_new = n_pages - std::min(n_pages, pages_.size());

  // The lists are made first: what the pool evicts for us would be gone even if we failed afterwards.
  std::vector<const std::byte*> page_data;  // apart, because page_data() moves only when nothing fails any more
  staged_.resize(layout().n_layers());
  reserve_geometric(tokens_, *rows);
  reserve_geometric(pages_, n_pages);
  const bool moves_data = n_pages > page_data_.capacity();
  if (moves_data) {
    page_data.reserve(std::max(n_pages, 2 * page_data_.capacity()));
    page_data.assign(page_data_.begin(), page_data_.end());
  }
  std::vector<KvPage> fresh;
  if (n_new > 0 || copies_last) {
    TRY_ASSIGN(fresh, pool_->allocate(n_new + (copies_last ? 1 : 0)));
  }
  TRY(state_.reserve(n_rows, length()));

  // Nothing below fails.
  if (moves_data) page_data_ = std::move(page_data);
  if (copies_last) {
    pool_->copy_rows(pages_[last], fresh.back(), last_rows);
    pages_[last] = std::move(fresh.back());
    page_data_[last] = pages_[last].data();
    fresh.pop_back();
    ++pages_copied_;
  }
  for (KvPage& page : fresh) {
    page_data_.push_back(page.data());
    pages_.push_back(std::move(page));
  }
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  is_reserved_ = true;
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
      CHECK_EQ(pages_[page].use_count(), size_t{1}) << "append into a shared page, without reserve";
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
    std::byte* block = pages_[group * kKeyGroup / kPagePositions].data() + kv.head_offset(head);
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
}

void KvCacheEntry::slice_to_length(size_t n) {
  CHECK_LE(n, length());
  n = resumable_length(n);
  state_.cut(n, length());
  tokens_.resize(n);
  pages_.resize(KvLayout::pages_for(n));
  page_data_.resize(pages_.size());
  std::fill(staged_.begin(), staged_.end(), size_t{0});
}

Result<KvCacheEntry> KvCacheEntry::fork() const {
  KvCacheEntry copy(*pool_);
  try {
    const auto n_pages = static_cast<ptrdiff_t>(KvLayout::pages_for(length()));
    copy.pages_.assign(pages_.begin(), pages_.begin() + n_pages);
    copy.page_data_.assign(page_data_.begin(), page_data_.begin() + n_pages);
    copy.tokens_ = tokens_;
    copy.state_ = state_.fork();
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
  return copy;
}

Status KvCacheEntry::adopt(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states) {
  try {
    tokens_.reserve(tokens.size());
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
  TRY(hold(std::move(pages), tokens.size()));
  tokens_.assign(tokens.begin(), tokens.end());
  state_.begin(std::move(states), length());
  return {};
}

// The pages of n_tokens positions, whose ids the caller sets.
Status KvCacheEntry::hold(std::vector<KvPage> pages, size_t n_tokens) {
  CHECK(pages_.empty()) << "adopt into an entry of length " << length();
  CHECK_EQ(pages.size(), KvLayout::pages_for(n_tokens));
  try {
    page_data_.reserve(pages.size());
  } catch (const std::bad_alloc&) {
    return out_of_heap();
  }
  page_data_.clear();
  for (const KvPage& page : pages) page_data_.push_back(page.data());
  pages_ = std::move(pages);
  return {};
}

Tokens KvCacheEntry::release() noexcept {
  pages_.clear();
  page_data_.clear();
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  state_.clear();
  return std::exchange(tokens_, {});
}

Status KvCacheEntry::take_up(std::vector<KvPage> pages, size_t n_tokens, Tokens& tokens,
                             std::vector<StateSnapshot> states) {
  CHECK_LE(n_tokens, tokens.size());
  TRY(hold(std::move(pages), n_tokens));
  tokens_ = std::exchange(tokens, {});
  tokens_.resize(n_tokens);
  state_.begin(std::move(states), n_tokens);
  return {};
}

Status KvCacheEntry::adopt_more(std::vector<KvPage> pages, TokenSpan tokens, std::vector<StateSnapshot> states) {
  const size_t n_full = length() / kPagePositions;
  const size_t n_tokens = length() + tokens.size();
  CHECK_EQ(n_full + pages.size(), KvLayout::pages_for(n_tokens));
  try {
    reserve_geometric(tokens_, n_tokens);
    reserve_geometric(pages_, n_full + pages.size());
    reserve_geometric(page_data_, n_full + pages.size());
  } catch (const std::bad_alloc&) {
    return {ErrorCode::kOutOfMemory, "KV cache: no heap memory for " + std::to_string(n_tokens) + " positions"};
  }
  // Nothing below fails.
  pages_.resize(n_full);
  page_data_.resize(n_full);
  for (KvPage& page : pages) {
    page_data_.push_back(page.data());
    pages_.push_back(std::move(page));
  }
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  std::fill(staged_.begin(), staged_.end(), size_t{0});
  state_.begin(std::move(states), length());
  return {};
}

KvPage KvCacheEntry::share_page(size_t index, KvPage page) {
  CHECK_LE((index + 1) * kPagePositions, length());
  CHECK(static_cast<bool>(page));
  page_data_[index] = page.data();
  std::swap(pages_[index], page);
  return page;
}

}  // namespace ibid
