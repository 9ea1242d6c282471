#include "sampling/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/portable_math.h"
#include "sampling/token_history.h"

namespace ibid {
namespace {

Status out_of_range(const std::string& name, double value, const char* range) {
  std::ostringstream text;  // std::to_string() would write 1e-9 as 0.000000
  text << name << ": " << value << ", allowed: " << range;
  return {ErrorCode::kInvalidArgument, text.str()};
}

Status check_id(const std::string& name, TokenId id, size_t vocab_size) {
  if (id >= 0 && static_cast<size_t>(id) < vocab_size) return {};
  const std::string rule = vocab_size > std::numeric_limits<TokenId>::max()
                               ? ", allowed: not negative"
                               : " is out of vocabulary: the model has " + std::to_string(vocab_size) + " tokens";
  return {ErrorCode::kInvalidArgument, name + ": token id " + std::to_string(id) + rule};
}

}  // namespace

Status check_sampler_options(const SamplerOptions& o, size_t vocab_size) {
  struct Range {
    const char* name;
    double value;
    double least;
    double most;
    bool above_least;  // the value `least` itself is out of range
    const char* text;
  };
  const std::array<Range, 11> ranges = {{
      {"temperature", o.temperature, 0, 100, false, "0 to 100"},
      {"top_p", o.top_p, 0, 1, true, "above 0, to 1"},
      {"min_p", o.min_p, 0, 1, false, "0 to 1"},
      {"typical_p", o.typical_p, 0, 1, true, "above 0, to 1"},
      {"xtc_probability", o.xtc_probability, 0, 1, false, "0 to 1"},
      {"xtc_threshold", o.xtc_threshold, 0, 1, false, "0 to 1"},
      {"repetition_penalty", o.repetition_penalty, 0, 100, true, "above 0, to 100"},
      {"frequency_penalty", o.frequency_penalty, -2, 2, false, "-2 to 2"},
      {"presence_penalty", o.presence_penalty, -2, 2, false, "-2 to 2"},
      {"dry_multiplier", o.dry_multiplier, 0, 1000, false, "0 to 1000"},
      {"dry_base", o.dry_base, 1, 100, false, "1 to 100"},
  }};
  for (const Range& r : ranges) {
    // Both comparisons are false for NaN, so NaN is outside of every range.
    const bool inside = r.value >= r.least && r.value <= r.most && !(r.above_least && r.value == r.least);
    if (!inside) return out_of_range(r.name, r.value, r.text);
  }
  if (o.dry_allowed_length < 1 || o.dry_allowed_length > RepeatIndex::kMaxMatch) {
    return {ErrorCode::kInvalidArgument, "dry_allowed_length: " + std::to_string(o.dry_allowed_length) +
                                             ", allowed: 1 to " + std::to_string(RepeatIndex::kMaxMatch)};
  }
  for (const TokenId id : o.dry_breakers) TRY(check_id("dry_breakers", id, vocab_size));
  for (const auto& [id, bias] : o.logit_bias) {
    TRY(check_id("logit_bias", id, vocab_size));
    if (!(bias >= -100 && bias <= 100) && bias != -std::numeric_limits<double>::infinity()) {
      return out_of_range("logit_bias of token id " + std::to_string(id), bias, "-100 to 100, or -inf");
    }
  }
  return {};
}

namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// Sets row[id] to change(row[id]), clamped to finite floats. Skips tokens beyond the row and forbidden tokens.
template <typename Change>
void change_logit(std::span<float> row, TokenId id, Change change) {
  const auto i = static_cast<size_t>(id);
  if (i >= row.size() || row[i] == kMinusInfinity) return;
  constexpr double kMost = std::numeric_limits<float>::max();
  row[i] = static_cast<float>(std::clamp(change(static_cast<double>(row[i])), -kMost, kMost));
}

void apply_biases(const SamplerOptions& options, std::span<float> row) {
  for (const auto& [id, bias] : options.logit_bias) {
    if (bias < -std::numeric_limits<double>::max()) {
      if (static_cast<size_t>(id) < row.size()) row[static_cast<size_t>(id)] = kMinusInfinity;
    } else {
      change_logit(row, id, [bias = bias](double x) { return x + bias; });
    }
  }
}

// Returns the number of tokens of `ids` after the last of options.dry_breakers, at most RepeatIndex::kMaxMatch.
size_t length_after_breaker(const SamplerOptions& options, TokenSpan ids) {
  const std::vector<TokenId>& breakers = options.dry_breakers;
  size_t n = 0;
  while (n < std::min(ids.size(), RepeatIndex::kMaxMatch) &&
         !std::binary_search(breakers.begin(), breakers.end(), ids[ids.size() - 1 - n])) {
    ++n;
  }
  return n;
}

void apply_dry(const SamplerOptions& options, const TokenHistory& history, std::vector<RepeatIndex::Repeat>& repeats,
               std::span<float> row) {
  history.repeats().find(options.dry_allowed_length, length_after_breaker(options, history.ids()),
                         options.dry_window.value_or(TokenHistory::kEverything), repeats);
  const std::vector<TokenId>& breakers = options.dry_breakers;
  for (const auto& [id, length] : repeats) {
    if (std::binary_search(breakers.begin(), breakers.end(), id)) continue;
    // Multiplies in a loop, because pow() has different results on different machines.
    double penalty = options.dry_multiplier;
    for (size_t n = options.dry_allowed_length; n < length; ++n) penalty *= options.dry_base;
    change_logit(row, id, [penalty](double x) { return x - penalty; });
  }
}

}  // namespace

