#include "runtime/forward_queue.h"

#include <algorithm>

namespace ibid {

Status ForwardQueue::forward(std::span<const SequenceChunk> batch, std::stop_token stop, Logits& logits) {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  const bool first = moved_.wait(lock, stop, [&] { return waiting_.front() == ticket; });
  if (!first) {
    waiting_.erase(std::find(waiting_.begin(), waiting_.end(), ticket));
    moved_.notify_all();
    return {ErrorCode::kCancelled, "cancelled while waiting for the model"};
  }
  lock.unlock();
  Status status = model_.forward(batch, stop, logits);
  lock.lock();
  waiting_.pop_front();
  moved_.notify_all();
  return status;
}

}  // namespace ibid
