// Rotary position embedding: the frequencies of a rule, and the angles of positions. Angles are computed in double with
// our own sine and cosine, so that they are identical on every machine. Kernels::rope rotates.
#pragma once

#include <cstddef>
#include <vector>

namespace ibid {

// Angle per position of each pair i < rotary_dim / 2, and the factor of all cosines and sines.
struct RopeTable {
  std::vector<double> inv_freq;
  double magnitude = 1.0;
};

struct RopeRule {
  enum class Kind {
    kPlain,
    kLinear,    // frequencies are divided by `factor`
    kYarn,      // low frequencies are divided by `factor`, high ones are unchanged (Peng et al. 2023)
    kLongrope,  // divided by short_factors, in extended contexts by frequency_factors (Ding 2024)
  } kind = Kind::kPlain;
  double theta = 10000.0;
  size_t rotary_dim = 0;                 // number of leading dimensions of a head that are rotated
  double factor = 1.0;                   // kLinear, kYarn
  double original_max_positions = 8192;  // kYarn, kLongrope
  double beta_fast = 32, beta_slow = 1;  // kYarn: pairs whose number of turns is between these are interpolated
  bool truncate = true;                  // kYarn: round the first and last interpolated pair outwards to whole pairs
  double magnitude = 1.0;                // factor of all cosines and sines: the attention factor of kYarn and kLongrope
  size_t n_rotated_pairs = 0;            // number of leading pairs that are rotated at all; 0: all pairs
  std::vector<float> frequency_factors;  // inv_freq[i] /= factor[i]; empty: no division
  std::vector<float> short_factors;      // kLongrope

  bool operator==(const RopeRule&) const = default;
};

struct Llama3Rule {
  double factor, low_freq_factor, high_freq_factor, original_max_positions;
};
// Returns Llama 3.1's rule in the form of frequency_factors, as in GGUF: low frequencies are divided by `factor`, high
// ones are kept, and those between are interpolated linearly in their number of turns within the original context.
// (transformers, modeling_rope_utils, "llama3")
std::vector<float> llama3_frequency_factors(const Llama3Rule& llama3, double theta, size_t rotary_dim);

// Returns the table for sequences of at most `context` positions. Rules that depend on the length of the sequence use
// `context` as that length, because cached keys would otherwise change as the sequence grows.
RopeTable make_rope_table(const RopeRule& rule, size_t context);
// All that the table depends on of `context`: true if the rule is kLongrope and uses its short factors.
bool uses_short_factors(const RopeRule& rule, size_t context);

// Writes the angles of `position`: cos_sin = [rotary_dim / 2] cos, then [rotary_dim / 2] sin.
void rope_angles(const RopeTable& table, size_t position, float* cos_sin);

}  // namespace ibid
