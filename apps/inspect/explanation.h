// All that `ibid inspect` says of a model, for people and as JSON.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/inspect/fact.h"
#include "apps/inspect/inspection.h"
#include "apps/inspect/tensor_uses.h"
#include "apps/inspect/weight_check.h"
#include "apps/models/kv_types.h"
#include "base/json_limits.h"
#include "tokenizer/tokenizer.h"

namespace ibid {

// What a conversation of so many positions needs: weights, scratch, keys and values.
struct MemoryNeed {
  size_t context = 0;
  std::array<size_t, kKvTypes.size()> bytes{};  // by kKvTypes
};

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

// Loads tokenizer and template of what was looked at; no weight is read.
Explanation explain(Inspection inspection, const ModelOptions& options);

// tensors: with a line for each.
void print_explanation(const Explanation& explanation, bool tensors);
void print_check(const Explanation& explanation);
Json explanation_json(const Explanation& explanation);

}  // namespace ibid
