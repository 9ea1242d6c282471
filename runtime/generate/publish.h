// Publishes the computed part of a prompt while it is being prefilled.
#pragma once

#include <cstddef>

#include "cache/pages/kv_cache_entry.h"
#include "runtime/generate/checkpoint_positions.h"
#include "runtime/generate/generate.h"
#include "runtime/scheduler/pending_prefixes.h"

namespace ibid {

// Call after a pass, with n_unread tokens of the prompt left.
void publish(const SharedPrompt& shared, PendingPrefixes::Reading& reading, KvCacheEntry& entry,
             const CheckpointPositions& checkpoints, size_t n_unread);

}  // namespace ibid
