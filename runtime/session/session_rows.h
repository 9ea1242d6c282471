// Keys and values of a saved session: the records after the conversation in its file (runtime/session/session_file.h):
// the pages in order, then the recurrent states at which the session can resume, if the model has any.
//
// Records are untrusted input: a record is used only if it is provably of this engine and these tokens, and undamaged,
// and so are the records that it depends on. Not thread-safe. Calls may throw std::bad_alloc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/file_ops.h"
#include "base/result.h"
#include "cache/pages/kv_cache_entry.h"
#include "cache/tier/kv_record.h"

namespace ibid {

// Limit of states in a file; more are an error.
inline constexpr size_t kMostSavedStates = 64;

// The data of a sequence that write_rows() writes.
struct SavedRows {
  const KvCacheEntry& entry;
  std::span<const StateSnapshot> states;
  KvPageIdentity identity;
};

// For each of `positions`, returns the entry's state from which a sequence can resume closest before the position, or
// at it; among equals, the one with the fewest rows to replay. Adds other states, the deepest first, as long as all
// states together take no more bytes than the keys and values.
std::vector<StateSnapshot> states_for(const KvCacheEntry& entry, std::span<const size_t> positions);

// Writes all records. If the window part of a page (layers with a sliding window) was evicted, writes only the other
// layers' part.
Status write_rows(File& file, const SavedRows& rows);

// Reads the records from `offset` to the end of the file into an empty entry, up to the last position at which it can
// resume. Error: the first reason why a record was not used; records that do not depend on it were used.
Status read_rows(File& file, uint64_t offset, const std::string& path, const KvPageIdentity& identity,
                 KvCacheEntry& entry, KvPagePool& pool);

}  // namespace ibid
