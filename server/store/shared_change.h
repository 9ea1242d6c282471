// SharedChange: one change of the entries on a shared server, as an optimistic transaction: WATCH of the root, reads,
// and all writes at once in MULTI ... EXEC, which the server refuses if the root was written meanwhile. Until commit()
// writes are kept here, and later reads of the same change see them.
//
// The server may lose single keys (a memory policy that evicts any key). Sums of bytes are then corrected when the
// entries that they count are evicted. An entry whose info cannot be read counts as lost.
//
// SharedSession: one connection for the calls of a change or a read. For one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "net/shared_server.h"
#include "server/store/shared_records.h"

namespace ibid::serve {

class SharedSession {
 public:
  // Errors, here and below: kIo, with the reason, if the server cannot be reached, is too slow or refuses a command;
  // kLimitExceeded if it is full; kCorrupt, kUnsupportedVersion for records that are not sound.
  static Result<SharedSession> open(net::SharedServer& server, const TimeLimits& limits);

  // Sends the commands, and returns their answers. rooms: as in RespClient::receive(), for the first answers.
  Result<std::vector<net::RespValue>> call(const net::RespRequest& request,
                                           std::span<const std::span<std::byte>> rooms = {});
  // Returns the record under a key; nothing if the server has no such key.
  Result<std::optional<std::string>> record(const std::string& key);
  // Returns the info of an entry; nothing if it is not stored.
  Result<std::optional<SharedInfo>> info(const std::string& id);
  // Returns the texts of the entries, which must have the kind and the namespace of `key`. `limit`: of all their bytes.
  // Error: kNotFound if one is not there.
  Result<std::vector<KeptRows::Row>> rows(const SharedNames& names, std::span<const SharedInfo::Link> links,
                                          const KeptRows::Key& key, uint64_t limit);
  net::SharedServer& server() { return *server_; }

 private:
  SharedSession(net::SharedServer& server, net::ConnectionPool::Lease lease, TimeLimits limits)
      : server_(&server), lease_(std::move(lease)), limits_(std::move(limits)) {}

  net::SharedServer* server_;
  net::ConnectionPool::Lease lease_;
  TimeLimits limits_;
};

class SharedChange final : public KeptRows::Change {
 public:
  // The references must outlive the change.
  SharedChange(SharedSession& session, const SharedNames& names, uint64_t budget_bytes)
      : session_(session), names_(names), budget_bytes_(budget_bytes) {}
  // Begins the transaction. REQUIRES, for all other calls: this was called.
  Status begin();
  // Writes the changes. False if another node has made a change meanwhile; nothing was written then.
  Result<bool> commit();
  // Ends the transaction without writing.
  void abandon();
  const SharedRoot& root() const { return root_; }

  Result<KeptRows::Row> row(const KeptRows::Key& key) override;
  Result<bool> can_continue(const std::string& space, const std::string& name) override;
  Status put(const Holder& holder, const KeptRows::Row& row) override;
  Status remove(const KeptRows::Key& key) override;
  Status touch(const KeptRows::Key& key) override;
  Result<bool> forget(const std::string& space) override;
  Status make_room() override;

 private:
  using Info = std::optional<SharedInfo>;
  struct Ranked {
    std::string member;
    int64_t score = 0;
  };
  // The members of a sorted set from one end, as far as they were read.
  struct Window {
    std::vector<Ranked> read;
    size_t n_passed = 0;  // of the first of them, which this change has written
    bool is_complete = false;
  };
  enum class End { kLowest, kHighest };

  // Return what is stored, with the writes of this change.
  Result<Info> info(const std::string& id);
  Result<int64_t> score(const std::string& set, const std::string& member);
  // not_of: id of an entry that is passed over.
  Result<std::optional<Ranked>> end_of(const std::string& set, End end, const std::string& not_of = {});
  Status read_more(const std::string& set, End end, Window& window);

  Status replace_places(const std::string& id, const SharedInfo* before, const SharedInfo* after);
  Status add_bytes(const std::string& api_key, const SharedMember& member, int64_t sign);
  void mark_used(const std::string& id, const SharedInfo& info);
  void unmark_used(const std::string& api_key, const SharedMember& member);
  // Lets a response have one child less, and drops it if it is gone and has no others.
  Status leave_parent(const SharedInfo& info);
  // Makes an entry unfindable, and drops it unless others continue it.
  Status remove(const std::string& id, SharedInfo info);
  // Removes all of an entry.
  Status drop(const std::string& id, const SharedInfo& info);
  Status evict(const std::string& api_key, const SharedMember& member);
  Result<bool> evict_one();

  SharedSession& session_;
  const SharedNames& names_;
  const uint64_t budget_bytes_;
  SharedRoot root_;
  std::string put_last_;     // id of the entry that was put last
  std::string put_last_of_;  // its API key, as hidden name

  // The writes of this change. Nothing: the record, the member or the field is removed.
  std::map<std::string, Info> infos_;
  std::map<std::string, std::optional<std::string>> texts_;  // by id; plain records
  std::map<std::string, std::map<std::string, std::optional<int64_t>>> scores_;
  std::map<std::string, std::map<std::string, bool>> members_;
  std::map<std::string, std::map<std::string, std::optional<std::string>>> fields_;
  std::map<std::pair<std::string, End>, Window> windows_;
};

}  // namespace ibid::serve
