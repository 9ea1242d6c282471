// RecordStore: storage of records by name that several nodes share, such as a server: the part of a RecordTier
// (cache/tier/record_tier.h) that differs between storages. It has names and bytes, and neither texts nor layouts.
//
// Nothing that it returns is trusted: the tier verifies all of it. Thread-safe. Calls may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "cache/tier/kv_record.h"
#include "cache/tier/kv_tier.h"
#include "cache/tier/page_name.h"
#include "ibid/token.h"

namespace ibid {

// Errors of all calls: kIo if the storage cannot be reached or fails; kDeadline if the timer is over; kLimitExceeded if
// the storage is full, which leaves it as it was.
class RecordStore {
 public:
  // Number of tails kept for one name.
  static constexpr size_t kMostTails = 8;

  RecordStore(const RecordStore&) = delete;
  RecordStore& operator=(const RecordStore&) = delete;
  virtual ~RecordStore() = default;

  // Takes record i of the wanted ones; returns false to end the call. The bytes exist until it returns.
  using Take = std::function<bool(size_t i, std::span<const std::byte> record)>;
  // Gets records and passes them to `take` in the order of their names, while later ones are on the way already. Ends
  // without an error at the first record that is missing. Ends when the timer is over; `take` tells the timer of each
  // page.
  virtual Status get(std::span<const PageName> names, ReadTimer& timer, const Take& take) = 0;

  using Pieces = std::span<const std::span<const std::byte>>;
  // Stores the pieces as one record. replaces: whether it replaces a record of this name.
  virtual Status put(const PageName& name, Pieces pieces, bool replaces) = 0;
  // Removes a record if it exists.
  virtual Status remove(const PageName& name, ReadTimer& timer) = 0;

  // Tails are short texts by name: the last kMostTails that were added, the newest first.
  virtual Result<std::vector<std::vector<std::byte>>> tails(const PageName& name, ReadTimer& timer) = 0;
  virtual Status add_tail(const PageName& name, std::span<const std::byte> tail) = 0;

  // The epoch of a namespace (KvPageIdentity); 0: it has none.
  virtual Result<uint64_t> epoch(const Sha256Digest& name_space, ReadTimer& timer) = 0;
  // Sets the epoch of a namespace, unless it is larger already.
  virtual Status raise_epoch(const Sha256Digest& name_space, uint64_t epoch) = 0;

 protected:
  RecordStore() = default;
};

// A record after a text that its name alone does not find: a page that a prompt shares only in part, or a state. It is
// kept as a tail of the text before its page.
struct RecordTail {
  KvRecordKind kind = KvRecordKind::kPage;
  PageName name;       // of the record, without its epoch
  size_t n_front = 0;  // of a state: number of tokens from the beginning of the page to its position
  Tokens page_ids;     // at most 127 tokens from the beginning of the page on; not empty for a page

  std::vector<std::byte> encode() const;
  // nullopt for bytes that encode() does not return.
  static std::optional<RecordTail> parse(std::span<const std::byte> bytes);
};

}  // namespace ibid