void apply_penalties(const SamplerOptions& options, const TokenHistory& history,
                     std::vector<RepeatIndex::Repeat>& repeats, std::span<float> row) {
  apply_biases(options, row);
  if (const double penalty = options.repetition_penalty; penalty != 1) {
    for (const auto& [id, count] : history.recent()) {
      change_logit(row, id, [penalty](double x) { return x > 0 ? x / penalty : x * penalty; });
    }
  }
  if (options.frequency_penalty != 0 || options.presence_penalty != 0) {
    for (const auto& [id, count] : history.answer()) {
      const double penalty = options.frequency_penalty * count + options.presence_penalty;
      change_logit(row, id, [penalty](double x) { return x - penalty; });
    }
  }
  if (options.dry_multiplier != 0) apply_dry(options, history, repeats, row);
}

namespace {

constexpr int kWeightBits = 40;
constexpr double kOne = static_cast<double>(uint64_t{1} << kWeightBits);
// A token whose logit is more than -kFaintest below the largest has weight 0, because exp(kFaintest) < 2^-40; such
// tokens are left out.
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

// Returns e^x for x in [kFaintest, 0], from plain IEEE operations, so that every machine gets the same bits. Splits x
// into k ln 2 + r with |r| <= ln 2 / 2; the Taylor polynomial of degree 13 of e^r has an error below 2^-52.
double exp_of_double(double x) {
  constexpr double kLog2E = 1.4426950408889634, kLn2High = 0.693147180369123816490,
                   kLn2Low = 1.90821492927058770002e-10;
  const double k = std::floor(x * kLog2E + 0.5);
  const double r = (x - k * kLn2High) - k * kLn2Low;
  double sum = 0;
  for (const double term : kInverseFactorials) sum = sum * r + term;
  const auto exponent = static_cast<uint64_t>(static_cast<int64_t>(k) + 1023);
  return sum * std::bit_cast<double>(exponent << 52);
}

// Returns a key that is larger for larger logits, and equal for -0 and +0.
uint32_t ordered_key(float logit) {
  const auto bits = std::bit_cast<uint32_t>(logit + 0.0f);
  return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

float logit_of_key(uint32_t key) { return std::bit_cast<float>((key & 0x80000000u) != 0 ? key & 0x7FFFFFFFu : ~key); }

// The largest logit and the first token that has it; id == size() if all logits are -inf.
struct Best {
  float logit = -std::numeric_limits<float>::infinity();
  size_t id = 0;
};
Result<Best> find_best(std::span<const float> logits) {
  // Uses independent lanes, so that compilers vectorise the loop: one running maximum would be sequential.
  constexpr size_t kLanes = 16;
  constexpr float kMost = std::numeric_limits<float>::max();
  std::array<float, kLanes> most;
  most.fill(-std::numeric_limits<float>::infinity());
  std::array<int32_t, kLanes> is_bad{};  // by lane: not 0 if a logit is NaN or +inf
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float logit = logits[i + j];
      most[j] = logit > most[j] ? logit : most[j];
      is_bad[j] |= !(logit <= kMost);
    }
  }
  for (; i < logits.size(); ++i) {
    most[0] = std::max(most[0], logits[i]);
    is_bad[0] |= !(logits[i] <= kMost);
  }
  if (std::any_of(is_bad.begin(), is_bad.end(), [](int32_t bad) { return bad != 0; })) {
    const auto bad = std::find_if(logits.begin(), logits.end(), [](float logit) { return !(logit <= kMost); });
    return {ErrorCode::kNonFinite,
            "logits: " + std::to_string(*bad) + " for token " + std::to_string(bad - logits.begin())};
  }
  const float logit = *std::max_element(most.begin(), most.end());
  if (logit == -std::numeric_limits<float>::infinity()) return Best{logit, logits.size()};
  return Best{logit, static_cast<size_t>(std::find(logits.begin(), logits.end(), logit) - logits.begin())};
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

Result<Sampler> Sampler::create(SamplerOptions options, size_t vocab_size) {
  TRY(check_sampler_options(options, vocab_size));
  std::sort(options.dry_breakers.begin(), options.dry_breakers.end());
  return Sampler(std::move(options));
}

Sampler::Sampler(SamplerOptions options)
    : options_(std::move(options)), seed_(options_.seed ? *options_.seed : random_seed()) {
  begin_answer(TokenHistory());
}

void Sampler::begin_answer(TokenHistory prompt) {
  history_ = std::move(prompt);
  if (!reads_history()) return;
  const size_t window = options_.repetition_window.value_or(TokenHistory::kEverything);
  history_.keep(options_.repetition_penalty == 1 ? 0 : window, options_.dry_multiplier != 0);
  history_.begin_answer();
}

void Sampler::push(TokenId id) {
  if (reads_history()) history_.push(id);
}

Result<TokenId> Sampler::sample(std::span<const float> logits) {
  TRY_ASSIGN(Best best, find_best(logits));
  if (best.id == logits.size()) return {ErrorCode::kNonFinite, "logits: no token has a finite logit"};
  if (reads_history() || !options_.logit_bias.empty()) {
    adjusted_.assign(logits.begin(), logits.end());
    apply_penalties(options_, history_, repeats_, adjusted_);
    logits = adjusted_;
    TRY_ASSIGN(best, find_best(logits));
    if (best.id == logits.size()) {
      return {ErrorCode::kInvalidArgument, "logit_bias: forbids every possible next token"};
    }
  }
  candidates_.clear();
  if (options_.temperature == 0) return static_cast<TokenId>(best.id);

  collect(logits, best.logit);
  if (options_.top_k != 0) keep_heaviest(options_.top_k, true);
  if (options_.top_p < 1) keep_share(options_.top_p);
  const double least = options_.min_p * kOne;
  std::erase_if(candidates_, [&](const Candidate& c) { return static_cast<double>(c.weight) < least; });
  if (options_.typical_p < 1) keep_typical(best.logit);
  if (options_.xtc_probability > 0) exclude_top_choices(random_bits(seed_, n_draws_++));

  const uint64_t bits = random_bits(seed_, n_draws_++);
  auto left = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * total_weight()) >> 64);
  for (const Candidate& c : candidates_) {
    if (left < c.weight) return c.id;
    left -= c.weight;
  }
  CHECK(false) << "the draw is below the sum of the weights";
  return TokenId{0};
}

