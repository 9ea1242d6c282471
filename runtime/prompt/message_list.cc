#include "runtime/prompt/message_list.h"

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/check.h"
#include "base/growth.h"

namespace ibid {
namespace {

uint64_t new_stamp() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

}  // namespace

MessageList::MessageList(Json messages) {
  CHECK(messages.is_array());
  reserve(messages.size());
  while (stamps_.size() < messages.size()) stamps_.push_back(new_stamp());
  messages_ = std::move(messages);
}

void MessageList::reserve(size_t n) {
  reserve_geometric(messages_.get_ref<Json::array_t&>(), n);
  reserve_geometric(stamps_, n);
}

void MessageList::push_back(Json message) {
  reserve(size() + 1);
  messages_.push_back(std::move(message));
  stamps_.push_back(new_stamp());
}

MessageList::Tail MessageList::replace_from(size_t n_kept, std::vector<Json> added) {
  CHECK_LE(n_kept, size());
  Tail tail;
  tail.messages.reserve(size() - n_kept);
  tail.stamps.assign(stamps_.begin() + static_cast<std::ptrdiff_t>(n_kept), stamps_.end());
  reserve(n_kept + added.size());
  // Nothing below allocates.
  auto& array = messages_.get_ref<Json::array_t&>();
  for (size_t i = n_kept; i < array.size(); ++i) tail.messages.push_back(std::move(array[i]));
  array.resize(n_kept);
  stamps_.resize(n_kept);
  for (Json& message : added) {
    array.push_back(std::move(message));
    stamps_.push_back(new_stamp());
  }
  return tail;
}

void MessageList::put_back(size_t n_kept, Tail tail) noexcept {
  auto& array = messages_.get_ref<Json::array_t&>();
  array.resize(n_kept);
  stamps_.resize(n_kept);
  for (Json& message : tail.messages) array.push_back(std::move(message));
  stamps_.insert(stamps_.end(), tail.stamps.begin(), tail.stamps.end());
}

size_t n_common_messages(const MessageStamps& a, const MessageStamps& b) {
  size_t low = 0;
  for (size_t high = std::min(a.size(), b.size()); low < high;) {
    const size_t middle = high - (high - low) / 2;
    if (a[middle - 1] == b[middle - 1]) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace ibid
