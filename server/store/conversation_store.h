// ConversationStore: one SQLite database of all that the server keeps for its clients: responses, which a client
// continues by their id, conversations that are a resource of their own, and known histories (the token ids of the
// conversation of a client that sends its whole history each time).
//
// With a directory it is the file kStoreFileName in it (0600, and so are SQLite's -wal and -shm beside it). The file
// survives the process, and several processes may use it at once: a change is one short transaction, and waits for
// those of others for Database::kBusyTimeout at most. Without a directory it is in memory and ends with the process. A
// change is there whole or not at all, whatever fails; a power loss may take the last ones.
//
// Nothing is found across namespaces; of a namespace, which may be an API key, only a digest is written. All entries
// together have at most budget_bytes. The first to be removed for that is the least recently used one of the owner who
// has the most, within the API key that has the most (server/store/cache_namespace.h): no client pushes out another's.
// An entry carries a checksum: a damaged one is an error (kCorrupt) and never another text.
//
// Thread-safe. A change holds the lock of the writing connection as long as the disk takes. Changes are made on the
// writing thread of Conversations (Backend::write_behind()), for which no token and no other request waits; in two rare
// cases on a planning thread: files of an earlier version, and a known history that is not sound.
// Reads have a second connection, and wait for no change: handler threads and planning threads make them. A read is of
// a few rows and takes less than a millisecond. It waits longer in one case: another process was killed, and the log
// is being repaired. find_item() opens a connection of its own, because it searches all texts of a namespace.
// A read counts as a use of its entry, which is written with the next change.
//
// Errors of all calls that return a Status or a Result, besides those that are named: kIo, kCorrupt, kOutOfMemory; they
// name the file and have SQLite's words, and nothing has changed.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json_limits.h"
#include "base/result.h"
#include "server/store/kept_rows.h"

namespace ibid::serve {

struct StoredResponse {
  std::string id;
  std::string previous_id = {};      // the response that it continues; empty: none
  Json in_front = Json::array();     // all items before its own; they are kept with it where previous_id is gone
  Json items = Json::array();        // its own: those of its input, then those of its output
  size_t n_output = 0;               // of them
  std::string conversation_id = {};  // the conversation that has the items before it; empty: none
  std::string response = {};         // its object, as it was sent
};

struct StoredConversation {
  std::string id;
  int64_t created = 0;
  int64_t version = 0;  // changes of its items, counted by the store
  Json metadata = Json::object();
  Json items = Json::array();
};

// A known history as text. hashes: of each of its beginnings, the shortest first; it is found by those of at least
// `first` messages (0: by none).
struct StoredHistory {
  std::string name;
  int64_t numerics_version = 0;
  std::string text;
  std::vector<uint64_t> hashes = {};
  size_t first = 0;
};
struct FoundHistory {
  std::string name;
  size_t n = 0;  // messages that it has in common with the wanted history
};

struct HistoryStats {
  uint64_t n_kept = 0, n_bytes = 0;                     // now
  uint64_t n_written = 0, n_failed = 0, n_refused = 0;  // written, not written, not sound
};

class TakenConversation;

class ConversationStore {
 public:
  static constexpr uint64_t kDefaultBytes = 256u << 20;

  struct Options {
    std::string directory = {};  // this user's alone, made if need be; empty: in memory
    uint64_t budget_bytes = kDefaultBytes;
    std::function<void(const std::string&)> remark = {};  // a line for the log
    const char* vfs = nullptr;                            // of SQLite; tests have their own
  };
  // Errors: those of open_store_file() (server/store/store_file.h). A smaller budget than before holds at once.
  static Result<std::unique_ptr<ConversationStore>> open(Options options);
  // As open(). Where that fails, the error is a remark, and the store is in memory.
  static std::unique_ptr<ConversationStore> open_or_in_memory(Options options);
  ~ConversationStore();

  bool is_on_disk() const { return !options_.directory.empty(); }
  uint64_t budget_bytes() const { return options_.budget_bytes; }

  // --- responses

  // Error: kLimitExceeded: there is no room for it. The other responses stay then.
  Status put_response(const std::string& cache_namespace, const StoredResponse& response);
  // in_front: those of all responses that it continues. Error: kNotFound.
  Result<StoredResponse> find_response(const std::string& cache_namespace, const std::string& id);
  // The item of any response that has this id; null: no item has it.
  Result<Json> find_item(const std::string& cache_namespace, const std::string& item_id);
  // Those that continue it keep its items. Error: kNotFound.
  Status remove_response(const std::string& cache_namespace, const std::string& id);

