// Mixtures of experts, one row at a time. Sources: Shazeer et al. 2017; DeepSeek-V3 2024 (sigmoid scores, a bias for
// the choice only, groups); OpenAI 2025 (gpt-oss: clamped SwiGLU); Meta 2025 (Llama 4: weighted inputs).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "tests/oracle/activations.h"
#include "tests/oracle/mlp.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

Vector softmax(const Vector& x) {
  const Vector powers = (x.array() - x.maxCoeff()).exp();
  return powers / powers.sum();
}

// Returns the indices of the n largest numbers; among equal ones the lower index comes first.
std::vector<Index> largest(const Vector& x, Index n) {
  std::vector<Index> order(static_cast<size_t>(x.size()));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return x[a] > x[b]; });
  order.resize(static_cast<size_t>(n));
  return order;
}

// Excludes the experts of all groups except the best. The score of a group is the sum of its two best experts' scores.
void keep_best_groups(const RouterRule& rule, Vector& choice) {
  const auto n_groups = static_cast<Index>(rule.n_groups);
  const Index size = choice.size() / n_groups;
  Vector groups(n_groups);
  for (Index g = 0; g < n_groups; ++g) {
    const Vector group = choice.segment(g * size, size);
    const std::vector<Index> two = largest(group, 2);
    groups[g] = group[two[0]] + group[two[1]];
  }
  const std::vector<Index> best = largest(groups, static_cast<Index>(rule.n_groups_active));
  for (Index g = 0; g < n_groups; ++g) {
    if (std::find(best.begin(), best.end(), g) == best.end()) choice.segment(g * size, size).setConstant(-INFINITY);
  }
}

struct Chosen {
  std::vector<Index> experts;
  Vector weights;  // one per expert
};

Chosen route(const RouterRule& rule, const Vector& logits, const Vector& choice_bias) {
  Vector scores = logits;
  if (rule.scores == RouterScores::kSoftmax) scores = softmax(logits);
  if (rule.scores == RouterScores::kSigmoid) scores = logits.unaryExpr([](double x) { return sigmoid(x); });
  Vector choice = scores;
  if (choice_bias.size() > 0) choice += choice_bias;
  if (rule.n_groups > 1) keep_best_groups(rule, choice);

  Chosen chosen{largest(choice, static_cast<Index>(rule.n_experts_active)), {}};
  chosen.weights.resize(static_cast<Index>(chosen.experts.size()));
  for (size_t i = 0; i < chosen.experts.size(); ++i) chosen.weights[static_cast<Index>(i)] = scores[chosen.experts[i]];
  if (rule.scores == RouterScores::kSoftmaxOfChosen) chosen.weights = softmax(chosen.weights);
  if (rule.scores == RouterScores::kSigmoidOfChosen) {
    chosen.weights = Vector(chosen.weights.unaryExpr([](double x) { return sigmoid(x); }));
  }
  if (rule.normalized) chosen.weights /= std::max(chosen.weights.sum(), static_cast<double>(rule.smallest_sum));
  chosen.weights *= static_cast<double>(rule.weight_scale);
  return chosen;
}

struct Expert {
  Matrix w_gate, w_up, w_down;
  Vector b_gate, b_up, b_down;
};

Matrix give(const MoeRule& rule, const Expert& e, const Matrix& h) {
  if (!rule.gated) return linear(activate(rule.activation, linear(h, e.w_up, e.b_up)), e.w_down, e.b_down);
  Matrix gate = linear(h, e.w_gate, e.b_gate), up = linear(h, e.w_up, e.b_up);
  if (rule.swiglu_limit == 0) {
    gate = activate(rule.activation, gate);
  } else {
    const auto limit = static_cast<double>(rule.swiglu_limit), alpha = static_cast<double>(rule.swiglu_alpha);
    gate = gate.unaryExpr([&](double x) { return std::min(x, limit) * sigmoid(alpha * std::min(x, limit)); });
    up = up.unaryExpr([&](double x) { return std::clamp(x, -limit, limit) + 1; });
  }
  return linear(gate.cwiseProduct(up), e.w_down, e.b_down);
}

Expert expert(const FileTensors& w, size_t layer, size_t e) {
  return {w.matrix(kExpertGate, layer, e),  w.matrix(kExpertUp, layer, e),  w.matrix(kExpertDown, layer, e),
          w.vector(kBExpertGate, layer, e), w.vector(kBExpertUp, layer, e), w.vector(kBExpertDown, layer, e)};
}

}  // namespace

Matrix experts(const Model& model, size_t layer, const Matrix& h, const Matrix& router_h) {
  const MoeRule& rule = model.config.moe;
  const FileTensors& w = model.weights;
  std::vector<Expert> all;
  for (size_t e = 0; e < rule.router.n_experts; ++e) all.push_back(expert(w, layer, e));
  const Matrix logits = linear(router_h, w.matrix(kRouter, layer), w.vector(kBRouter, layer));
  const Vector choice_bias = w.vector(kChoiceBias, layer), expert_scale = w.vector(kExpertScale, layer);

  Matrix sum = Matrix::Zero(h.rows(), static_cast<Index>(model.config.dim));
  for (Index row = 0; row < h.rows(); ++row) {
    const Chosen chosen = route(rule.router, logits.row(row), choice_bias);
    for (size_t i = 0; i < chosen.experts.size(); ++i) {
      const Expert& e = all[static_cast<size_t>(chosen.experts[i])];
      double weight = chosen.weights[static_cast<Index>(i)];
      if (expert_scale.size() > 0) weight *= expert_scale[chosen.experts[i]];
      sum.row(row) += rule.weighs_inputs ? give(rule, e, weight * h.row(row)) : weight * give(rule, e, h.row(row));
    }
  }
  if (rule.shared_ffn_dim == 0) return sum;
  Expert shared;
  shared.w_gate = w.matrix(kSharedGate, layer);
  shared.w_up = w.matrix(kSharedUp, layer);
  shared.w_down = w.matrix(kSharedDown, layer);
  shared.b_gate = w.vector(kBSharedGate, layer);
  shared.b_up = w.vector(kBSharedUp, layer);
  shared.b_down = w.vector(kBSharedDown, layer);
  Matrix added = give(rule, shared, h);
  const Matrix w_shared = w.matrix(kSharedRouter, layer);
  if (w_shared.size() > 0) {
    const Matrix gate = linear(h, w_shared);  // [T, 1]
    for (Index row = 0; row < h.rows(); ++row) added.row(row) *= sigmoid(gate(row, 0));
  }
  return sum + added;
}

}  // namespace ibid::oracle
