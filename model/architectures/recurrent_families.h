// The architectures whose layers are recurrent, all or some: rows of kArchitectures
// (model/architectures/architectures.cc), with the names that their files have for tensors.
#pragma once

#include <span>

#include "model/architectures/architecture.h"

namespace ibid {

std::span<const Architecture> recurrent_families();

}  // namespace ibid
