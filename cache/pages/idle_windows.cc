#include "cache/pages/idle_windows.h"

#include <utility>

#include "base/check.h"

namespace ibid {

void IdleWindows::push(PageWindow& window) {
  CHECK(!window.is_idle && window.n_leases == 0 && window.memory != nullptr);
  window.is_idle = true;
  window.list_ = list_of(window);
  Ends& list = ends_[window.list_];
  window.older_ = std::exchange(list.youngest, &window);
  window.younger_ = nullptr;
  (window.older_ != nullptr ? window.older_->younger_ : list.oldest) = &window;
  ++list.size;
}

void IdleWindows::remove(PageWindow& window) {
  CHECK(window.is_idle);
  window.is_idle = false;
  Ends& list = ends_[window.list_];
  (window.older_ != nullptr ? window.older_->younger_ : list.oldest) = window.younger_;
  (window.younger_ != nullptr ? window.younger_->older_ : list.youngest) = window.older_;
  --list.size;
}

void IdleWindows::update(PageWindow& window) {
  if (!window.is_idle || window.list_ == list_of(window)) return;
  remove(window);
  push(window);
}

PageWindow* IdleWindows::first(List list) const {
  PageWindow* window = ends_[list].oldest;
  while (window != nullptr && window->n_readers > 0) window = window->younger_;
  return window;
}

}  // namespace ibid
