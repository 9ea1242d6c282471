// The id of this process as a writer of records.
#pragma once

#include "cache/tier/kv_record.h"

namespace ibid {

// The first half is the same for all processes of a machine (a digest of its id and name), the second half is random.
// Constant within a process. May throw std::bad_alloc at the first call.
KvWriterId own_writer_id();

}  // namespace ibid
