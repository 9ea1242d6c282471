// Whether keys and values are numbers. What this program computes is; what a file brings may be anything, and one row
// that is NaN or infinite makes every position behind it NaN.
#pragma once

#include <cstddef>

#include "cache/kv_layout.h"

namespace ibid {

// Of a whole page, rows that were never written (zero) included. Bound by memory.
bool rows_are_finite(const KvLayout& layout, const std::byte* page);

}  // namespace ibid
