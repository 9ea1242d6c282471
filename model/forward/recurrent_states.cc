// Advances the states of recurrent layers: from the state at which a sequence resumes, through the rows of the pass, to
// the state that is stored, with a log of the rows.
//
// If rows of a sequence's last pass were rejected (drafts), the sequence resumes from the state before that pass, and
// first replays the accepted rows (SequenceState::n_replayed). These were logged as inputs of the convolution, so only
// convolution and states are recomputed.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/portable_math.h"
#include "model/forward/architecture_steps.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

// One part of a row of the convolution: q, k or v.
struct Segment {
  size_t at, width;
  WeightVector weight, bias;
};

std::array<Segment, 3> segments_of(const RecurrentMixer& mixer, const RecurrentWeights& w) {
  const bool all = mixer.has_heads();
  return {Segment{0, all ? mixer.q_width() : 0, w.conv_q, w.conv_q_bias},
          Segment{mixer.k_at(), all ? mixer.k_width() : 0, w.conv_k, w.conv_k_bias},
          Segment{mixer.v_at(), mixer.v_width(), w.conv_v, w.conv_v_bias}};
}

// Convolves channels [first, first + n) of a segment. The inputs and outputs in `step` start at channel `first`.
void convolve_channels(const PassModel& m, const Segment& segment, size_t first, size_t n, ConvStep step) {
  if (step.n_taps == 1) {  // no convolution
    for (size_t i = 0; i < step.n_rows; ++i) {
      m.kernels.activate({Activation::Kind::kSilu}, step.x + i * step.x_stride, n, step.y + i * step.y_stride);
    }
    return;
  }
  step.weight = segment.weight.data() + first;
  step.weight_stride = segment.width;
  step.bias = segment.bias.empty() ? nullptr : segment.bias.data() + first;
  m.kernels.short_conv(step, {0, n});
}

// Writes the history after the step's rows, the last n_taps - 1 inputs of the convolution, to `to`, with the stride of
// step.history.
void keep_last_rows(const ConvStep& step, size_t n, float* to) {
  const size_t n_kept = step.n_taps - 1;
  for (size_t i = 0; i < n_kept; ++i) {
    float* kept = to + i * step.history_stride;
    const size_t r = i + step.n_rows;  // counts rows of the old history, then of x
    if (r >= n_kept) {
      std::copy_n(step.x + (r - n_kept) * step.x_stride, n, kept);
    } else if (step.history != nullptr) {
      std::copy_n(step.history + r * step.history_stride, n, kept);
    } else {
      std::fill_n(kept, n, 0.0f);
    }
  }
}

// The rows of one sequence in a pass, and its state.
struct Part {
  SequenceState& state;
  size_t layer;  // index among the layers that have a state
  size_t first_row, n_rows;
};

// Returns the convolution's history (its last n_taps - 1 inputs) before the rows of the pass: that of the state or, if
// rows are replayed, that after the replayed rows.
const float* history_of(const RecurrentMixer& mixer, const Part& of, Range channels) {
  const float* before = of.state.before(of.layer);
  if (of.state.n_replayed() == 0) return before;
  const size_t n_kept = mixer.n_taps - 1, stride = mixer.convolved();
  float* to = of.state.replayed(of.layer);
  for (size_t i = 0; i < n_kept; ++i) {
    const size_t r = i + of.state.n_replayed();
    float* kept = to + i * stride + channels.begin;
    const float* from = r >= n_kept         ? of.state.replayed_row(of.layer, r - n_kept)
                        : before != nullptr ? before + r * stride
                                            : nullptr;
    if (from == nullptr) {
      std::fill_n(kept, channels.size(), 0.0f);
    } else {
      std::copy_n(from + channels.begin, channels.size(), kept);
    }
  }
  return to;
}

