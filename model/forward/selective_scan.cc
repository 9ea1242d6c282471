// Mamba-1 in the forward pass: each channel has a state of its own, and its step comes of the convolved x.
//
//   dt | B | C = W_scan x        dt = softplus(W_step norm(dt) + bias)        h = exp(dt A) h + B dt x
//   o = C h + D x                (B and C through norms, where the model has them)
//
// Source: Gu & Dao 2023; Lieber et al. 2024 (Jamba: the norms).
#include <algorithm>

#include "model/forward/recurrent_block.h"
#include "model/forward/row_steps.h"

namespace ibid::forward {

namespace {

// y = norm(x), or x where the model has no such norm.
void norm_short(const PassModel& m, WeightVector weight, const float* x, size_t n, float* y) {
  if (weight.empty()) {
    std::copy_n(x, n, y);
  } else {
    m.kernels.rms_norm(x, weight.data(), m.config.recurrent.norm_eps, n, y);
  }
}

// dt of each channel as W_step gives it; B and C.
void project_steps(PassPart& p, size_t layer) {
  const PassModel& m = p.model;
  const RecurrentMixer& mixer = m.config.recurrent;
  const RecurrentWeights& w = m.weights.layers[layer].recurrent;
  const RecurrentBuffers& b = m.acts.recurrent;
  LinearInput &x = p.buffers.mixed, &low = p.buffers.recurrent_low;
  const size_t rank = mixer.step_rank, n = mixer.key_dim;

  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    std::copy_n(b.conv.row(i) + mixer.v_at(), mixer.v_width(), x.values + i * x.stride);
  }
  quantize(p, x);
  p.barrier_if_shared();
  linear(p, w.w_scan, x, b.low);                                         // [T, R + 2 N]
  p.worker.barrier();
  for (size_t i = p.rows.begin; i < p.rows.end; ++i) {
    norm_short(m, w.step_norm, b.low.row(i), rank, low.values + i * low.stride);
    float* numbers = p.buffers.scan_numbers.row(i);
    norm_short(m, w.b_norm, b.low.row(i) + rank, n, numbers);
    norm_short(m, w.c_norm, b.low.row(i) + rank + n, n, numbers + RecurrentMixer::padded(n));
  }
  quantize(p, low);
  p.barrier_if_shared();
  linear(p, w.w_step, low, b.rates);                                     // [T, d]
  p.worker.barrier();
}

// Some channels, a multiple of 16 but for the last, on their way through the rows of one sequence.
class Channels {
 public:
  Channels(const PassPart& p, size_t layer, const SequenceChunk& chunk, size_t first_row, Range channels)
      : p_(p),
        m_(p.model),
        mixer_(m_.config.recurrent),
        w_(m_.weights.layers[layer].recurrent),
        state_(chunk.entry->state()),
        layer_(m_.config.layers[layer].state_layer),
        first_row_(first_row),
        n_rows_(chunk.tokens.size()),
        channels_(channels) {}

  void run() const {
    const RecurrentBuffers& b = m_.acts.recurrent;
    const size_t first = channels_.begin, n = channels_.size();
    for (size_t i = 0; i < n_rows_; ++i) {
      float* dt = b.rates.row(first_row_ + i) + first;
      m_.kernels.softplus(dt, w_.step_bias.data() + first, n, dt);
      float* logged = state_.logged_row(layer_, i);
      if (logged == nullptr) continue;
      std::copy_n(dt, n, logged + mixer_.rates_at() + first);
      if (first == 0) std::copy_n(numbers(i), mixer_.key_dim, logged + mixer_.decays_at());
    }
    ScanStep step{.n_states = mixer_.key_dim, .n_rows = 1, .rates = w_.decay.data(), .rate_stride = mixer_.v_width(),
                  .skip = w_.skip.data(), .before = of_channels(state_.before(layer_))};
    if (state_.n_replayed() != 0) {
      step.after = of_channels(state_.replayed(layer_));
      for (size_t i = 0; i < state_.n_replayed(); ++i) {
        scan_again(i, step);
        step.before = step.after;
      }
    }
    step.n_rows = n_rows_;
    step.steps = b.rates.row(first_row_);
    step.channel_stride = b.rates.stride;
    step.values = b.conv.row(first_row_) + mixer_.v_at();
    step.value_stride = b.conv.stride;
    step.keys = numbers(0);
    step.queries = step.keys + RecurrentMixer::padded(mixer_.key_dim);
    step.state_stride = p_.buffers.scan_numbers.stride;
    step.after = of_channels(state_.after(layer_));
    step.out = b.out.row(first_row_);
    step.out_stride = b.out.stride;
    m_.kernels.selective_scan(step, channels_);
  }

 private:
  const float* numbers(size_t i) const { return p_.buffers.scan_numbers.row(first_row_ + i); }
  // Where the states begin in a layer's state; kernels count channels from there.
  template <typename Float>
  Float* of_channels(Float* state) const {
    return state == nullptr ? nullptr : state + mixer_.history_floats();
  }

  // Row i of those that are put through again: x is convolved anew, 16 channels at a time.
  void scan_again(size_t i, ScanStep step) const {
    float* out = m_.acts.recurrent.scratch.row(static_cast<size_t>(p_.worker.index()));
    float* inputs = out + RecurrentMixer::padded(mixer_.v_width());
    const size_t n_kept = mixer_.n_taps - 1;
    const float* before = state_.before(layer_);
    for (size_t c = channels_.begin; c < channels_.end; c += 16) {
      const size_t n = std::min(size_t{16}, channels_.end - c);
      for (size_t j = 0; j <= n_kept; ++j) {
        const size_t r = i + j;  // counted from the first row of the history
        const float* from = r >= n_kept         ? state_.replayed_row(layer_, r - n_kept)
                            : before != nullptr ? before + r * mixer_.convolved()
                                                : nullptr;
        if (from == nullptr) {
          std::fill_n(inputs + j * 16, n, 0.0f);
        } else {
          std::copy_n(from + c, n, inputs + j * 16);
        }
      }
      m_.kernels.short_conv({.n_taps = mixer_.n_taps, .n_rows = 1, .weight = w_.conv_v.data() + c,
                             .weight_stride = mixer_.v_width(),
                             .bias = w_.conv_v_bias.empty() ? nullptr : w_.conv_v_bias.data() + c, .history = inputs,
                             .history_stride = 16, .x = inputs + n_kept * 16, .x_stride = 16, .y = out + c,
                             .y_stride = 16, .silu = true},
                            {0, n});
    }
    const float* logged = state_.replayed_row(layer_, i);
    step.steps = logged + mixer_.rates_at();
    step.values = out;
    step.keys = step.queries = logged + mixer_.decays_at();
    m_.kernels.selective_scan(step, channels_);
  }

  const PassPart& p_;
  const PassModel& m_;
  const RecurrentMixer& mixer_;
  const RecurrentWeights& w_;
  SequenceState& state_;
  const size_t layer_, first_row_, n_rows_;
  const Range channels_;
};

}  // namespace

void advance_channels(PassPart& p, size_t layer) {
  project_steps(p, layer);
  const Range channels = p.worker.share(p.model.config.recurrent.v_width(), kPanelRows);
  size_t first_row = 0;
  for (const SequenceChunk& chunk : p.pass.batch) {
    if (!channels.empty()) Channels(p, layer, chunk, first_row, channels).run();
    first_row += chunk.tokens.size();
  }
}

}  // namespace ibid::forward
