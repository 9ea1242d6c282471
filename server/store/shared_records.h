// The keys and records of SharedRows on the server (server/store/shared_rows.h): names, and the forms of the values.
// A record is a list of fields; its bytes are untrusted input, because without a key file nothing is sealed.
//
// Keys, all of which begin with "ibid:conversations:"; ID, KEY, OWNER and SPACE are hidden names of 32 digits:
//   root          SharedRoot; every change writes it, so WATCH of this one key detects all changes of others
//   info:ID       SharedInfo of an entry
//   text:ID       its texts (SharedText)
//   keys          sorted set: KEY by the sum of its bytes
//   owners:KEY    sorted set: OWNER by the sum of its bytes
//   used:KEY, used:KEY:OWNER   sorted sets: entries (SharedMember) by their last use
//   entries:SPACE set: ID of all entries of a namespace
//   places:SPACE  hash: the name of a history's prefix, or of an item of a response, to the ID that was put last
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "net/shared_server.h"
#include "server/store/kept_rows.h"

namespace ibid::serve {

class SharedNames {
 public:
  // which: number of the key of the key file. `server` must outlive the object.
  SharedNames(const net::SharedServer& server, size_t which) : server_(&server), which_(which) {}

  // The hidden name of what the parts name: 32 hexadecimal digits.
  std::string hidden(std::initializer_list<std::string_view> parts) const;
  std::string entry(const KeptRows::Key& key) const;
  // Names of the prefixes or items by which an entry is found, at most kMaxPlaces of them: the longest prefixes.
  static constexpr size_t kMaxPlaces = 512;
  std::vector<std::string> places(const std::string& space, const KeptRows::Row& row) const;
  std::string prefix(const std::string& space, uint64_t hash, size_t n) const;
  std::string item(const std::string& space, const std::string& item_id) const;

  // The key "ibid:conversations:" WHAT, for one of the names above.
  static std::string key(std::string_view what) { return std::string(kStart).append(what); }
  static std::string key(std::string_view what, std::string_view name) { return key(what).append(":").append(name); }
  std::string root() const { return key("root", hidden({"root"})); }
  std::string keys() const { return key("keys", hidden({"keys"})); }
  static std::string used(const std::string& of_key) { return key("used", of_key); }
  static std::string used(const std::string& of_key, const std::string& owner) {
    return key("used", of_key + ":" + owner);
  }
  std::string entries(const std::string& space) const { return key("entries", hidden({"space", space})); }
  std::string places_of(const std::string& space) const { return key("places", hidden({"space", space})); }

 private:
  static constexpr std::string_view kStart = "ibid:conversations:";

  const net::SharedServer* server_;
  size_t which_;
};

struct SharedRoot {
  int64_t n_changes = 0;
  int64_t used = 0;  // grows with each use
  int64_t n_bytes = 0, n_histories = 0, history_bytes = 0;
};
std::string to_record(const SharedRoot& root);
Result<SharedRoot> root_from(std::string_view record);

// The data of an entry that changes need: everything but its texts.
struct SharedInfo {
  struct Link {
    std::string id;
    int64_t text_bytes = 0;  // of the stored record, sealed
    bool operator==(const Link&) const = default;
  };
  KeptRows::Key key;
  std::string api_key, owner;    // hidden names
  int64_t n_bytes = 0;           // as the budget counts the entry
  int64_t text_bytes = 0;        // of the stored text record, sealed
  bool is_gone = false;          // removed, but other responses continue it
  int64_t n_children = 0;        // number of responses that continue it
  std::vector<Link> chain = {};  // the responses that it continues, the oldest first
  std::vector<std::string> places = {};

  bool operator==(const SharedInfo&) const = default;
};
std::string to_record(const SharedInfo& info);
Result<SharedInfo> info_from(std::string_view record);

// The texts of an entry, with its names, so that a record that was moved to another key is noticed. Row::previous,
// item_ids, hashes and first are not part of it.
struct SharedText {
  std::string space;
  KeptRows::Row row;
};
std::string to_record(const std::string& space, const KeptRows::Row& row);
Result<SharedText> text_from(std::string_view record);

// The member of a sorted set `used`: enough to remove an entry from all sums if the server has lost its info.
struct SharedMember {
  std::string id, owner;
  Kept kind = Kept::kResponse;
  int64_t n_bytes = 0;

  static SharedMember of(const std::string& id, const SharedInfo& info) {
    return {id, info.owner, info.key.kind, info.n_bytes};
  }
  std::string text() const;
  static std::optional<SharedMember> parse(std::string_view text);
};

// Parses a decimal number of the server, such as a score; nothing if it is invalid, or not between 0 and 2^53.
std::optional<int64_t> shared_number(std::string_view text);

}  // namespace ibid::serve