TokenLogprobs Sampler::drawn_logprobs(TokenId id, size_t n_top) const {
  CHECK_LE(n_top, kMaxTopLogprobs);
  TokenLogprobs out{id, 0, {}};
  if (candidates_.empty()) {  // sampling was greedy, so no other token could be drawn
    if (n_top > 0) out.top.push_back({id, 0});
    return out;
  }
  const auto total = static_cast<double>(total_weight());
  const auto logprob = [&](const Candidate& c) { return portable_log(static_cast<double>(c.weight) / total); };
  std::vector<Candidate> best = candidates_;
  n_top = std::min(n_top, best.size());
  std::partial_sort(
      best.begin(), best.begin() + static_cast<std::ptrdiff_t>(n_top), best.end(),
      [](const Candidate& a, const Candidate& b) { return a.weight != b.weight ? a.weight > b.weight : a.id < b.id; });
  for (size_t i = 0; i < n_top; ++i) out.top.push_back({best[i].id, logprob(best[i])});
  const auto drawn = std::ranges::find(candidates_, id, &Candidate::id);
  CHECK(drawn != candidates_.end());
  out.logprob = logprob(*drawn);
  return out;
}

uint64_t Sampler::total_weight() const {
  uint64_t total = 0;
  for (const Candidate& c : candidates_) total += c.weight;
  return total;
}

