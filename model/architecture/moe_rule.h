// MoeRule: a mixture of experts as data: how rows choose their experts, and what an expert is.
#pragma once

#include <cstddef>

#include "kernels/activation.h"
#include "model/forward/moe_router.h"

namespace ibid {

struct MoeRule {
  RouterRule router;
  size_t ffn_dim = 0;         // F, of one expert
  size_t shared_ffn_dim = 0;  // of the shared expert; 0: there is none
  bool weighs_inputs = false; // expert(weight h) in place of weight expert(h)
  Activation activation;      // expert: W_down (f(W_gate h) * W_up h),
  bool gated = true;          // or without a gate W_down f(W_up h)
  float swiglu_limit = 0;     // not 0: Kernels::clamped_swiglu in its place
  float swiglu_alpha = 1.702f;
};

}  // namespace ibid
