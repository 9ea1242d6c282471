// The steps of a forward pass that work on rows, heads or columns: who computes which of them.
//
// Every worker of the region calls each. Steps on rows compute the worker's own rows (PassPart::rows). Consecutive ones
// need no barrier. In a small pass, where every worker has all rows to itself, the linear layers that read them need
// none either: there every worker reads what the pass has in common and writes what is its own, and nothing in common
// is changed in place.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// --- Linear layers: panels are shared.

// y = W x
inline void linear(const PassPart& p, const PackedMatrix& w, const LinearInput& x, Rows y) {
  ibid::linear(p.worker, p.model.linear, w, x, y.data, y.stride);
}
// The outputs of these panels alone.
inline void linear_panels(const PassPart& p, const PackedMatrix& w, const LinearInput& x, Range panels, Rows y) {
  ibid::linear_panels(p.worker, p.model.linear, w, x, panels, y.data, y.stride);
}

// --- Rows.

// h = norm(x), and in int8; x itself where the weight is empty.
void norm(PassPart& p, WeightVector weight, WeightVector bias);
// `input` in int8, where a quantised weight reads it.
void quantize(const PassPart& p, LinearInput& input);
// x += norm(from + bias) residual_scale, or by the rule of its block; h is still norm(x).
void add_residual(const PassPart& p, Rows from, WeightVector bias, WeightVector post_norm, const Residual& rule = {});
// x *= factor
void scale_rows(const PassPart& p, float factor);
// A norm over all heads of a row, of from + bias, in place: all rows are shared anew.
void norm_whole(const PassPart& p, Rows rows, WeightVector bias, WeightVector weight);

// --- Heads.

// q = rope(norm(q + bq))
void rotate_queries(const PassPart& p, size_t layer);
// k = rope(norm(k + bk)) and v = norm(v + bv), by the worker that stores them.
void store_keys_and_values(const PassPart& p, size_t layer);
// attended *= sigmoid(gate + b_gate); ends with a barrier.
void gate_attended(const PassPart& p, size_t layer);

// --- Columns.

// gate = max(gate - cutoff, 0), a cutoff of so many standard deviations above the row's mean; between two barriers.
void cut_gates(const PassPart& p, size_t layer);
// gated = f(gate + b_gate) (up + b_up), and in int8: the columns of `panels`, all rows.
void gate(const PassPart& p, size_t layer, LinearInput& gated, Range panels);
// The bias, the scale and the soft cap of logits.
void finish_logits(const PassPart& p);

// --- One row.

void norm_row(const PassModel& m, const float* x, WeightVector weight, WeightVector bias, size_t n, float* y);
// y = f(gate) up
void activate_and_multiply(const PassModel& m, const Activation& f, const float* gate, const float* up, size_t n,
                           float* y);
// x[first..first + n) += bias, where the model has one.
void add_bias(const PassModel& m, WeightVector bias, size_t first, size_t n, float* x);

// --- What may end a pass.

// Asks whether the pass shall stop. Everybody reads the answer behind the barriers of the layer's attention.
void look_for_stop(const PassPart& p, size_t layer);
void note_lost_router(const PassPart& p, size_t layer);
// A number that is not finite stays so in x, so x is looked at.
void look_for_lost_rows(const PassPart& p, size_t layer);

}  // namespace ibid::forward
