// A conversation as a file: its messages, the ids of its answers as they were sampled, and, if wanted, its keys and
// values in the records of cache/tier/kv_page_file.h. docs/sessions.md has the format.
//
// A file is bytes from outside. The conversation in it is verified by a checksum, and then checked like any other
// input (runtime/session/session_json.h). A damaged file is a typed error and nothing else. Keys and values are used
// only if the record proves that they are this engine's, of these ids, unharmed. Else the conversation is loaded
// without them, and is read again.
//
// Thread-safe: no function has state of its own, and the pool locks. A file may be written by several at once.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/tier/kv_page_file.h"
#include "runtime/session/session_json.h"

namespace ibid {

// Writes the file for its owner alone, all at once or not at all, and replaces what was there. When several write
// one file at once, each succeeds, and the last one's stays. kv: nullptr, or what to write along, with `identity`;
// states: of its places to go on from those that are written (runtime/session/session_rows.h).
// Errors: kIo, kOutOfMemory, those of session_to_text(); a file that was there before is then unchanged.
Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session,
                          const KvCacheEntry* kv, const KvPageIdentity& identity,
                          std::span<const StateSnapshot> states = {});

// Reads the conversation of a file, without its keys and values; this needs no model. Errors: as below.
Result<SavedSession> read_saved_session(FileOps& files, const std::string& path);

struct LoadedSession {
  SavedSession session;
  std::optional<KvCacheEntry> kv;  // what could be used of the records; session.losses.rows says why no more
};
// identity: nullptr when the engine has none; then it cannot tell which records are its model's, and uses none.
// Errors: kNotFound, kIo, kBadMagic, kUnsupportedVersion, kTruncated, kCorrupt, kLimitExceeded, kBadHeader.
Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity);

}  // namespace ibid
