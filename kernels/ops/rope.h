// Rotary position embedding: the frequencies of a rule and the angles of positions. Angles are computed in
// double with our own sine and cosine, so that they are the same on every machine; the rotation itself is
// Kernels::rope.
#pragma once

#include <cstddef>
#include <vector>

namespace ibid {

// inv_freq[i] for i < rotary_dim / 2, and a factor on cos and sin.
struct RopeTable {
  std::vector<double> inv_freq;
  double magnitude = 1.0;
};

struct RopeRule {
  enum class Kind {
    kPlain,
    kLinear,   // positions are stretched by `factor`
    kYarn,     // pairs that turn rarely are stretched, those that turn often are not (Peng et al. 2023)
    kLongrope, // frequencies divided by short_factors or, in a context beyond the original, by frequency_factors
               // (Ding et al. 2024)
  } kind = Kind::kPlain;
  double theta = 10000.0;
  size_t rotary_dim = 0;                   // dimensions of a head that are rotated, the first ones
  double factor = 1.0;                     // kLinear, kYarn
  double original_max_positions = 8192;    // kYarn, kLongrope
  double beta_fast = 32, beta_slow = 1;    // kYarn: turns within the original context between which it mixes
  bool truncate = true;                    // kYarn: pairs of the mixture are rounded outwards to whole ones
  double magnitude = 1.0;                  // of cos and sin: the attention factor of kYarn and kLongrope
  size_t n_turning = 0;                    // only so many of the first pairs turn; 0: all
  std::vector<float> frequency_factors;    // inv_freq[i] /= factor[i]; empty: none
  std::vector<float> short_factors;        // kLongrope

  bool operator==(const RopeRule&) const = default;
};

// Llama 3.1's rule as frequency_factors, which is how GGUF has it: long waves are stretched by `factor`, short ones are
// kept, those between are mixed linearly in the number of turns they make within the original context.
// (transformers, modeling_rope_utils, "llama3")
struct Llama3Rule {
  double factor, low_freq_factor, high_freq_factor, original_max_positions;
};
std::vector<float> llama3_frequency_factors(const Llama3Rule& llama3, double theta, size_t rotary_dim);

// The table of a sequence of at most `context` positions. A rule that asks for the length takes the context for it,
// whatever a sequence has: else its keys would change as it grows.
RopeTable make_rope_table(const RopeRule& rule, size_t context);

// cos_sin: [rotary_dim / 2] cos, then [rotary_dim / 2] sin, of `position`.
void rope_angles(const RopeTable& table, size_t position, float* cos_sin);

}  // namespace ibid
