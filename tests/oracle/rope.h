// Rotary position embedding (Su et al. 2021) and the rules that stretch it. Frequencies, angles and rotations are the
// oracle's own. From the model's configuration it takes a rule's numbers: base, factor, original context, magnitude.
#pragma once

#include <cstddef>

#include "kernels/ops/rope.h"
#include "tests/oracle/numbers.h"
#include "weights/model_file.h"

namespace ibid::oracle {

struct Rope {
  Vector frequencies;     // of each pair, in radians a position
  double magnitude = 1;   // of what is turned
};

// Which two numbers of a head are turned together.
enum class Pairs { kHalves, kNeighbours };

// The rule of `file` for a model that serves sequences of up to `context` positions.
Rope make_rope(const ModelFile& file, const RopeRule& rule, size_t context);

// Turns the first numbers of one head, two for each frequency; row p is position p. heads: [T, head_dim]
void rotate(const Rope& rope, Pairs pairs, Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> head);

}  // namespace ibid::oracle
