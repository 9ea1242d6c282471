#include "runtime/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <string>

namespace ibid {
namespace {

constexpr int kWeightBits = 40;
constexpr double kOne = static_cast<double>(uint64_t{1} << kWeightBits);
// exp(kFaintest) < 2^-40: such a token has weight 0 and can be left out.
constexpr double kFaintest = -27.75;
constexpr uint64_t kCountEach = 1;

// 1/13! ... 1/0!
constexpr std::array<double, 14> kInverseFactorials = [] {
  std::array<double, 14> out{};
  double factorial = 1;
  for (size_t n = 0; n < out.size(); ++n) {
    if (n > 0) factorial *= static_cast<double>(n);
    out[out.size() - 1 - n] = 1.0 / factorial;
  }
  return out;
}();

// e^x for x in [kFaintest, 0], from plain IEEE operations, so that every machine gets the same bits.
// x = k ln 2 + r, |r| <= ln 2 / 2; the Taylor polynomial of degree 13 leaves an error below 2^-52.
double portable_exp(double x) {
  constexpr double kLog2E = 1.4426950408889634, kLn2High = 0.693147180369123816490,
                   kLn2Low = 1.90821492927058770002e-10;
  const double k = std::floor(x * kLog2E + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 0;
  for (const double term : kInverseFactorials) sum = sum * r + term;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// Larger logits have larger keys; -0 and +0 have the same.
uint32_t ordered_key(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

Status out_of_range(const char* name, double value, const char* range) {
  return {ErrorCode::kInvalidArgument,
          std::string(name) + ": " + std::to_string(value) + ", allowed is " + range};
}

uint64_t random_seed() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

uint64_t random_bits(uint64_t seed, uint64_t n) {
  uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

Result<Sampler> Sampler::create(const SamplerOptions& options) {
  // Written so that NaN fails each of them.
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    return out_of_range("temperature", options.temperature, "0 to 100");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) return out_of_range("top_p", options.top_p, "above 0, to 1");
  if (!(options.min_p >= 0 && options.min_p <= 1)) return out_of_range("min_p", options.min_p, "0 to 1");
  return Sampler(options);
}

Sampler::Sampler(const SamplerOptions& options)
    : options_(options), seed_(options.seed ? *options.seed : random_seed()) {}

Result<TokenId> Sampler::sample(std::span<const float> logits) {
  constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
  float max = kMinusInfinity;
  size_t best = 0;
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] <= std::numeric_limits<float>::max())) {
      return {ErrorCode::kNonFinite,
              "logits: " + std::to_string(logits[i]) + " for id " + std::to_string(i)};
    }
    if (logits[i] > max) max = logits[i], best = i;
  }
  if (max == kMinusInfinity) return {ErrorCode::kNonFinite, "logits: no token has a finite one"};
  if (options_.temperature == 0) return static_cast<TokenId>(best);

  collect(logits, max);
  if (options_.top_k != 0) keep_heaviest(options_.top_k, true);
  uint64_t total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  if (options_.top_p < 1) {
    // In integers: the share times 2^53, rounded up at the end.
    const auto share = static_cast<uint64_t>(options_.top_p * static_cast<double>(uint64_t{1} << 53));
    const auto product = static_cast<unsigned __int128>(total) * share;
    const auto wanted = static_cast<uint64_t>((product + (uint64_t{1} << 53) - 1) >> 53);
    keep_heaviest(std::max(wanted, uint64_t{1}), false);
  }
  const double least = options_.min_p * kOne;
  std::erase_if(candidates_, [&](const Candidate& c) { return static_cast<double>(c.weight) < least; });

  total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  const uint64_t bits = random_bits(seed_, n_draws_++);
  auto left = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * total) >> 64);
  for (const Candidate& c : candidates_) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  CHECK(false) << "the draw is below the sum of the weights";
  return TokenId{0};
}

void Sampler::collect(std::span<const float> logits, float max) {
  candidates_.clear();
  // Without top_p nothing depends on what min_p will drop, and most of the vocabulary needs no exp. The
  // logarithm only has to be small enough: the exact comparison follows.
  const double faintest =
      options_.top_p < 1 || options_.min_p == 0 ? kFaintest : std::max(kFaintest, std::log(options_.min_p) - 1e-6);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = (static_cast<double>(logits[i]) - max) / options_.temperature;
    if (x < faintest) continue;
    const auto weight = static_cast<uint64_t>(portable_exp(x) * kOne);
    if (weight == 0) continue;
    candidates_.push_back({ordered_key(logits[i]), static_cast<TokenId>(i), weight});
  }
}

// Keeps the fewest candidates, heaviest first and lower ids first among equals, whose weights (or number)
// reach `wanted`. The weight at which to cut is found digit by digit from the top: four passes over ever fewer
// candidates, whatever the distribution looks like.
void Sampler::keep_heaviest(uint64_t wanted, bool count_tokens) {
  const auto mass = [&](const Candidate& c) { return count_tokens ? kCountEach : c.weight; };
  uint64_t total = 0;
  for (const Candidate& c : candidates_) total += mass(c);
  if (total <= wanted) return;

  narrowed_ = candidates_;
  uint32_t cut = 0;  // the key at which to cut, as far as its digits are known
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::array<uint64_t, 256> histogram{};
    const auto digit_of = [&](const Candidate& c) { return c.key >> shift & 0xFFu; };
    for (const Candidate& c : narrowed_) histogram[digit_of(c)] += mass(c);
    uint32_t digit = 255;
    while (histogram[digit] < wanted) wanted -= histogram[digit--];
    cut |= digit << shift;
    std::erase_if(narrowed_, [&](const Candidate& c) { return digit_of(c) != digit; });
  }
  // `wanted` is now what the equals at the cut have to give.
  std::erase_if(candidates_, [&](const Candidate& c) {
    if (c.key != cut) return c.key < cut;
    const bool drop = wanted == 0;
    wanted -= std::min(wanted, mass(c));
    return drop;
  });
}

}  // namespace ibid
