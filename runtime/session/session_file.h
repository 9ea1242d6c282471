// A conversation as a file: its messages, the sampled tokens of its answers, and optionally its keys and values as
// records of cache/tier/kv_page_file.h. docs/sessions.md specifies the format.
//
// Files are untrusted input. A checksum verifies the conversation, which is then checked like any input
// (runtime/session/session_json.h). A damaged file is a typed error. Keys and values are used only if the record proves
// that they are of this engine and these tokens, and undamaged; otherwise the conversation is loaded without them and
// is prefilled again.
//
// Thread-safe: the functions have no state, and the pool locks. Several threads may write one file at the same time.
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

// Writes the file atomically, readable by its owner only, and replaces an existing one. Concurrent writers of one file
// all succeed, and the file of the last writer stays. kv: nullptr, or keys and values to include, with `identity`;
// states: the recurrent states to include (runtime/session/session_rows.h). Errors: kIo, kOutOfMemory, those of
// session_to_text(); an existing file is then unchanged.
Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session, const KvCacheEntry* kv,
                          const KvPageIdentity& identity, std::span<const StateSnapshot> states = {});

// Reads a conversation without its keys and values; this needs no model. Errors: those of read_session_file().
Result<SavedSession> read_saved_session(FileOps& files, const std::string& path);

struct LoadedSession {
  SavedSession session;
  std::optional<KvCacheEntry> kv;  // KV of the usable records; session.load_warnings.rows: why some are missing
};
// identity: nullptr if the engine has none; it then cannot verify records and uses none.
// Errors: kNotFound, kIo, kBadMagic, kUnsupportedVersion, kTruncated, kCorrupt, kLimitExceeded, kBadHeader.
Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity);

}  // namespace ibid
