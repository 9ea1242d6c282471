// Lets others find what was read of a prompt while it is being read.
#pragma once

#include <cstddef>

#include "cache/pages/kv_cache_entry.h"
#include "runtime/generate/generate.h"
#include "runtime/generate/state_borders.h"
#include "runtime/scheduler/pending_prefixes.h"

namespace ibid {

// After a pass, behind which n_unread ids of the prompt are left.
void publish(const SharedPrompt& shared, PendingPrefixes::Reading& reading, KvCacheEntry& entry,
             const StateBorders& borders, size_t n_unread);

}  // namespace ibid
