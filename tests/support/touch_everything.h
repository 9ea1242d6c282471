// Reads all data of a model file: every value through every getter, every byte and every row of
// every tensor. Returns a sum, so that no read is optimised away.
#pragma once

#include <cstdint>

#include "weights/model_file.h"

namespace ibid {

uint64_t touch_everything(const ModelFile& file);

}  // namespace ibid
