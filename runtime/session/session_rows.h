// The rows of a saved session: the records behind the conversation in its file (runtime/session/session_file.h). First
// the pages, in their order, then the recurrent states to go on from, if the model has any.
//
// Records are bytes from outside: of what is not, provably, this engine's, of these ids and unharmed, nothing is used,
// and what depends on it is not either. Not thread-safe. Calls may throw std::bad_alloc.
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

// A file with more states than that is none of ours.
inline constexpr size_t kMostSavedStates = 64;

// What is written of a sequence.
struct SavedRows {
  const KvCacheEntry& entry;
  std::span<const StateSnapshot> states;
  KvPageIdentity identity;
};

// Of the places that the entry can go on from, those that are asked for: for each position the one that reaches
// furthest up to it, and of those with the fewest rows. And others, the deepest first, as long as all states take no
// more bytes than the rows.
std::vector<StateSnapshot> states_for(const KvCacheEntry& entry, std::span<const size_t> positions);

// Writes all records. Of pages whose rows behind a window are gone, it writes the rest.
Status write_rows(File& file, const SavedRows& rows);

// Reads the records from `offset` to the end of the file into an empty entry, as far as it can go on. Error: the first
// reason why something was not used; what did not depend on it was.
Status read_rows(File& file, uint64_t offset, const std::string& path, const KvPageIdentity& identity,
                 KvCacheEntry& entry, KvPagePool& pool);

}  // namespace ibid