// Convolves channels of one sequence, numbered from the first convolved channel.
void convolve_part(const PassModel& m, size_t layer, const Part& of, Range channels) {
  const RecurrentMixer& mixer = m.config.recurrent;
  const RecurrentBuffers& b = m.acts.recurrent;
  const size_t stride = mixer.convolved(), shift = mixer.first_convolved();
  const float* history = mixer.n_taps > 1 ? history_of(mixer, of, channels) : nullptr;
  const Rows in{b.in.row(of.first_row) + shift, b.in.stride}, out{b.conv.row(of.first_row) + shift, b.conv.stride};
  for (const Segment& segment : segments_of(mixer, m.weights.layers[layer].recurrent)) {
    if (segment.width == 0) continue;
    const size_t at = segment.at - shift;
    const size_t begin = std::max(channels.begin, at), end = std::min(channels.end, at + segment.width);
    if (begin >= end) continue;
    const ConvStep step{.n_taps = mixer.n_taps,
                        .n_rows = of.n_rows,
                        .history = history == nullptr ? nullptr : history + begin,
                        .history_stride = stride,
                        .x = in.data + begin,
                        .x_stride = in.stride,
                        .y = out.data + begin,
                        .y_stride = out.stride,
                        .silu = mixer.rule != RecurrentRule::kShortConv};
    convolve_channels(m, segment, begin - at, end - begin, step);
  }
  const size_t n = channels.size();
  const ConvStep all{.n_taps = mixer.n_taps,
                     .n_rows = of.n_rows,
                     .history = history == nullptr ? nullptr : history + channels.begin,
                     .history_stride = stride,
                     .x = in.data + channels.begin,
                     .x_stride = in.stride};
  keep_last_rows(all, n, of.state.after(of.layer) + channels.begin);
  for (size_t i = 0; i < of.n_rows; ++i) {
    float* logged = of.state.logged_row(of.layer, i);
    if (logged != nullptr) std::copy_n(in.row(i) + channels.begin, n, logged + channels.begin);
  }
}

// Adds biases and factors to the outputs of W h. For short convolutions also computes the product k * v, their input.
void prepare_channels(const PassModel& m, const RecurrentWeights& w, size_t row, Range channels) {
  const RecurrentMixer& mixer = m.config.recurrent;
  float* in = m.acts.recurrent.in.row(row);
  const size_t v = mixer.v_at(), shift = mixer.first_convolved();
  if (mixer.rule == RecurrentRule::kShortConv) {
    const size_t first = channels.begin, n = std::min(channels.end, mixer.v_width()) - first;
    add_bias(m, w.b_q, first, n, in);
    add_bias(m, w.b_k, first, n, in + mixer.k_at());
    add_bias(m, w.b_v, first, n, in + v);
    return m.kernels.multiply(in + v + first, in + mixer.k_at() + first, channels.size());
  }
  const auto scale = [&](size_t at, size_t width, WeightVector bias, float factor) {
    const size_t begin = std::max(channels.begin + shift, at), end = std::min(channels.end + shift, at + width);
    if (begin >= end) return;
    add_bias(m, bias, begin - at, end - begin, in + at);
    if (factor != 1) m.kernels.scale(in + begin, factor, end - begin);
  };
  scale(0, mixer.q_width(), w.b_q, mixer.q_scale);
  scale(mixer.k_at(), mixer.k_width(), w.b_k, mixer.k_scale);
  scale(v, mixer.v_width(), w.b_v, mixer.v_scale);
}

void prepare_gate(const PassModel& m, const RecurrentWeights& w, size_t row) {
  const RecurrentMixer& mixer = m.config.recurrent;
  float* z = m.acts.recurrent.z.row(row);
  add_bias(m, w.b_z, 0, mixer.z_width(), z);
  if (mixer.z_scale != 1) m.kernels.scale(z, mixer.z_scale, mixer.z_width());
}

