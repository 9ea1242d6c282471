// What every part of the oracle is given: the model's configuration, its weights and its ropes.
#pragma once

#include <vector>

#include "model/config/config.h"
#include "tests/oracle/file_tensors.h"
#include "tests/oracle/rope.h"

namespace ibid::oracle {

struct Model {
  const ModelConfig& config;
  FileTensors weights;
  std::vector<Rope> ropes;   // of ModelConfig::ropes
};

// The keys and values of one layer of the cache. [T, G d]
struct KeysAndValues {
  Matrix keys, values;
};

}  // namespace ibid::oracle