// Keeps the fewest candidates, those with the largest keys, whose weights together reach this share of the total
// weight.
void Sampler::keep_share(double share) {
  // Compute in integers: the share as a multiple of 2^-53; round the product up.
  const auto share_bits = static_cast<uint64_t>(share * static_cast<double>(uint64_t{1} << 53));
  const auto product = static_cast<unsigned __int128>(total_weight()) * share_bits;
  const auto wanted = static_cast<uint64_t>((product + (uint64_t{1} << 53) - 1) >> 53);
  keep_heaviest(std::max(wanted, uint64_t{1}), false);
}

// Keeps the most typical candidates (SamplerOptions::typical_p), whose surprise is nearest to the entropy. A token's
// surprise is -log p = log(total) - x (x: scaled logit), so its distance from the entropy (the mean surprise) is that
// of x from the mean of x. Computed in integers, x in steps of 2^-26, so that the mean does not depend on the order of
// summation.
void Sampler::keep_typical(float max) {
  constexpr double kSteps = static_cast<double>(1u << 26);
  const auto steps_below = [&](const Candidate& c) {
    const double x = (static_cast<double>(logit_of_key(c.key)) - max) / options_.temperature;
    return static_cast<int64_t>(kSteps * -x + 0.5);
  };
  unsigned __int128 sum = 0;
  for (const Candidate& c : candidates_) {
    sum += static_cast<unsigned __int128>(c.weight) * static_cast<uint64_t>(steps_below(c));
  }
  const auto mean = static_cast<int64_t>(sum / total_weight());
  for (Candidate& c : candidates_) {
    const int64_t distance = std::abs(steps_below(c) - mean);
    c.key = UINT32_MAX - static_cast<uint32_t>(distance);  // tokens nearest to the entropy get the largest keys
  }
  keep_share(options_.typical_p);
}

void Sampler::exclude_top_choices(uint64_t bits) {
  if (static_cast<double>(bits >> 11) * 0x1p-53 >= options_.xtc_probability) return;
  const double threshold = options_.xtc_threshold * static_cast<double>(total_weight());
  const auto is_top = [&](const Candidate& c) { return static_cast<double>(c.weight) >= threshold; };
  // Find the least likely token that reaches the threshold, which stays; among equally likely ones, the last.
  const Candidate* least = nullptr;
  for (const Candidate& c : candidates_) {
    if (is_top(c) && (least == nullptr || c.weight <= least->weight)) least = &c;
  }
  if (least == nullptr) return;
  const Candidate stays = *least;
  std::erase_if(candidates_, [&](const Candidate& c) { return is_top(c) && c.id != stays.id; });
}

