// Checks whether keys and values are finite numbers. Rows that this program computes are. A file may bring
// anything, and one row that is NaN or infinite makes every position behind it NaN.
// A pure function.
#pragma once

#include <cstddef>

#include "cache/pages/kv_layout.h"

namespace ibid {

// Checks the parts that a page has, rows that were never written (zero) included. As fast as memory can be read.
bool rows_are_finite(const KvLayout& layout, const PageMemory& page);

}  // namespace ibid
