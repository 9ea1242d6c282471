// A conversation as a file: its messages, the ids of its answers as they were sampled, and, where that is wanted, its
// keys and values, in the records of cache/kv_page_file.h. docs/sessions.md has the format.
//
// A file is bytes from outside. What it says of the conversation is verified by a checksum and then like any other
// input (runtime/session_json.h); a file that is damaged is a typed error and nothing else. Keys and values are used
// only where the record says that they are this engine's, of these ids, unharmed; else the conversation is there all
// the same, and is read again.
#pragma once

#include <optional>
#include <string>

#include "base/file_ops.h"
#include "base/result.h"
#include "cache/kv_cache_entry.h"
#include "cache/kv_page_file.h"
#include "runtime/session_json.h"

namespace ibid {

// Writes the file all at once or not at all, for its owner alone, whatever was there. Of several writers of one file at
// once each succeeds, and the last one's is there in the end. kv: nullptr, or what to write along, with `identity`.
// Errors: kIo, kOutOfMemory, those of session_to_text(); a file that was there before is still the same then.
Status write_session_file(FileOps& files, const std::string& path, const SavedSession& session,
                          const KvCacheEntry* kv, const KvPageIdentity& identity);

// What a file says of the conversation; needs no model, and leaves keys and values alone. Errors: as below.
Result<SavedSession> read_saved_session(FileOps& files, const std::string& path);

struct LoadedSession {
  SavedSession session;
  std::optional<KvCacheEntry> kv;  // what could be used of the records; session.losses.rows says why no more
};
// identity: nullptr when the engine has none: it cannot know the records of its model.
// Errors: kNotFound, kIo, kBadMagic, kUnsupportedVersion, kTruncated, kCorrupt, kLimitExceeded, kBadHeader.
Result<LoadedSession> read_session_file(FileOps& files, const std::string& path, KvPagePool& pool,
                                        const KvPageIdentity* identity);

}  // namespace ibid
