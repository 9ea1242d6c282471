#include "base/arena.h"

#include <sys/mman.h>

#include <string>
#include <utility>

#include "base/check.h"
#include "base/checked.h"

namespace ibid {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;

Status out_of_memory(size_t bytes) {
  return {ErrorCode::kOutOfMemory, "cannot map " + std::to_string(bytes) + " bytes of memory"};
}

}  // namespace

Result<Arena> Arena::create(size_t capacity_bytes) {
  Arena arena;
  if (capacity_bytes == 0) return arena;
  const std::optional<size_t> capacity = checked_align(capacity_bytes, kCacheLine);
  // A capacity below one huge page gets no huge page alignment, which would only waste memory.
  const bool huge = capacity_bytes >= kHugePage;
  const std::optional<size_t> mapped = checked_align(capacity_bytes, huge ? kHugePage : size_t{4096});
  const std::optional<size_t> wanted = mapped ? checked_add(*mapped, huge ? kHugePage : 0) : std::nullopt;
  if (!capacity || !wanted) return out_of_memory(capacity_bytes);

  void* memory = ::mmap(nullptr, *wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return out_of_memory(capacity_bytes);
  auto* base = static_cast<std::byte*>(memory);
  if (huge) {
    // One huge page more than needed was mapped: trim both ends so that the rest starts on a huge page boundary.
    const size_t head = (kHugePage - reinterpret_cast<uintptr_t>(base) % kHugePage) % kHugePage;
    if (head > 0) ::munmap(base, head);
    if (head < kHugePage) ::munmap(base + head + *mapped, kHugePage - head);
    base += head;
    // madvise() fails if the kernel has no huge pages: 4 KB pages work as well, 4 to 20 % slower.
    ::madvise(base, *mapped, MADV_HUGEPAGE);
  }
  arena.base_ = base;
  arena.capacity_ = *capacity;
  arena.mapped_bytes_ = *mapped;
  forbid_memory(base, *mapped);
  return arena;
}

Arena::Arena(Arena&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)),
      used_(std::exchange(other.used_, 0)),
      mapped_bytes_(std::exchange(other.mapped_bytes_, 0)) {}

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  std::swap(mapped_bytes_, other.mapped_bytes_);
  return *this;
}

Arena::~Arena() {
  if (base_ == nullptr) return;
  allow_memory(base_, mapped_bytes_);
  ::munmap(base_, mapped_bytes_);
}

std::byte* Arena::allocate(size_t bytes) {
  // Checks the unpadded size first, because the padded one could overflow.
  CHECK_LE(bytes, capacity_ - used_) << "bytes left in the arena";
  CHECK_LE(padded(bytes), capacity_ - used_) << "bytes left in the arena";
  std::byte* piece = base_ + used_;
  used_ += padded(bytes);
  allow_memory(piece, bytes);
  return piece;
}

}  // namespace ibid
