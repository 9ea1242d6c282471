// KeptRows: the entries of a ConversationStore as rows of its database: a checksum of each, the order of their uses,
// and the budget that they share.
//
// Not thread-safe: the store has a lock. Calls that write are made within a Transaction of the caller's. Errors of all:
// those of Database, and kCorrupt for a row whose checksum is of other texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "server/store/database.h"

namespace ibid::serve {

// Whose an entry is: digests, as digits, of its namespace, of the owner and of the API key that this lies within.
struct Holder {
  std::string space, owner, key;
};
Holder holder_of(std::string_view cache_namespace);

enum class Kept : int64_t { kResponse = 1, kConversation = 2, kHistory = 3 };

class KeptRows {
 public:
  struct Row {
    Kept kind = Kept::kResponse;
    std::string name;
    int64_t created = 0;
    int64_t version = 0;        // of a conversation: how often its items were changed; of a history: its numerics
    std::string previous = {};  // of a response: the one that it goes on from,
    std::string talk = {};      // the conversation that it belongs to,
    int64_t n_output = 0;       // and how many of its items are its output
    std::string items = {}, body = {};
    size_t n_places = 0;        // by which a history is found
  };
  struct Found {
    int64_t id = 0;
    Row row;
  };

  KeptRows(std::unique_ptr<Database> db, std::string path, uint64_t budget_bytes)
      : db_(std::move(db)), path_(std::move(path)), budget_bytes_(budget_bytes) {}

  Database& db() { return *db_; }
  uint64_t budget_bytes() const { return budget_bytes_; }

  // Writes a row in place of the holder's of the same kind and name, and removes others until the budget holds. Returns
  // its id. Error: kLimitExceeded, as make_room().
  Result<int64_t> put(const Holder& holder, const Row& row);
  // The same of a row that there is: its version and texts are written.
  Status update(const Found& found);
  // A response that is not gone, and any other row. Error: kNotFound.
  Result<Found> find(Kept kind, const std::string& space, const std::string& name);
  // The texts of a row whose checksum, items and body are the columns 0 to 2.
  Status read_texts(const Database::Rows& rows, Row& row) const;
  // Removes a row. A response that others go on from is gone, and keeps its items for them.
  Status remove(int64_t id);
  // Counts as a use. A failure costs the row its place in the order of uses, and nothing else.
  void touch(int64_t id);

  // Removes what the budget has no room for: the least recently used rows of the owner who has the most, within the key
  // that has the most; where for_row is all that this owner has, of the key. Error: kLimitExceeded: then it is all that
  // the key has.
  Status make_room(int64_t for_row);
  Status corrupt(const std::string& what) const { return {ErrorCode::kCorrupt, path_ + ": " + what}; }

 private:
  Result<int64_t> next_use() { return db_->number(0, "update store set used = used + 1 returning used"); }
  Status drop_unneeded(const std::string& space, std::string name);

  const std::unique_ptr<Database> db_;
  const std::string path_;
  const uint64_t budget_bytes_;
};

}  // namespace ibid::serve
