// The activation functions of MLPs, by their definitions.
#pragma once

#include "kernels/kernels.h"
#include "tests/oracle/numbers.h"

namespace ibid::oracle {

double sigmoid(double x);
double activate(const Activation& f, double x);
Matrix activate(const Activation& f, const Matrix& x);

}  // namespace ibid::oracle