// Computes the rates and decays of a row, per head or per key dimension.
void prepare_numbers(const PassModel& m, const RecurrentWeights& w, size_t row) {
  const RecurrentMixer& mixer = m.config.recurrent;
  const RecurrentBuffers& b = m.acts.recurrent;
  float *rates = b.rates.row(row), *decays = b.decays.row(row);
  const size_t n_heads = mixer.n_heads;
  if (mixer.rule == RecurrentRule::kMamba2) {
    add_bias(m, w.b_rate, 0, n_heads, rates);
    if (mixer.number_scale != 1) m.kernels.scale(rates, mixer.number_scale, n_heads);
    m.kernels.softplus(rates, w.step_bias.data(), n_heads, rates);
    for (size_t h = 0; h < n_heads; ++h) rates[h] = std::min(std::max(rates[h], mixer.step_low), mixer.step_high);
    m.kernels.decay(rates, w.decay.data(), n_heads, decays);
    return;
  }
  m.kernels.activate({Activation::Kind::kSigmoid}, rates, n_heads, rates);
  if (mixer.rate_scale != 1) m.kernels.scale(rates, mixer.rate_scale, n_heads);
  m.kernels.softplus(decays, w.step_bias.data(), mixer.decay_width(), decays);
  if (mixer.rule == RecurrentRule::kGatedDelta) return m.kernels.decay(decays, w.decay.data(), n_heads, decays);
  for (size_t h = 0; h < n_heads; ++h) {
    float* of_head = decays + h * mixer.key_dim;
    m.kernels.scale(of_head, w.decay[h], mixer.key_dim);
    m.kernels.decay(of_head, b.unit, mixer.key_dim, of_head);
  }
}

void log_numbers(const RecurrentMixer& mixer, const RecurrentBuffers& b, const Part& of, size_t i) {
  float* logged = of.state.logged_row(of.layer, i);
  if (logged == nullptr) return;
  std::copy_n(b.rates.row(of.first_row + i), mixer.logged_rates(), logged + mixer.rates_at());
  std::copy_n(b.decays.row(of.first_row + i), mixer.logged_decays(), logged + mixer.decays_at());
}

// Rows of one sequence as a head reads them: convolved q, k and v, rates and decays.
struct HeadRows {
  size_t n_rows;
  const float *queries, *keys, *values;
  size_t stride;  // stride of queries, keys and values
  const float *rates, *decays;
  size_t number_stride;  // stride of rates and decays
};

// Advances the state of one head through the rows of one sequence.
class Head {
 public:
  Head(const PassPart& p, size_t layer, const Part& of, size_t head)
      : m_(p.model),
        mixer_(m_.config.recurrent),
        w_(m_.weights.layers[layer].recurrent),
        of_(of),
        head_(head),
        key_head_(mixer_.key_head_of(head)),
        at_(mixer_.history_floats() + head * mixer_.head_floats()),
        scratch_(m_.acts.recurrent.scratch.row(static_cast<size_t>(p.worker.index()))) {
    if (mixer_.rule == RecurrentRule::kLightning) fixed_decay_ = lightning_decay(layer);
  }

  void run() {
    const float* before = of_.state.before(of_.layer);
    if (before != nullptr) before += at_;
    float* after = of_.state.after(of_.layer) + at_;
    if (of_.state.n_replayed() != 0) {
      float* replayed = of_.state.replayed(of_.layer) + at_;
      for (size_t i = 0; i < of_.state.n_replayed(); ++i) {
        advance(row_again(i), before, replayed, nullptr);
        before = replayed;
      }
    }
    const RecurrentBuffers& b = m_.acts.recurrent;
    const float* row = b.conv.row(of_.first_row);
    HeadRows rows{of_.n_rows,
                  row + key_head_ * mixer_.key_dim,
                  row + mixer_.k_at() + key_head_ * mixer_.key_dim,
                  row + mixer_.v_at() + head_ * mixer_.value_dim,
                  b.conv.stride,
                  b.rates.row(of_.first_row) + head_,
                  b.decays.row(of_.first_row) + decay_at(),
                  b.rates.stride};
    advance(rows, before, after, b.out.row(of_.first_row) + head_ * mixer_.value_dim);
  }

 private:
  size_t decay_at() const { return mixer_.rule == RecurrentRule::kKeyedDelta ? head_ * mixer_.key_dim : head_; }

