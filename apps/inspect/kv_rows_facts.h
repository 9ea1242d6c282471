// The exceptions that a model makes to each KV type of less than 16 bits: which layers keep a part in more bits, and
// what that costs (model/weights/kv_precision.h).
#pragma once

#include <span>

#include "apps/inspect/fact.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "model/weights/kv_precision.h"

namespace ibid {

// A fact for each of int8, k8v4 and int4. REQUIRES: noise of estimate_kv_noise(); some layer attends.
Facts kv_rows_facts(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise);

}  // namespace ibid
