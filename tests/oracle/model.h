// The input of every part of the oracle: configuration, weights and ropes of a model.
#pragma once

#include <vector>

#include "model/config/config.h"
#include "tests/oracle/file_tensors.h"
#include "tests/oracle/rope.h"

namespace ibid::oracle {

struct Model {
  const ModelConfig& config;
  FileTensors weights;
  std::vector<Rope> ropes;  // one per ModelConfig::ropes
};

// The keys and values of one KV layer. [T, G d]
struct KeysAndValues {
  Matrix keys, values;
};

}  // namespace ibid::oracle
