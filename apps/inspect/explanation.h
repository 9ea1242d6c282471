// The report of `ibid inspect` on a model file: whether the model runs, how much memory it needs, and its contents.
// Reads the header, and the weights that compute keys and values (model/weights/kv_precision.h); reads all weights on
// request, without keeping them.
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
  std::unique_ptr<ModelFile> file;    // file of the model, even if the model cannot be used
  std::optional<ModelConfig> config;  // set if the architecture is known and its parameters are valid
  Status verdict;                     // ok if the model runs, else the reason
  std::vector<KvNoise> kv_noise;      // one entry for each layer with KV; set if `plan` is set
  std::optional<MemoryPlan> plan;     // set if the file is valid enough to plan its memory

  bool runs() const { return verdict.ok(); }
};

// Inspects the header of the model at `path`. If the tensors are unusable, the metadata can still be shown. Error: the
// error of the file, if nothing can be shown.
Result<Inspection> inspect_model(const std::string& path, const ModelOptions& options);

// Reads all weights of a model whose verdict is ok, and sets the verdict to the result of loading: NaN and infinite
// weights are errors. progress(bytes read) is called repeatedly.
void inspect_weights(Inspection& inspection, int n_threads, const std::function<void(uint64_t)>& progress);

// The memory that a conversation of `context` positions needs: weights, scratch buffers, KV.
struct MemoryNeed {
  size_t context = 0;
  std::array<size_t, kKvTypes.size()> bytes{};  // one entry for each type in kKvTypes
};

// All facts about a model that are shown, to people and as JSON.
struct Explanation {
  Inspection inspection;
  Status chat;                           // ok if tokenizer and chat template work
  std::unique_ptr<Tokenizer> tokenizer;  // nullptr if the tokenizer cannot be loaded
  std::vector<TensorUse> uses;
  Facts model, kv_rows, tokens, chat_template;
  std::vector<MemoryNeed> needs;      // for a few context lengths; empty if there is no plan
  std::string sampling;               // recommended options in command-line syntax; empty: no recommendation
  std::optional<WeightReport> check;  // set if the check was requested
  std::vector<std::string> warnings;  // defects of the files in spite of which the model runs and chats

  bool sound() const { return !check || check->sound(); }
};

// Loads the tokenizer and the template. Reads no weights.
Explanation explain(Inspection inspection, const ModelOptions& options);

// tensors: print a line for each tensor.
void print_explanation(const Explanation& explanation, bool tensors);
void print_check(const Explanation& explanation);
Json explanation_json(const Explanation& explanation);

}  // namespace ibid
