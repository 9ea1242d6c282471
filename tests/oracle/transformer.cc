// Shapes: T rows, D dim, V vocab_size.
#include "tests/oracle/transformer.h"

#include <cmath>
#include <vector>

#include "tests/oracle/layer_inputs.h"
#include "tests/oracle/mlp.h"
#include "tests/oracle/model.h"
#include "tests/oracle/norms.h"
#include "tests/oracle/recurrent.h"
#include "tests/oracle/self_attention.h"
#include "tests/oracle/streams.h"

namespace ibid::oracle {

namespace {

using enum TensorRole;

// x = E[token] (+ P[position])
Matrix embed(const Model& model, TokenSpan tokens) {
  const ModelConfig& c = model.config;
  const Matrix embeddings = model.weights.matrix(kEmbed);
  Matrix x(static_cast<Index>(tokens.size()), static_cast<Index>(c.dim));
  for (Index i = 0; i < x.rows(); ++i) {
    x.row(i) = static_cast<double>(c.embed_scale) * embeddings.row(tokens[static_cast<size_t>(i)]);
  }
  if (c.learned_positions) x += model.weights.matrix(kPositions).topRows(x.rows());
  return x;
}

// Returns the input of attention or the MLP: norm(x), or x itself if the model has norms only after the blocks.
Matrix norm_before(const Model& model, size_t layer, TensorRole weight, TensorRole bias, const Matrix& x) {
  const ModelConfig& c = model.config;
  if (c.norms_of(layer) == NormPlaces::kAfter) return x;
  const Vector b = c.norm == NormKind::kLayer ? model.weights.vector(bias, layer) : Vector();
  return norm(c, x, model.weights.norm(weight, layer), b);
}

// Norms and scales a block's output.
Matrix finish(const Model& model, size_t layer, TensorRole weight, const Matrix& given) {
  const ModelConfig& c = model.config;
  const Matrix normed =
      c.norms_of(layer) == NormPlaces::kBefore ? given : norm(c, given, model.weights.norm(weight, layer));
  return static_cast<double>(c.residual_scale) * normed;
}

// Returns x after a block with input h and output `given`.
Matrix after_block(const Matrix& x, const Matrix& h, const Residual& rule, const Matrix& given) {
  return static_cast<double>(rule.kept) * (rule.of_norm ? h : x) + static_cast<double>(rule.factor) * given;
}

// Menghani et al. 2024 (LAuReL): a low-rank bypass of attention. x includes attention's output.
Matrix with_laurel(const Model& model, size_t layer, const Matrix& x, const Matrix& h) {
  if (model.config.laurel_rank == 0) return x;
  const FileTensors& w = model.weights;
  const Matrix low = linear(linear(h, w.matrix(kLaurelLeft, layer)), w.matrix(kLaurelRight, layer));
  return (x + h + norm(model.config, low, w.norm(kLaurelNorm, layer))) / std::sqrt(2.0);
}

Matrix feed_forward(const Model& model, size_t layer, const Matrix& x, const Matrix& h) {
  const LayerConfig& of_layer = model.config.layers[layer];
  if (!of_layer.has_experts) return mlp(model, layer, h);
  if (of_layer.ffn_dim != 0) return mlp_beside_experts(model, layer, x, h);
  return experts(model, layer, h, h);
}

// Returns x after attention and MLP of a layer.
Matrix run_layer(const Model& model, size_t layer, const Matrix& x, std::vector<KeysAndValues>& cache) {
  const LayerConfig& of_layer = model.config.layers[layer];
  const bool mixes = of_layer.attends || of_layer.state_layer != kNoState;
  const Matrix h = mixes ? norm_before(model, layer, kAttnNorm, kAttnNormBias, x) : x;
  const ModelConfig& c = model.config;
  Matrix y = x;
  if (c.layers[layer].attends) {
    const Matrix given = finish(model, layer, kAttnPostNorm, self_attention(model, layer, h, cache));
    y = after_block(y, h, c.attention_residual, given);
  }
  if (c.layers[layer].state_layer != kNoState) {
    y = after_block(y, h, c.recurrent_residual, finish(model, layer, kAttnPostNorm, recurrent(model, layer, h)));
  }
  y = with_laurel(model, layer, y, h);
  if (!c.has_mlp(layer)) return y;
  Matrix read;
  if (!model.config.parallel) {
    read = norm_before(model, layer, kFfnNorm, kFfnNormBias, y);
  } else {  // Wang & Komatsuzaki 2021: the MLP and attention read the same x
    const bool has_own = model.weights.vector(kFfnNorm, layer).size() > 0;
    read = has_own ? norm_before(model, layer, kFfnNorm, kFfnNormBias, x) : h;
  }
  const Matrix given = finish(model, layer, kFfnPostNorm, feed_forward(model, layer, y, read));
  return after_block(y, read, c.mlp_residual, given);
}

// Zamba2 2024: the mixer reads the output of the shared block, which is not added to x.
Matrix run_layer_with_block(const Model& model, size_t layer, const Matrix& x, const Matrix& embedded) {
  const Matrix read = x + common_block(model, layer, x, embedded);
  return x + recurrent(model, layer, norm_before(model, layer, kAttnNorm, kAttnNormBias, read));
}

// Runs all layers, each with its layer input.
Matrix run_layers(const Model& model, TokenSpan tokens, Matrix x) {
  const ModelConfig& c = model.config;
  std::vector<KeysAndValues> cache(c.n_layers);
  const std::vector<Matrix> inputs = c.layer_inputs.used() ? layer_inputs(model, tokens, x) : std::vector<Matrix>();
  const Matrix embedded = x;
  for (size_t l = 0; l < c.n_layers; ++l) {
    const bool has_block = c.layers[l].common_layer != kNoLayer;
    x = has_block ? run_layer_with_block(model, l, x, embedded) : run_layer(model, l, x, cache);
    if (!inputs.empty()) x += from_layer_input(model, l, x, inputs[l]);
    if (!c.scaled_layers) continue;
    const Vector scale = model.weights.vector(kOutScale, l);
    if (scale.size() > 0) x *= scale[0];
  }
  return x;
}

// As run_layers(), with several streams instead of x.
Matrix run_layers_on_streams(const Model& model, TokenSpan tokens, const Matrix& x) {
  const ModelConfig& c = model.config;
  std::vector<KeysAndValues> cache(c.n_layers);
  const std::vector<Matrix> inputs = c.layer_inputs.used() ? layer_inputs(model, tokens, x) : std::vector<Matrix>();
  Streams streams = spread(model, x);
  for (size_t l = 0; l < c.n_layers; ++l) {
    const Streams predicted = predict(model, l, streams);
    streams = correct(model, l, predicted, run_layer(model, l, predicted[c.altup.active], cache));
    if (inputs.empty()) continue;
    Matrix active = streams[c.altup.active];
    if (c.altup.scales_active) active *= model.weights.vector(kAltUpScale, l).asDiagonal();
    const Matrix given = from_layer_input(model, l, active, inputs[l]);
    for (size_t s = 1; s < streams.size(); ++s) streams[s] += given;  // all except the first
  }
  return gather(model, streams);
}

Matrix final_norm(const Model& model, const Matrix& x) {
  const ModelConfig& c = model.config;
  const Vector bias = c.norm == NormKind::kLayer ? model.weights.vector(kFinalNormBias) : Vector();
  return norm(c, x, model.weights.norm(kFinalNorm), bias);
}

// logits = W_head h. h: after the final norm.
Matrix head(const Model& model, const Matrix& h) {
  const ModelConfig& c = model.config;
  Matrix w = c.tied ? Matrix() : model.weights.matrix(kLmHead);
  if (w.size() == 0) w = model.weights.matrix(kEmbed);
  Matrix logits = static_cast<double>(c.logit_scale) * linear(h, w, model.weights.vector(kBLmHead));
  const auto cap = static_cast<double>(c.logit_softcap);
  if (cap != 0) logits = cap * (logits.array() / cap).tanh();
  return logits;
}

Model make_model(const ModelFile& file, const ModelConfig& config, const Options& options) {
  Model model{config, FileTensors(file, config, options.weight_noise), {}};
  const size_t context = options.context == 0 ? config.trained_context : options.context;
  for (const RopeRule& rule : config.ropes) model.ropes.push_back(make_rope(file, rule, context));
  return model;
}

Matrix hidden_states(const Model& model, TokenSpan tokens) {
  const Matrix x = embed(model, tokens);
  const bool has_streams = model.config.altup.used();
  return final_norm(model, has_streams ? run_layers_on_streams(model, tokens, x) : run_layers(model, tokens, x));
}

}  // namespace

Matrix hidden_states(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options) {
  return hidden_states(make_model(file, config, options), tokens);
}

Matrix logits(const ModelFile& file, const ModelConfig& config, TokenSpan tokens, const Options& options) {
  const Model model = make_model(file, config, options);
  return head(model, hidden_states(model, tokens));
}

}  // namespace ibid::oracle
