// A conversation as a file: its messages, the ids of its answers as they were sampled, and, where that is wanted, its
// keys and values, in the records of cache/kv_page_file.h. docs/sessions.md has the format.
//
// A file is bytes from outside. What it says of the conversation is verified by a checksum and then like any other
// input; a file that is damaged is a typed error and nothing else. Keys and values are used only where the record says
// that they are this engine's, of these ids, unharmed; else the conversation is there all the same, and is read again.
#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "base/types.h"
#include "cache/kv_cache_entry.h"
#include "cache/kv_page_file.h"
#include "runtime/context_policy.h"
#include "runtime/stats.h"

namespace ibid {

// An answer as it was sampled; encoding its text need not give the same ids.
struct SavedReply {
  size_t message = 0;  // its number
  Tokens ids;
  std::optional<TokenId> end_of_turn;
};

struct SavedSession {
  std::string model_name;  // for people
  Json variables = Json::object();
  std::string now;
  std::string cache_namespace;
  WhenFull when_full = WhenFull::kError;
  bool repair_when_idle = true;
  Json messages = Json::array();
  std::set<size_t> pinned;
  std::vector<SavedReply> replies;  // in the order of their messages
  Usage usage;
  size_t n_ids = 0;  // of the whole conversation when it was saved, for people; 0: an older file
};

Json session_to_json(const SavedSession& session);
// Errors: kBadHeader naming the field. Numbers of messages are in range, roles are there, ids are at least 0.
Result<SavedSession> session_from_json(const Json& json);

// Writes the file all at once or not at all, for its owner alone. kv: nullptr, or what to write along, with `identity`.
// Errors: kIo, kOutOfMemory; a file that was there before is still the same then.
Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session,
                          const KvCacheEntry* kv, const KvPageIdentity& identity);

// What a file says of the conversation; needs no model, and leaves keys and values alone. Errors: as below.
Result<SavedSession> read_saved_session(FileOps& files, const std::string& path);

struct LoadedSession {
  SavedSession session;
  std::optional<KvCacheEntry> kv;  // what could be used of the records
};
// identity: nullptr when records are not wanted.
// Errors: kNotFound, kIo, kBadMagic, kUnsupportedVersion, kTruncated, kCorrupt, kLimitExceeded, kBadHeader.
Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity);

}  // namespace ibid
