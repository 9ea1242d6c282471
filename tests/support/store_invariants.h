// Invariants of a LruKvCacheStore, as a pure function of a snapshot of its contents. Tests check them after each call.
#pragma once

#include <string>
#include <vector>

#include "cache/store/store_snapshot.h"

namespace ibid {

// Returns one sentence for every violated invariant; empty if the store is valid.
std::vector<std::string> validate_store(const StoreSnapshot& snapshot);

}  // namespace ibid
