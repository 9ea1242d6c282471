// The steps of a forward pass on rows, heads or columns, and how workers share them.
//
// Every worker of the region calls each step. Row steps compute the worker's own rows (PassPart::rows), so consecutive
// row steps need no barrier. In a small pass every worker computes all rows in its own buffers. Then linear layers that
// read these rows need no barrier either, provided that no step changes a shared buffer in place.
#pragma once

#include "model/forward/pass.h"

namespace ibid::forward {

// --- Linear layers: workers share the panels (16 outputs each).

// y = W x
inline void linear(const PassPart& p, const PackedMatrix& w, const LinearInput& x, Rows y) {
  ibid::linear(p.worker, p.model.linear, w, x, y.data, y.stride);
}
// Computes the outputs of a linear layer in these panels only.
inline void linear_panels(const PassPart& p, const PackedMatrix& w, const LinearInput& x, Range panels, Rows y) {
  ibid::linear_panels(p.worker, p.model.linear, w, x, panels, y.data, y.stride);
}

// --- Rows.

// h = norm(x), also in int8; h = x if the weight is empty.
void norm(PassPart& p, WeightVector weight, WeightVector bias);
// Quantises `input` to int8, if a quantised weight reads it.
void quantize(const PassPart& p, LinearInput& input);
// x += norm(from + bias) residual_scale, or the sum that `rule` defines. REQUIRES: h is still norm(x).
void add_residual(const PassPart& p, Rows from, WeightVector bias, WeightVector post_norm, const Residual& rule = {});
// x *= factor
void scale_rows(const PassPart& p, float factor);
// norm(rows + bias) over all heads of a row, in place. Workers share the rows, even in small passes.
void norm_whole(const PassPart& p, Rows rows, WeightVector bias, WeightVector weight);

// --- Heads.

// attended *= sigmoid(gate + b_gate); ends with a barrier.
void gate_attended(const PassPart& p, size_t layer);

// --- Columns.

// gate = max(gate - cutoff, 0); cutoff = mean + gate_cutoff standard deviations of the row. Barriers before and after.
void cut_gates(const PassPart& p, size_t layer);
// A part of the outputs of gate and up: columns [16 * panels.begin, 16 * panels.end) of some rows.
struct GatePart {
  Range rows, panels;
  Rows gate, up;  // row 0 is rows.begin, column 0 is 16 * panels.begin
};
// gated = f(gate + b_gate) (up + b_up), also in int8, for the rows and columns of the part.
void gate(const PassPart& p, size_t layer, const GatePart& part, LinearInput& gated);
// Applies bias, scale and soft cap to the logits.
void finish_logits(const PassPart& p);

// --- One row.

void norm_row(const PassModel& m, const float* x, WeightVector weight, WeightVector bias, size_t n, float* y);
// y = f(gate) up
void activate_and_multiply(const PassModel& m, const Activation& f, const float* gate, const float* up, size_t n,
                           float* y);
// x[first, first + n) += bias; no effect if the bias is empty.
void add_bias(const PassModel& m, WeightVector bias, size_t first, size_t n, float* x);

// --- Reasons to stop a pass, each recorded in Pass with its layer.

// Records that the pass was cancelled. Workers read the result after the barriers of the layer's attention.
void check_cancelled(const PassPart& p, size_t layer);
void note_lost_router(const PassPart& p, size_t layer);
// Checks x for values that are not finite. Such values stay in x through all later layers.
void check_rows_finite(const PassPart& p, size_t layer);

}  // namespace ibid::forward
