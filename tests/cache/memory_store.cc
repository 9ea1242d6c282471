#include "tests/cache/memory_store.h"

#include <algorithm>

namespace ibid {

Status MemoryStore::begin_call() {
  ++n_calls;
  return fails ? Status(ErrorCode::kIo, "the server cannot be reached") : Status();
}

bool MemoryStore::wait_for_record(ReadTimer& timer) {
  if (timer.is_over()) return false;
  const int64_t left_ns = timer.left().count(), wanted_ns = record_ns;
  if (wanted_ns > 0) advance(std::min(left_ns, wanted_ns));
  return wanted_ns <= left_ns;
}

Status MemoryStore::get(std::span<const PageName> names, ReadTimer& timer, const Take& take) {
  TRY(begin_call());
  ++n_gets;
  for (size_t i = 0; i < names.size(); ++i) {
    std::vector<std::byte> record;
    {
      const std::lock_guard lock(mutex_);
      auto found = records_.find(names[i]);
      if (found != records_.end() && lies) {
        found = std::next(records_.begin(), static_cast<ptrdiff_t>(++n_lies_ * 7 % records_.size()));
      }
      if (found == records_.end()) return {};
      record = found->second;
    }
    if (!wait_for_record(timer)) return {};
    if (!take(i, record)) return {};
  }
  return {};
}

Status MemoryStore::put(const PageName& name, Pieces pieces, bool replaces) {
  TRY(begin_call());
  if (is_full) return {ErrorCode::kLimitExceeded, "the server is full"};
  std::vector<std::byte> record;
  for (const std::span<const std::byte> piece : pieces) record.insert(record.end(), piece.begin(), piece.end());
  const std::lock_guard lock(mutex_);
  if (replaces) {
    records_.insert_or_assign(name, std::move(record));
  } else {
    records_.emplace(name, std::move(record));
  }
  return {};
}

Status MemoryStore::remove(const PageName& name, ReadTimer&) {
  TRY(begin_call());
  const std::lock_guard lock(mutex_);
  records_.erase(name);
  return {};
}

Result<std::vector<std::vector<std::byte>>> MemoryStore::tails(const PageName& name, ReadTimer& timer) {
  TRY(begin_call());
  if (timer.is_over()) return {ErrorCode::kDeadline, "no answer"};
  const std::lock_guard lock(mutex_);
  const auto found = tails_.find(name);
  if (found == tails_.end()) return std::vector<std::vector<std::byte>>();
  return std::vector<std::vector<std::byte>>(found->second.begin(), found->second.end());
}

Status MemoryStore::add_tail(const PageName& name, std::span<const std::byte> tail) {
  TRY(begin_call());
  const std::lock_guard lock(mutex_);
  std::deque<std::vector<std::byte>>& tails = tails_[name];
  tails.emplace_front(tail.begin(), tail.end());
  if (tails.size() > kMostTails) tails.pop_back();
  return {};
}

Result<uint64_t> MemoryStore::epoch(const Sha256Digest& name_space, ReadTimer& timer) {
  TRY(begin_call());
  if (timer.is_over()) return {ErrorCode::kDeadline, "no answer"};
  const std::lock_guard lock(mutex_);
  const auto found = epochs_.find(name_space);
  return found == epochs_.end() ? 0 : found->second;
}

Status MemoryStore::raise_epoch(const Sha256Digest& name_space, uint64_t epoch) {
  TRY(begin_call());
  const std::lock_guard lock(mutex_);
  uint64_t& stored = epochs_[name_space];
  stored = std::max(stored, epoch);
  return {};
}

size_t MemoryStore::size() const {
  const std::lock_guard lock(mutex_);
  return records_.size();
}

void MemoryStore::forget_epochs() {
  const std::lock_guard lock(mutex_);
  epochs_.clear();
}

void MemoryStore::forget_records() {
  const std::lock_guard lock(mutex_);
  records_.clear();
  tails_.clear();
}

void MemoryStore::merge(const MemoryStore& other) {
  const std::scoped_lock lock(mutex_, other.mutex_);
  records_.insert(other.records_.begin(), other.records_.end());
  for (const auto& [name, tails] : other.tails_) tails_[name].insert(tails_[name].end(), tails.begin(), tails.end());
  for (const auto& [name_space, epoch] : other.epochs_) epochs_[name_space] = std::max(epochs_[name_space], epoch);
}

void MemoryStore::change_all(const std::function<void(std::vector<std::byte>&)>& change) {
  const std::lock_guard lock(mutex_);
  for (auto& [name, record] : records_) change(record);
}

void MemoryStore::damage(size_t first_position) {
  change_all([&](std::vector<std::byte>& record) {
    const KvRecordHeader header = *parse_kv_record_header(record);
    if (header.kind == KvRecordKind::kPage && header.first_position == first_position) record.back() ^= std::byte{1};
  });
}

}  // namespace ibid
