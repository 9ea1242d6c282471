#include "cache/tier/record_store.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"

namespace ibid {

namespace {

// A byte each of kind, n_front and number of tokens; the name; the tokens.
constexpr size_t kFixedBytes = 3 + sizeof(PageName);
constexpr size_t kMostPageIds = 2 * kPagePositions - 1;

}  // namespace

std::vector<std::byte> RecordTail::encode() const {
  CHECK(n_front < kPagePositions && page_ids.size() <= kMostPageIds);
  std::vector<std::byte> bytes(kFixedBytes + page_ids.size() * sizeof(TokenId));
  bytes[0] = static_cast<std::byte>(kind);
  bytes[1] = static_cast<std::byte>(n_front);
  bytes[2] = static_cast<std::byte>(page_ids.size());
  std::ranges::copy(name.bytes, bytes.begin() + 3);
  if (!page_ids.empty()) std::memcpy(bytes.data() + kFixedBytes, page_ids.data(), page_ids.size() * sizeof(TokenId));
  return bytes;
}

std::optional<RecordTail> RecordTail::parse(std::span<const std::byte> bytes) {
  if (bytes.size() < kFixedBytes) return std::nullopt;
  const auto kind = static_cast<size_t>(bytes[0]), n_front = static_cast<size_t>(bytes[1]);
  const auto n_ids = static_cast<size_t>(bytes[2]);
  const bool is_page = kind == static_cast<size_t>(KvRecordKind::kPage);
  if (!is_page && kind != static_cast<size_t>(KvRecordKind::kState)) return std::nullopt;
  if (n_front >= kPagePositions || n_ids > (is_page ? kPagePositions : kMostPageIds)) return std::nullopt;
  if ((is_page && (n_front != 0 || n_ids == 0)) || n_front > n_ids || n_ids > n_front + kPagePositions)
    return std::nullopt;
  if (bytes.size() != kFixedBytes + n_ids * sizeof(TokenId)) return std::nullopt;
  RecordTail tail{static_cast<KvRecordKind>(kind), {}, n_front, Tokens(n_ids)};
  std::ranges::copy(bytes.subspan(3, sizeof(PageName)), tail.name.bytes.begin());
  if (n_ids > 0) std::memcpy(tail.page_ids.data(), bytes.data() + kFixedBytes, n_ids * sizeof(TokenId));
  return tail;
}

}  // namespace ibid
