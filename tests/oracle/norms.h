// RMSNorm (Zhang & Sennrich 2019) and LayerNorm (Ba et al. 2016), row by row.
#pragma once

#include "model/config/config.h"
#include "tests/oracle/numbers.h"

namespace ibid::oracle {

// An empty weight means ones, an empty bias zeros.
Matrix rms_norm(const Matrix& x, const Vector& weight, double eps);
Matrix layer_norm(const Matrix& x, const Vector& weight, const Vector& bias, double eps);

// The norm of the model, with its epsilon.
Matrix norm(const ModelConfig& config, const Matrix& x, const Vector& weight, const Vector& bias = {});

}  // namespace ibid::oracle