  // --- conversations. Errors: kNotFound; kLimitExceeded: there is no room, and it is as before.

  Status create_conversation(const std::string& cache_namespace, const StoredConversation& conversation);
  Result<StoredConversation> find_conversation(const std::string& cache_namespace, const std::string& id);
  Status set_metadata(const std::string& cache_namespace, const std::string& id, const Json& metadata);
  Status remove_conversation(const std::string& cache_namespace, const std::string& id);
  // Takes it for a change of its items. Error: kBusy: it is taken in this process. REQUIRES: the store outlives the
  // result.
  Result<std::unique_ptr<TakenConversation>> take_conversation(const std::string& cache_namespace,
                                                               const std::string& id);

  // --- known histories

  // The start of the hashes of histories: secret, so that no client can make two meet, and the same in all processes.
  uint64_t hash_seed() const { return hash_seed_; }
  // Replaces the holder's history of the same name. Error: kLimitExceeded.
  Status put_history(const Holder& holder, const StoredHistory& history);
  // The one that shares most beginnings, more than n_known.
  Result<std::optional<FoundHistory>> find_history(const Holder& holder, std::span<const uint64_t> hashes,
                                                   size_t n_known);
  // Its text. It counts as no use: the next answer replaces it. Error: kNotFound.
  Result<std::string> read_history(const Holder& holder, const std::string& name);
  // Removes one that is of no use, and counts it as refused.
  Status refuse_history(const Holder& holder, const std::string& name);
  void count_refused() { ++n_refused_; }  // one that never was in the store
  // The numerics versions that histories were kept with, and how many with each.
  Result<std::vector<std::pair<int64_t, int64_t>>> history_versions();

  Status forget(const std::string& cache_namespace);  // all of a namespace
  void say(const Status& error) const;                // in a remark: clients get fewer words
  Result<uint64_t> bytes();                           // of all entries, as the budget counts them
  HistoryStats stats();                               // n_kept and n_bytes are 0 where they cannot be read

 private:
  friend class TakenConversation;
  struct Connection {
    std::mutex mutex;  // guards the rows
    std::unique_ptr<KeptRows> rows;
  };
  using Rows = std::vector<KeptRows::Row>;

  explicit ConversationStore(Options options) : options_(std::move(options)) {}
  // In memory there is one connection.
  Connection& reader() { return reader_.rows != nullptr ? reader_ : writer_; }
  Result<std::unique_ptr<KeptRows>> connect_to_read() const;
  // Runs `change` as one transaction, which its error undoes.
  Status write(const std::function<Status(KeptRows&)>& change);
  Status remove(Kept kind, const std::string& space, const std::string& name);
  Result<Rows> find(Kept kind, const std::string& space, const std::string& name);
  void count_use(int64_t id);

  const Options options_;
  uint64_t hash_seed_ = 0;
  Connection writer_, reader_;  // the second has no rows in memory
  std::mutex mutex_;            // guards what follows; is taken alone
  std::vector<int64_t> used_;   // rows that were read since the last change, the last of them last
  std::set<std::pair<std::string, std::string>> taken_;  // conversations: space, id
  std::atomic<uint64_t> n_written_{0}, n_failed_{0}, n_refused_{0};
};

// A conversation that nothing else in this process changes until this is committed or destroyed.
class TakenConversation {
 public:
  ~TakenConversation() { release(); }
  TakenConversation(const TakenConversation&) = delete;
  TakenConversation& operator=(const TakenConversation&) = delete;

  // As it was when it was taken.
  StoredConversation& conversation() { return conversation_; }
  // Ends it with these items. Ok where the conversation was removed meanwhile: then nothing is kept. Errors:
  // kLimitExceeded; kBusy: another process has changed it meanwhile. REQUIRES: is called once.
  Status commit(const Json& items);

 private:
  friend class ConversationStore;
  TakenConversation(ConversationStore& store, Holder holder, std::string id)
      : store_(&store), holder_(std::move(holder)), conversation_{.id = std::move(id)} {}
  void release();

  ConversationStore* store_;  // nullptr: it is over
  const Holder holder_;
  StoredConversation conversation_;
};

}  // namespace ibid::serve