void Sampler::collect(std::span<const float> logits, float max) {
  // Without top_p the result does not depend on the tokens that min_p drops, so exp can be skipped for most of the
  // vocabulary. This bound only has to be low enough, because sample() compares weights exactly.
  const double faintest =
      options_.top_p < 1 || options_.min_p == 0 ? kFaintest : std::max(kFaintest, std::log(options_.min_p) - 1e-6);
  for (size_t i = 0; i < logits.size(); ++i) {
    const double x = (static_cast<double>(logits[i]) - max) / options_.temperature;
    if (x < faintest) continue;
    const auto weight = static_cast<uint64_t>(exp_of_double(x) * kOne);
    if (weight == 0) continue;
    candidates_.push_back({ordered_key(logits[i]), static_cast<TokenId>(i), weight});
  }
}

// Keeps the fewest candidates, heaviest first and lower ids first among equals, whose weights (or number) reach
// `wanted`. Finds the smallest key to keep byte by byte, the highest byte first: four passes over ever fewer
// candidates, for any distribution.
void Sampler::keep_heaviest(uint64_t wanted, bool count_tokens) {
  const auto mass = [&](const Candidate& c) { return count_tokens ? kCountEach : c.weight; };
  uint64_t total = 0;
  for (const Candidate& c : candidates_) total += mass(c);
  if (total <= wanted) return;

  narrowed_ = candidates_;
  uint32_t cut = 0;  // the smallest key to keep, as far as its bytes are known
  for (int shift = 24; shift >= 0; shift -= 8) {
    std::array<uint64_t, 256> histogram{};
    const auto digit_of = [&](const Candidate& c) { return c.key >> shift & 0xFFu; };
    for (const Candidate& c : narrowed_) histogram[digit_of(c)] += mass(c);
    uint32_t digit = 255;
    while (histogram[digit] < wanted) wanted -= histogram[digit--];
    cut |= digit << shift;
    std::erase_if(narrowed_, [&](const Candidate& c) { return digit_of(c) != digit; });
  }
  // `wanted` is now the weight (or number) that the candidates whose key is exactly `cut` must still contribute.
  std::erase_if(candidates_, [&](const Candidate& c) {
    if (c.key != cut) return c.key < cut;
    const bool drop = wanted == 0;
    wanted -= std::min(wanted, mass(c));
    return drop;
  });
}

namespace {

// A logit that is more than 100 below the largest logit does not change the rounded sum, for any vocabulary.
constexpr double kNegligible = -100;

double log_sum_exp(std::span<const float> logits) {
  const double max = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) {
    const double x = static_cast<double>(logit) - max;
    if (x > kNegligible) sum += portable_exp(x);
  }
  return max + portable_log(sum);
}

}  // namespace

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, size_t n_top) {
  CHECK_LT(static_cast<size_t>(id), logits.size());
  CHECK_LE(n_top, kMaxTopLogprobs);
  const double total = log_sum_exp(logits);
  const auto logprob = [&](size_t i) { return static_cast<double>(logits[i]) - total; };
  TokenLogprobs out{id, logprob(static_cast<size_t>(id)), {}};
  // The tokens with the largest logits so far, sorted. Few logits exceed the smallest of these, so few elements are
  // moved.
  std::vector<size_t> best;
  for (size_t i = 0; i < logits.size() && n_top > 0; ++i) {
    if (logits[i] < std::numeric_limits<float>::lowest()) continue;
    if (best.size() == n_top && !(logits[i] > logits[best.back()])) continue;
    if (best.size() == n_top) best.pop_back();
    const auto after =
        std::upper_bound(best.begin(), best.end(), i, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    best.insert(after, i);
  }
  for (const size_t i : best) out.top.push_back({static_cast<TokenId>(i), logprob(i)});
  return out;
}

TokenLogprobs token_logprobs(std::span<const float> logits, TokenId id, TokenSpan ids) {
  const double total = log_sum_exp(logits);
  const auto logprob = [&](TokenId one) { return static_cast<double>(logits[static_cast<size_t>(one)]) - total; };
  TokenLogprobs out{id, logprob(id), {}};
  std::set<TokenId> listed(ids.begin(), ids.end());
  listed.insert(id);
  for (const TokenId one : listed) {
    if (std::isfinite(logprob(one))) out.top.push_back({one, logprob(one)});
  }
  std::ranges::stable_sort(out.top, std::ranges::greater(), &TokenLogprobs::Likely::logprob);
  return out;
}

}  // namespace ibid