  // Returns the decay of this head, from the slopes of ALiBi (Press et al. 2022); it is smaller in later layers.
  float lightning_decay(size_t layer) const {
    const double h = static_cast<double>(head_ + 1) / static_cast<double>(mixer_.n_heads);
    const double depth = static_cast<double>(layer) / (static_cast<double>(m_.config.n_layers - 1) + 1e-5);
    return static_cast<float>(portable_exp(-portable_pow(2.0, -8.0 * h) * (1.0 - depth + 1e-5)));
  }

  // Returns the keys and values of replayed row i. SequenceState::replayed_row() has them as they were before the
  // convolution, so this function computes the convolution again.
  HeadRows row_again(size_t i) {
    const RecurrentBuffers::Window window(mixer_);
    float* out = scratch_ + RecurrentBuffers::block_floats(mixer_);
    float* inputs = out + window.width;
    const size_t k_at = mixer_.k_at() + key_head_ * mixer_.key_dim, v_at = mixer_.v_at() + head_ * mixer_.value_dim;
    const size_t n_kept = mixer_.n_taps - 1;
    for (size_t j = 0; j <= n_kept; ++j) {
      const size_t r = i + j;  // counts rows of the history, then replayed rows
      const float* before = of_.state.before(of_.layer);
      const float* from = r >= n_kept         ? of_.state.replayed_row(of_.layer, r - n_kept)
                          : before != nullptr ? before + r * mixer_.convolved()
                                              : nullptr;
      float* to = inputs + j * window.width;
      std::fill_n(to, window.width, 0.0f);
      if (from == nullptr) continue;
      std::copy_n(from + k_at, mixer_.key_dim, to);
      std::copy_n(from + v_at, mixer_.value_dim, to + window.values_at);
    }
    const std::array<Segment, 3> segments = segments_of(mixer_, w_);
    ConvStep step{.n_taps = mixer_.n_taps,
                  .n_rows = 1,
                  .history = inputs,
                  .history_stride = window.width,
                  .x = inputs + n_kept * window.width,
                  .x_stride = window.width,
                  .y = out,
                  .y_stride = window.width,
                  .silu = true};
    convolve_channels(m_, segments[1], k_at - mixer_.k_at(), mixer_.key_dim, step);
    step.history += window.values_at, step.x += window.values_at, step.y += window.values_at;
    convolve_channels(m_, segments[2], v_at - mixer_.v_at(), mixer_.value_dim, step);
    const float* logged = of_.state.replayed_row(of_.layer, i);
    return {1,
            out,
            out,
            out + window.values_at,
            window.width,
            logged + mixer_.rates_at() + head_,
            logged + mixer_.decays_at() + decay_at(),
            0};
  }

  void advance(const HeadRows& rows, const float* before, float* after, float* out) {
    StateStep step{.n_keys = mixer_.key_dim,
                   .n_values = mixer_.value_dim,
                   .n_rows = rows.n_rows,
                   .delta = mixer_.is_delta(),
                   .decay_per_key = mixer_.rule == RecurrentRule::kKeyedDelta,
                   .keys = rows.keys,
                   .queries = rows.queries,
                   .decayed_keys = rows.keys,
                   .decays = rows.decays,
                   .key_stride = rows.stride,
                   .values = rows.values,
                   .value_stride = rows.stride,
                   .rates = rows.rates,
                   .number_stride = rows.number_stride,
                   .before = before,
                   .after = after,
                   .out = out,
                   .out_stride = m_.acts.recurrent.out.stride};
    if (mixer_.rule == RecurrentRule::kLightning) {
      step.rates = nullptr;
      step.decays = &fixed_decay_;
      step.number_stride = 0;
    }
    if (!w_.skip.empty()) step.skip = w_.skip[head_];
    if (!mixer_.is_delta()) return m_.kernels.update_state(step);
    for (size_t first = 0; first < rows.n_rows; first += RecurrentBuffers::kBlockRows) {
      step.n_rows = std::min(RecurrentBuffers::kBlockRows, rows.n_rows - first);
      prepare_keys(rows, first, step);
      m_.kernels.update_state(step);
      step.before = after;
    }
  }

