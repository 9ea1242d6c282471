// What is allowed in SamplerOptions (ibid/sampler_options.h); sampling/sampler.h does what they say.
#pragma once

#include <cstddef>

#include "base/result.h"
#include "ibid/sampler_options.h"

namespace ibid {

// kInvalidArgument with name, value and range for what is out of range (NaN always is), and for ids that are not
// below vocab_size.
Status check_sampler_options(const SamplerOptions& options, size_t vocab_size);

}  // namespace ibid
