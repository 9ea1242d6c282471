// Rotary position embedding (Su et al. 2021) and its rules for extended contexts. The oracle computes frequencies,
// angles and rotations itself; it takes only the numbers of a rule from the configuration: base, factor, original
// context, magnitude.
#pragma once

#include <cstddef>

#include "kernels/ops/rope.h"
#include "tests/oracle/numbers.h"
#include "weights/model_file.h"

namespace ibid::oracle {

struct Rope {
  Vector frequencies;    // per pair, in radians per position
  double magnitude = 1;  // factor of the rotated numbers
};

// Which two numbers of a head are rotated together.
enum class Pairs { kHalves, kNeighbours };

// Returns the rope of `rule` for a model with sequences of up to `context` positions.
Rope make_rope(const ModelFile& file, const RopeRule& rule, size_t context);

// Rotates the first numbers of one head, two for each frequency; row p is position p. head: [T, head_dim]
void rotate(const Rope& rope, Pairs pairs, Eigen::Ref<Matrix, 0, Eigen::OuterStride<>> head);

}  // namespace ibid::oracle
