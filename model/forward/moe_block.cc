#include "model/forward/moe_block.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "base/portable_math.h"

namespace ibid {

namespace {

constexpr float kTaken = -std::numeric_limits<float>::infinity();

// Returns the index of the largest value; among equal ones the first.
size_t best_of(std::span<const float> values) {
  size_t best = 0;
  for (size_t i = 1; i < values.size(); ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

void softmax(std::span<float> values) {
  const float largest = values[best_of(values)];
  float sum = 0;
  for (float& value : values) {
    value = portable_exp(value - largest);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

float sigmoid(float x) { return 1.0f / (1.0f + portable_exp(-x)); }

void score(RouterScores kind, std::span<const float> logits, std::span<float> scores) {
  std::copy(logits.begin(), logits.end(), scores.begin());
  if (kind == RouterScores::kSoftmax) softmax(scores);
  if (kind != RouterScores::kSigmoid) return;
  for (float& value : scores) value = sigmoid(value);
}

float two_best(std::span<const float> values) {
  float best = kTaken, second = kTaken;
  for (const float value : values) {
    second = std::max(second, std::min(best, value));
    best = std::max(best, value);
  }
  return best + second;
}

// Excludes the experts of all groups except the n_groups_active best ones.
void keep_best_groups(const RouterRule& rule, std::span<float> choice, std::span<float> groups) {
  const size_t size = rule.n_experts / rule.n_groups;
  for (size_t g = 0; g < rule.n_groups; ++g) groups[g] = two_best(choice.subspan(g * size, size));
  for (size_t i = 0; i < rule.n_groups_active; ++i) groups[best_of(groups)] = kTaken;
  for (size_t g = 0; g < rule.n_groups; ++g) {
    if (groups[g] != kTaken) std::fill_n(choice.begin() + static_cast<std::ptrdiff_t>(g * size), size, kTaken);
  }
}

// Takes the best n_experts_active experts, and lists them in ascending order of their numbers.
void take_best(std::span<float> choice, std::span<const float> scores, std::span<ExpertChoice> chosen) {
  for (ExpertChoice& taken : chosen) {
    const size_t best = best_of(choice);
    choice[best] = kTaken;
    taken = {static_cast<uint32_t>(best), scores[best]};
  }
  std::sort(chosen.begin(), chosen.end(), [](ExpertChoice a, ExpertChoice b) { return a.expert < b.expert; });
}

void softmax_of(std::span<ExpertChoice> chosen) {
  float largest = chosen[0].weight;
  for (const ExpertChoice& c : chosen) largest = std::max(largest, c.weight);
  float sum = 0;
  for (ExpertChoice& c : chosen) {
    c.weight = portable_exp(c.weight - largest);
    sum += c.weight;
  }
  for (ExpertChoice& c : chosen) c.weight /= sum;
}

void normalize(const RouterRule& rule, std::span<ExpertChoice> chosen) {
  float sum = 0;
  for (const ExpertChoice& c : chosen) sum += c.weight;
  const float divisor = std::max(sum, rule.smallest_sum);
  for (ExpertChoice& c : chosen) c.weight /= divisor;
}

}  // namespace

bool route(const RouterRule& rule, std::span<const float> logits, std::span<const float> choice_bias,
           std::span<float> scratch, std::span<ExpertChoice> chosen) {
  DCHECK(logits.size() == rule.n_experts && chosen.size() == rule.n_experts_active);
  DCHECK(scratch.size() >= route_scratch_floats(rule));
  if (!std::all_of(logits.begin(), logits.end(), [](float logit) { return std::isfinite(logit); })) {
    for (uint32_t i = 0; i < chosen.size(); ++i) chosen[i] = {i, 0.0f};
    return false;
  }
  const std::span<float> scores = scratch.first(rule.n_experts);
  const std::span<float> choice = scratch.subspan(rule.n_experts, rule.n_experts);
  score(rule.scores, logits, scores);
  std::copy(scores.begin(), scores.end(), choice.begin());
  for (size_t e = 0; e < choice_bias.size(); ++e) choice[e] += choice_bias[e];
  if (rule.n_groups > 1) keep_best_groups(rule, choice, scratch.subspan(2 * rule.n_experts, rule.n_groups));
  take_best(choice, scores, chosen);
  if (rule.scores == RouterScores::kSoftmaxOfChosen) softmax_of(chosen);
  if (rule.scores == RouterScores::kSigmoidOfChosen) {
    for (ExpertChoice& c : chosen) c.weight = sigmoid(c.weight);
  }
  if (rule.normalized) normalize(rule, chosen);
  for (ExpertChoice& c : chosen) c.weight *= rule.weight_scale;
  return true;
}

namespace {

// The outputs of two panels form one quantisation block of w_down's input. The worker that computes a block also
// quantises it.
constexpr size_t kPairPanels = kQuantBlock / kPanelRows;
// Reading a panel costs about as much as multiplying this number of rows by it.
constexpr size_t kReadRows = 8;

size_t n_pairs(const PackedMatrix& w) { return (w.n_panels() + kPairPanels - 1) / kPairPanels; }

// Divides items by their cost among workers: `line` is a worker's range of the total cost, and item i of n begins at
// offset + i * cost. Returns the range of the items that begin within `line`.
Range items_within(Range line, size_t offset, size_t cost, size_t n) {
  const auto first_from = [&](size_t at) { return at <= offset ? 0 : std::min(n, (at - offset + cost - 1) / cost); };
  return {first_from(line.begin), first_from(line.end)};
}

// Calls body(part) for consecutive parts of `whole`, each of at most `size`.
template <typename Body>
void for_parts(Range whole, size_t size, Body&& body) {
  for (size_t begin = whole.begin; begin < whole.end; begin += size) {
    body(Range{begin, std::min(begin + size, whole.end)});
  }
}

// One worker's part of the mixture of experts.
class Mixture {
 public:
  Mixture(const MoeStep& step, const MoeRule& rule, const MoeWeights& w, MoeBuffers& buffers)
      : s_(step),
        rule_(rule),
        w_(w),
        buffers_(buffers),
        own_(buffers.own[static_cast<size_t>(step.worker.index())]),
        kernels_(*step.linear.kernels),
        n_rows_(step.h.n_rows) {}

  bool run() {
    linear(s_.worker, s_.linear, w_.router, s_.router_h, buffers_.logits.data, buffers_.logits.stride);
    if (!w_.shared_gate.empty()) {
      linear(s_.worker, s_.linear, w_.shared_gate, s_.h, buffers_.shared_gate.data, buffers_.shared_gate.stride);
    }
    s_.worker.barrier();
    const bool finite = choose();
    if (!s_.computes_all) s_.worker.barrier();
    list_uses();
    gate_and_up();
    s_.worker.barrier();
    down();
    return finite;
  }

 private:
  ExpertChoice* choices() const { return s_.computes_all ? own_.choices : buffers_.choices; }

  // Chooses the experts of this worker's rows. Returns false if logits are not finite.
  bool choose() {
    const size_t n_experts = rule_.router.n_experts, k = rule_.router.n_experts_active;
    const std::span<float> logits(own_.router_scratch, n_experts);
    const std::span<float> scratch(own_.router_scratch + n_experts, route_scratch_floats(rule_.router));
    bool finite = true;
    for (size_t i = s_.rows.begin; i < s_.rows.end; ++i) {
      std::copy_n(buffers_.logits.row(i), n_experts, logits.data());
      if (!w_.router_bias.empty()) kernels_.add(logits.data(), w_.router_bias.data(), n_experts);
      finite &= route(rule_.router, logits, w_.choice_bias, scratch, {choices() + i * k, k});
      for (size_t c = 0; c < k && !w_.expert_scale.empty(); ++c) {
        ExpertChoice& choice = choices()[i * k + c];
        choice.weight *= w_.expert_scale[choice.expert];
      }
    }
    return finite;
  }

  // Sorts all choices by expert. Each worker sorts for itself, which costs less than a barrier.
  void list_uses() {
    const size_t n_choices = n_rows_ * rule_.router.n_experts_active;
    const std::span<const ExpertChoice> all(choices(), n_choices);
    const std::span<size_t> counts(own_.counts, rule_.router.n_experts);
    std::fill(counts.begin(), counts.end(), size_t{0});
    for (const ExpertChoice& c : all) ++counts[c.expert];
    n_uses_ = 0;
    size_t first = 0, slot = 0;
    for (size_t e = 0; e < counts.size(); ++e) {
      const size_t n = counts[e];
      counts[e] = first;  // from here on: index of the expert's next row
      if (n == 0) continue;
      own_.uses[n_uses_++] = {&w_.experts[e], n, n == n_rows_ ? nullptr : own_.rows + first, own_.weights + first,
                              buffers_.gated.rows(slot, n)};
      first += n;
      slot += round_up(n, kRowGroup);
    }
    for (size_t i = 0; i < n_choices; ++i) {
      const size_t at = counts[all[i].expert]++;
      own_.rows[at] = static_cast<uint32_t>(i / rule_.router.n_experts_active);
      own_.weights[at] = all[i].weight;
    }
    if (w_.shared.w_up.empty()) return;
    const bool gated = !w_.shared_gate.empty();
    for (size_t i = 0; gated && i < n_rows_; ++i) {
      own_.shared_weights[i] = 1.0f / (1.0f + portable_exp(-buffers_.shared_gate.row(i)[0]));
    }
    own_.uses[n_uses_++] = {&w_.shared, n_rows_, nullptr, gated ? own_.shared_weights : nullptr,
                            buffers_.shared_gated.rows(0, n_rows_)};
  }

  std::span<const ExpertUse> uses() const { return {own_.uses, n_uses_}; }

  // gated = act(W_gate h, W_up h) for the rows of all experts (ExpertUse). The panel pairs of all experts form one
  // sequence; each worker takes a part of equal cost.
  void gate_and_up() {
    const auto cost = [](const ExpertUse& use) { return use.n_rows + kReadRows; };
    size_t length = 0;
    for (const ExpertUse& use : uses()) length += cost(use) * n_pairs(use.expert->w_up);
    const Range line = s_.worker.share(length);
    size_t offset = 0;
    for (const ExpertUse& use : uses()) {
      const size_t pairs = n_pairs(use.expert->w_up);
      const Range own_share = items_within(line, offset, cost(use), pairs);
      offset += cost(use) * pairs;
      if (own_share.empty()) continue;
      const Range panels{own_share.begin * kPairPanels,
                         std::min(own_share.end * kPairPanels, use.expert->w_up.n_panels())};
      for_parts({0, use.n_rows}, kMoeTileRows, [&](Range rows) {
        const LinearInput x = input_of(use, rows);
        for_parts(panels, kMoeTilePanels, [&](Range part) { gate_and_up_tile(use, rows, x, part); });
      });
    }
  }

  // Returns the rows of h that the expert computes, gathered in one buffer.
  LinearInput input_of(const ExpertUse& use, Range rows) {
    if (use.rows == nullptr) return s_.h.rows(rows.begin, rows.size());
    const bool float_up = panel_is_float(use.expert->w_up.type);
    const bool float_gate = rule_.gated ? panel_is_float(use.expert->w_gate.type) : float_up;
    gather_rows(s_.h, {use.rows + rows.begin, rows.size()}, {float_gate || float_up, !float_gate || !float_up},
                own_.gathered);
    return own_.gathered;
  }

  void gate_and_up_tile(const ExpertUse& use, Range rows, const LinearInput& x, Range panels) {
    const Expert& e = *use.expert;
    const size_t first = panels.begin * kPanelRows;
    const size_t n = std::min(panels.end * kPanelRows, e.w_up.n_rows) - first;
    LinearInput gated = use.gated.rows(rows.begin, rows.size());
    const PackedMatrix w_up = panels_of(e.w_up, panels);
    const Range all{0, w_up.n_panels()};
    if (rule_.gated) {
      linear_panels(s_.worker, s_.linear, panels_of(e.w_gate, panels), x, all, gated.values + first, gated.stride);
    }
    linear_panels(s_.worker, s_.linear, w_up, x, all, own_.tile.data, own_.tile.stride);
    // The worker with the last columns also quantises the padding.
    const bool last = panels.end == e.w_up.n_panels();
    const Range blocks{first / kQuantBlock, last ? gated.quantized.blocks() : (first + n) / kQuantBlock};
    for (size_t i = 0; i < rows.size(); ++i) {
      float* values = gated.values + i * gated.stride;
      float* up = own_.tile.row(i);
      if (use.weights != nullptr && !weighs_output(use)) {
        if (rule_.gated) kernels_.scale(values + first, use.weights[rows.begin + i], n);
        kernels_.scale(up, use.weights[rows.begin + i], n);
      }
      if (!e.b_gate.empty()) kernels_.add(values + first, e.b_gate.data() + first, n);
      if (!e.b_up.empty()) kernels_.add(up, e.b_up.data() + first, n);
      activate(values + first, up, n);
      if (gated.quantized.q != nullptr) kernels_.quantize_blocks(values, i, blocks, gated.quantized);
    }
  }

  void activate(float* gate, const float* up, size_t n) const {
    if (!rule_.gated) return kernels_.activate(rule_.activation, up, n, gate);
    if (rule_.swiglu_limit != 0) {
      return kernels_.clamped_swiglu(gate, up, rule_.swiglu_limit, rule_.swiglu_alpha, n, gate);
    }
    if (rule_.activation.kind == Activation::Kind::kSilu) return kernels_.silu_mul(gate, up, n, gate);
    kernels_.activate(rule_.activation, gate, n, gate);
    kernels_.multiply(gate, up, n);
  }

  // out = sum over experts of weight * (W_down * gated). A worker computes its columns for all rows, by ascending
  // expert.
  void down() {
    const Range panels = s_.worker.share((s_.h.n_cols + kPanelRows - 1) / kPanelRows);
    for_parts(panels, kMoeTilePanels, [&](Range part) {
      const size_t first = part.begin * kPanelRows;
      const size_t n = std::min(part.end * kPanelRows, s_.h.n_cols) - first;
      for (size_t i = 0; i < n_rows_; ++i) std::memset(s_.out.row(i) + first, 0, n * sizeof(float));
      for (const ExpertUse& use : uses()) {
        for_parts({0, use.n_rows}, kMoeTileRows, [&](Range rows) { down_tile(use, rows, part, first, n); });
      }
    });
  }

  void down_tile(const ExpertUse& use, Range rows, Range panels, size_t first, size_t n) {
    const Expert& e = *use.expert;
    const PackedMatrix w_down = panels_of(e.w_down, panels);
    linear_panels(s_.worker, s_.linear, w_down, use.gated.rows(rows.begin, rows.size()), {0, w_down.n_panels()},
                  own_.tile.data, own_.tile.stride);
    for (size_t i = 0; i < rows.size(); ++i) {
      float* y = own_.tile.row(i);
      const size_t index = rows.begin + i;
      if (!e.b_down.empty()) kernels_.add(y, e.b_down.data() + first, n);
      if (weighs_output(use)) kernels_.scale(y, use.weights[index], n);
      kernels_.add(s_.out.row(use.rows == nullptr ? index : use.rows[index]) + first, y, n);
    }
  }

  // True if router weights scale the output of this use. The shared expert's gate always scales its output, even if
  // rule_.weighs_inputs is set for the other experts.
  bool weighs_output(const ExpertUse& use) const {
    return use.weights != nullptr && (!rule_.weighs_inputs || use.expert == &w_.shared);
  }

  const MoeStep& s_;
  const MoeRule& rule_;
  const MoeWeights& w_;
  MoeBuffers& buffers_;
  MoeBuffers::OfThread& own_;
  const Kernels& kernels_;
  const size_t n_rows_;
  size_t n_uses_ = 0;
};

}  // namespace

MoeBuffers MoeBuffers::lay_out(const MoeRule& rule, const Sizes& sizes,
                               const std::function<std::byte*(size_t)>& allocate) {
  const auto array = [&]<typename T>(T*& out, size_t n) { out = reinterpret_cast<T*>(allocate(n * sizeof(T))); };
  const auto rows = [&](size_t n, size_t width) {
    Rows r{nullptr, round_up(width, kChunkCols)};
    array(r.data, n * r.stride);
    return r;
  };
  const auto input = [&](size_t n, size_t width, bool quantized) {
    LinearInput x;
    const Rows values = rows(n, width);
    x.n_cols = width;
    x.values = values.data;
    x.stride = values.stride;
    std::byte* memory = quantized ? allocate(QuantizedRows::bytes(n, width)) : nullptr;
    if (memory != nullptr) x.quantized = QuantizedRows::from(memory, n, width);
    x.set_rows(n);
    return x;
  };
  const size_t n_experts = rule.router.n_experts, n_choices = sizes.max_rows * rule.router.n_experts_active;
  const size_t n_slots = n_choices + (kRowGroup - 1) * std::min(n_experts, n_choices);
  MoeBuffers b;
  b.logits = rows(sizes.max_rows, n_experts);
  b.shared_gate = rows(sizes.max_rows, 1);
  array(b.choices, n_choices);
  b.gated = input(n_slots, rule.ffn_dim, sizes.quantized_gated);
  if (rule.shared_ffn_dim > 0) {
    b.shared_gated = input(sizes.max_rows, rule.shared_ffn_dim, sizes.quantized_shared_gated);
  }
  for (int t = 0; t < sizes.n_threads; ++t) {
    OfThread& own = b.own.emplace_back();
    array(own.choices, sizes.own_rows * rule.router.n_experts_active);
    array(own.router_scratch, n_experts + route_scratch_floats(rule.router));
    array(own.counts, n_experts);
    array(own.rows, n_choices);
    array(own.weights, n_choices);
    array(own.shared_weights, sizes.max_rows);
    array(own.uses, n_experts + 1);
    own.gathered = input(kMoeTileRows, sizes.dim, sizes.quantized_h);
    own.tile = rows(kMoeTileRows, kMoeTilePanels * kPanelRows);
  }
  return b;
}

bool moe_block(const MoeStep& step, const MoeRule& rule, const MoeWeights& w, MoeBuffers& buffers) {
  return Mixture(step, rule, w, buffers).run();
}

}  // namespace ibid
