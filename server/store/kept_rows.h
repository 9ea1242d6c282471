// KeptRows: where a ConversationStore has its entries: in an SQLite database (server/store/sqlite_rows.h), or on a
// key-value server that nodes share (server/store/shared_rows.h). Each entry belongs to a namespace, which is written
// as a digest only. All entries share one budget.
//
// Thread-safe, if the implementation does not restrict it. Errors of all calls: kIo: the disk fails, or the server
// cannot be reached; kCorrupt: stored data is not what was written; kOutOfMemory. Nothing has changed then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace ibid::serve {

// The owner of an entry: hexadecimal digests of its namespace, and of the namespace's owner and API key.
struct Holder {
  std::string space, owner, key;
};
Holder holder_of(std::string_view cache_namespace);

enum class Kept : int64_t { kResponse = 1, kConversation = 2, kHistory = 3 };

struct FoundHistory {
  std::string name;
  size_t n = 0;  // number of messages that it shares with the wanted history
};

// The error kLimitExceeded of an entry that does not fit.
Status store_is_full(uint64_t budget_bytes);

class KeptRows {
 public:
  // The name of an entry within all entries.
  struct Key {
    Kept kind = Kept::kResponse;
    std::string space, name;
    bool operator==(const Key&) const = default;
  };
  struct Row {
    Kept kind = Kept::kResponse;
    std::string name;
    int64_t created = 0;
    int64_t version = 0;            // conversation: number of changes of its items; history: its numerics version
    std::string previous = {};      // response: name of the response that it continues; empty: none
    std::string conversation = {};  // response: id of its conversation
    int64_t n_output = 0;           // response: number of output items, which are the last of its items
    std::string items = {}, body = {};
    std::vector<std::string> item_ids = {};  // response: ids of its items
    std::vector<uint64_t> hashes = {};       // history: of its prefixes, the shortest first
    size_t first = 0;                        // history: found by prefixes of at least this length; 0: never found

    // Size that the budget counts.
    int64_t n_bytes() const;
  };
  struct Sizes {
    uint64_t n_bytes = 0;  // of all entries
    uint64_t n_histories = 0, history_bytes = 0;
  };

  // The operations of a change, in one transaction.
  class Change {
   public:
    virtual ~Change() = default;
    // Returns an entry. Error: kNotFound.
    virtual Result<Row> row(const Key& key) = 0;
    // True if a response may continue this one: it is stored, or was removed while others continue it.
    virtual Result<bool> can_continue(const std::string& space, const std::string& name) = 0;
    // Inserts an entry, or replaces the holder's entry of the same kind and name, and evicts others as make_room().
    // REQUIRES: can_continue(row.previous), unless that is empty.
    virtual Status put(const Holder& holder, const Row& row) = 0;
    // Removes an entry. A removed response is not found any more, but its items stay while another response continues
    // it. Error: kNotFound.
    virtual Status remove(const Key& key) = 0;
    // Marks an entry as the most recently used one. Does nothing if there is no such entry.
    virtual Status touch(const Key& key) = 0;
    // Removes entries of a namespace. True if there are more, so that the next change must go on.
    virtual Result<bool> forget(const std::string& space) = 0;
    // Evicts entries until the budget holds, but never the one that was put last. Chooses the API key with the most
    // bytes, the owner of that key with the most bytes, and the least recently used entry of that owner; if the owner
    // has only the entry that was put, another owner of the key. Error: kLimitExceeded if the key has no other entry.
    virtual Status make_room() = 0;
  };

  virtual ~KeptRows() = default;
  // Runs `change` as one transaction, which is rolled back if it returns an error. May call it several times, if others
  // make changes at the same time; only the last call counts.
  virtual Status change(const std::function<Status(Change&)>& change) = 0;

  // Returns an entry as the last element, after the responses that it continues. Error: kNotFound.
  virtual Result<std::vector<Row>> find(const Key& key) = 0;
  // Calls visit(row) for the responses that may have an item with this id, until it returns true.
  virtual Status visit_responses(const std::string& space, const std::string& item_id,
                                 const std::function<Result<bool>(const Row&)>& visit) = 0;
  // Returns the history that is found by the longest prefix, if that has more than n_known messages.
  virtual Result<std::optional<FoundHistory>> find_history(const std::string& space, std::span<const uint64_t> hashes,
                                                           size_t n_known) = 0;
  // Returns the numerics versions of the stored histories, and the number of histories with each version; empty if
  // programs of several versions share the entries.
  virtual Result<std::vector<std::pair<int64_t, int64_t>>> history_versions() = 0;
  virtual Result<Sizes> sizes() = 0;
  // The sizes for reports, without waiting for a server.
  virtual Sizes known_sizes() = 0;

  // A secret number, the same for all programs that share the entries.
  virtual uint64_t hash_seed() const = 0;
  // True if the entries outlive the process.
  virtual bool is_lasting() const = 0;
};

}  // namespace ibid::serve
