#include "cache/pages/page_list.h"

#include <algorithm>
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

PageList::Room PageList::make_room(size_t n) {
  Room room;
  reserve_geometric(pages_, n);
  if (has_windows()) reserve_geometric(leases_, n);
  room.moves = n > data_[0].capacity();
  if (!room.moves) return room;
  for (size_t part = 0; part < kPageParts; ++part) {
    room.data[part].reserve(std::max(n, 2 * data_[part].capacity()));
    room.data[part].assign(data_[part].begin(), data_[part].end());
  }
  return room;
}

void PageList::use(Room room) noexcept {
  if (room.moves) data_ = std::move(room.data);
}

void PageList::set_data(size_t i) noexcept {
  data_[0][i] = pages_[i].data();
  data_[1][i] = has_windows() && leases_[i] ? pages_[i].parts().window : nullptr;
}

void PageList::push_found(KvPage page) noexcept {
  pages_.push_back(std::move(page));
  for (auto& part : data_) part.push_back(nullptr);
  if (has_windows()) leases_.emplace_back();
  set_data(pages_.size() - 1);
}

void PageList::push_back(KvPage page) noexcept {
  push_found(std::move(page));
  if (!has_windows()) return;
  leases_.back() = pool_->lease_window(pages_.back());
  CHECK(static_cast<bool>(leases_.back())) << "a new page without its window";
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
  for (size_t i = end; i > first; --i) {
    if (leases_[i - 1]) continue;
    leases_[i - 1] = pool_->lease_window(pages_[i - 1]);
    if (!leases_[i - 1]) {
      // Those that were leased before are the last ones; what this call leased in front of them is returned.
      for (size_t j = i; j < std::min(first_leased_, end); ++j) leases_[j].return_unused();
      return false;
    }
  }
  for (size_t i = first; i < end; ++i) set_data(i);
  first_leased_ = std::min(first_leased_, first);
  return_before(first);
  return true;
}

void PageList::return_before(size_t first) noexcept {
  if (!has_windows()) return;
  for (; first_leased_ < std::min(first, size()); ++first_leased_) {
    leases_[first_leased_].return_behind();
    set_data(first_leased_);
  }
}

}  // namespace ibid
