// The findings about a model file: whether this program runs it, and what it will cost. The header is read, and of the
// weights those that make queries, keys and values (model/weights/kv_precision.h); on request all, of which nothing is
// kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "model/memory_plan.h"
#include "model/weights/kv_precision.h"
#include "weights/model_file.h"

namespace ibid {

struct Inspection {
  std::unique_ptr<ModelFile> file;    // of one that cannot be used: its metadata alone
  std::optional<ModelConfig> config;  // where the architecture is known and its numbers are sound
  Status verdict;                     // ok: it runs
  std::vector<KvNoise> kv_noise;      // of each layer of the cache, with a plan
  std::optional<MemoryPlan> plan;     // where enough of it is sound

  bool runs() const { return verdict.ok(); }
};

// Looks at the header of the model at `path`. A file whose tensors cannot be used still has metadata to show. Error:
// the file's, when there is nothing to show at all.
Result<Inspection> look_at_model(const std::string& path, const ModelOptions& options);

// Reads the weights of a model that runs by its header. The verdict becomes that of loading: no weight may be NaN or
// infinite. progress(bytes read) is called now and then.
void look_at_weights(Inspection& inspection, int n_threads, const std::function<void(uint64_t)>& progress);

}  // namespace ibid
