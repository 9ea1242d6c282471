#include "server/store/kept_rows.h"

#include "base/sha256.h"
#include "cache/tier/kv_record.h"
#include "server/store/cache_namespace.h"

namespace ibid::serve {

Holder holder_of(std::string_view cache_namespace) {
  const auto digits = [](std::string_view name) { return to_hex(digest_of_namespace(name)); };
  return {digits(cache_namespace), digits(owner_of_namespace(cache_namespace)),
          digits(key_of_namespace(cache_namespace))};
}

int64_t KeptRows::Row::n_bytes() const {
  // Estimates for SQLite: a row of the table `kept` without its texts, and a row of the table `place`.
  constexpr size_t kRowBytes = 512, kPlaceBytes = 48;
  return static_cast<int64_t>(kRowBytes + name.size() + conversation.size() + items.size() + body.size() +
                              hashes.size() * kPlaceBytes);
}

Status store_is_full(uint64_t budget_bytes) {
  return {ErrorCode::kLimitExceeded,
          "the conversation store is full: its limit is " + std::to_string(budget_bytes) + " bytes"};
}

}  // namespace ibid::serve
