// The findings of `ibid inspect` about a model file: whether this program runs it, its cost, and its contents.
// The header is read, and of the weights those that make queries, keys and values (model/weights/kv_precision.h); on
// request all, of which nothing is kept.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/inspect/facts.h"
#include "apps/inspect/tensor_uses.h"
#include "apps/inspect/weight_check.h"
#include "apps/models/model_arguments.h"
#include "base/json_limits.h"
#include "base/result.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "model/memory_plan.h"
#include "model/weights/kv_precision.h"
#include "tokenizer/tokenizer.h"
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

// The memory that a conversation of `context` positions needs: weights, scratch, keys and values.
struct MemoryNeed {
  size_t context = 0;
  std::array<size_t, kKvTypes.size()> bytes{};  // by kKvTypes
};

// All that is shown of a model, for people and as JSON.
struct Explanation {
  Inspection inspection;
  Status chat;                        // ok: it has a tokenizer and a chat template that work
  std::unique_ptr<Tokenizer> tokenizer;  // where it can be loaded
  std::vector<TensorUse> uses;
  Facts model, kv_rows, tokens, chat_template;
  std::vector<MemoryNeed> needs;      // of a few contexts, where there is a plan
  std::string sampling;               // recommended for it, as command-line words; empty: nothing
  std::optional<WeightReport> check;  // where it was asked for

  bool sound() const { return !check || check->sound(); }
};

// Loads the tokenizer and the template; no weight is read.
Explanation explain(Inspection inspection, const ModelOptions& options);

// tensors: with a line for each.
void print_explanation(const Explanation& explanation, bool tensors);
void print_check(const Explanation& explanation);
Json explanation_json(const Explanation& explanation);

}  // namespace ibid
