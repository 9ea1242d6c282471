// The rules that hold in a LruKvCacheStore between any two calls, as a pure function of a copy of
// all that it has. Tests check them after every operation.
#pragma once

#include <string>
#include <vector>

#include "cache/store/store_snapshot.h"

namespace ibid {

// One sentence for every rule that is broken; empty when the store is sound.
std::vector<std::string> validate_store(const StoreSnapshot& snapshot);

}  // namespace ibid
