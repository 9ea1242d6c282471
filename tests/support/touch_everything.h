// Reads everything that a model file hands out: every value through every getter, every byte and every row of
// every tensor. Returns a sum of it, so that nothing is optimised away.
#pragma once

#include <cstdint>

#include "weights/model_file.h"

namespace ibid {

uint64_t touch_everything(const ModelFile& file);

}  // namespace ibid
