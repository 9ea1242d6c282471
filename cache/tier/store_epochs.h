// StoreEpochs: the epochs of namespaces (KvPageIdentity) in a store that nodes share, with those that this process has
// seen. The larger one counts, so neither a store that lost an epoch nor one that was separated brings records back
// that were cleared. Thread-safe. The store and the clock must outlive the object.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "base/clock.h"
#include "base/result.h"
#include "base/sha256.h"
#include "cache/tier/record_store.h"

namespace ibid {

class StoreEpochs {
 public:
  StoreEpochs(RecordStore& store, Clock& clock) : store_(store), clock_(clock) {}

  struct Current {
    uint64_t epoch = 0;
    bool was_cleared = false;  // another node has begun an epoch since the last call
  };
  // Returns the epoch of a namespace; draws the first. Errors: those of the store.
  Result<Current> current(const Sha256Digest& name_space, ReadTimer& timer);
  // As current(), but asks the store only if this process has not seen an epoch of the namespace.
  Result<Current> known(const Sha256Digest& name_space);
  // Begins a new epoch. After an error the store may still have the old one; this process does not use it any more.
  Status begin(const Sha256Digest& name_space);

 private:
  RecordStore& store_;
  Clock& clock_;
  std::mutex mutex_;                         // guards epochs_
  std::map<Sha256Digest, uint64_t> epochs_;  // the latest epoch of each namespace that this process has seen
};

}  // namespace ibid
