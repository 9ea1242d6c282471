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
  float magnitude = 1.0f;
};

struct RopeRule {
  enum class Kind { kPlain, kLinear, kLlama3 } kind = Kind::kPlain;
  double theta = 10000.0;
  size_t rotary_dim = 0;
  double factor = 1.0;                     // kLinear, kLlama3: positions are stretched by this much
  double low_freq_factor = 1.0;            // kLlama3 (Llama 3.1 model card, modeling_rope_utils)
  double high_freq_factor = 4.0;
  double original_max_positions = 8192;
  std::vector<float> frequency_factors;    // GGUF's rope_freqs.weight: inv_freq[i] /= factor[i]; empty: none
};

RopeTable make_rope_table(const RopeRule& rule);

// cos_sin: [rotary_dim / 2] cos, then [rotary_dim / 2] sin, of `position`.
void rope_angles(const RopeTable& table, size_t position, float* cos_sin);

}  // namespace ibid
