// The error of a call of the runtime that found no heap memory. Nothing throws across the runtime's border, so at
// its edges std::bad_alloc becomes this error. Thread-safe.
#pragma once

#include "base/result.h"

namespace ibid {

// kOutOfMemory, in words so short that they need no memory themselves.
inline Status out_of_heap() { return {ErrorCode::kOutOfMemory, "no heap memory"}; }

}  // namespace ibid
