// Names of Numerics as on the command line, for messages of tests.
#pragma once

#include "ibid/numerics.h"

namespace ibid {

inline const char* numerics_name(Numerics numerics) {
  switch (numerics) {
    case Numerics::kReference: return "reference";
    case Numerics::kExact: return "exact";
    case Numerics::kFast: return "fast";
  }
  return "?";
}

}  // namespace ibid
