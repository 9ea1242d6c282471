// What a model file is found to be: whether this program runs it, and what it will cost.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/json_limits.h"
#include "base/result.h"
#include "model/memory_plan.h"
#include "model/model_options.h"
#include "weights/model_file.h"

namespace ibid {

struct Inspection {
  std::unique_ptr<ModelFile> file;  // of one that cannot be used: its metadata alone
  Status verdict;                   // ok: it runs
  Status chat;                      // ok: it has a tokenizer and a chat template that work
  std::optional<MemoryPlan> plan;   // where enough of it is sound
  std::string sampling;             // recommended for it, as command-line words; empty: nothing

  bool runs() const { return verdict.ok(); }
};

// Looks at the model at `path` without loading it. A file whose tensors cannot be used still has metadata to
// show. Error: the file's, when there is nothing to show at all.
Result<Inspection> inspect_model(const std::string& path, const ModelOptions& options);

Json inspection_json(const Inspection& inspection);

}  // namespace ibid