  // Computes keys and queries of unit length, and keys after the decay, for the rows from `first` on.
  void prepare_keys(const HeadRows& rows, size_t first, StateStep& step) const {
    const size_t n = mixer_.key_dim, stride = RecurrentMixer::padded(n);
    float* keys = scratch_;
    float* queries = keys + RecurrentBuffers::kBlockRows * stride;
    float* decayed = queries + RecurrentBuffers::kBlockRows * stride;
    float* decays = decayed + RecurrentBuffers::kBlockRows * stride;
    const float unit = 1.0f / std::sqrt(static_cast<float>(n)), eps = 1e-6f / static_cast<float>(n);
    for (size_t i = 0; i < step.n_rows; ++i) {
      float *k = keys + i * stride, *q = queries + i * stride, *d = decayed + i * stride;
      m_.kernels.rms_norm(rows.keys + (first + i) * rows.stride, m_.acts.recurrent.unit, eps, n, k);
      m_.kernels.rms_norm(rows.queries + (first + i) * rows.stride, m_.acts.recurrent.unit, eps, n, q);
      m_.kernels.scale(k, unit, n);         // k / |k|
      m_.kernels.scale(q, unit * unit, n);  // q / (|q| sqrt(N))
      const float* decay = rows.decays + (first + i) * rows.number_stride;
      std::copy_n(k, n, d);
      if (step.decay_per_key) {
        std::copy_n(decay, n, decays + i * stride);
        m_.kernels.multiply(d, decay, n);
      } else {
        m_.kernels.scale(d, decay[0], n);
      }
    }
    step.keys = keys, step.queries = queries, step.decayed_keys = decayed, step.key_stride = stride;
    step.decays = step.decay_per_key ? decays : rows.decays + first * rows.number_stride;
    step.rates = rows.rates + first * rows.number_stride;
    step.values = rows.values + first * rows.stride;
    if (step.out != nullptr && first != 0) step.out += RecurrentBuffers::kBlockRows * step.out_stride;
  }

  const PassModel& m_;
  const RecurrentMixer& mixer_;
  const RecurrentWeights& w_;
  const Part& of_;
  const size_t head_, key_head_;
  const size_t at_;  // offset of the head's S in the state
  float* scratch_;
  float fixed_decay_ = 1;
};

// Calls visit(part) for each sequence of the pass.
template <typename Visit>
void for_each_part(const PassPart& p, size_t layer, Visit&& visit) {
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    visit(Part{chunk.entry->state(), p.model.config.layers[layer].state_layer, first_row, chunk.tokens.size()});
    first_row += chunk.tokens.size();
  }
}

}  // namespace

void convolve(const PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const RecurrentMixer& mixer = m.config.recurrent;
  const RecurrentWeights& w = m.weights.layers[layer].recurrent;
  const Range channels = p.worker.share(mixer.convolved(), kPanelRows), own_rows = p.worker.share(p.pass.n_rows());
  const bool has_numbers = mixer.rate_width() != 0;
  for (size_t i = 0; i < p.pass.n_rows() && !channels.empty(); ++i) prepare_channels(m, w, i, channels);
  for (size_t i = own_rows.begin; i < own_rows.end; ++i) {
    prepare_gate(m, w, i);
    if (has_numbers) prepare_numbers(m, w, i);
  }
  for_each_part(p, layer, [&](const Part& part) {
    if (!channels.empty()) convolve_part(m, layer, part, channels);
    for (size_t i = 0; i < part.n_rows && has_numbers; ++i) {
      const size_t row = part.first_row + i;
      if (row >= own_rows.begin && row < own_rows.end) log_numbers(mixer, m.acts.recurrent, part, i);
    }
    if (p.worker.index() == 0) part.state.stage(part.layer, part.n_rows);
  });
}

void advance_heads(const PassPart& p, size_t layer) {
  const size_t n_heads = p.model.config.recurrent.n_heads;
  const Range units = p.worker.share(p.pass.batch.size() * n_heads);
  size_t first = 0;
  for_each_part(p, layer, [&](const Part& part) {
    for (size_t head = 0; head < n_heads; ++head) {
      if (first + head >= units.begin && first + head < units.end) Head(p, layer, part, head).run();
    }
    first += n_heads;
  });
}

}  // namespace ibid::forward
