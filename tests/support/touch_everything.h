// Reads all data of a model file: every value through every getter, and every byte and row of every tensor. Returns a
// sum, so that the compiler removes no read.
#pragma once

#include <cstdint>

#include "weights/model_file.h"

namespace ibid {

uint64_t touch_everything(const ModelFile& file);

}  // namespace ibid
