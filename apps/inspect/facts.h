// Facts about a model for `ibid inspect`: name, text for people, and JSON value.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/inspect/tensor_uses.h"
#include "base/json_limits.h"
#include "model/config/config.h"
#include "model/config/model_options.h"
#include "model/weights/kv_precision.h"
#include "templates/chat_template.h"
#include "tokenizer/loading/tokenizer_loaders.h"
#include "tokenizer/tokenizer.h"
#include "weights/model_file.h"

namespace ibid {

struct Fact {
  std::string name;  // "trained context"; the JSON key is "trained_context"
  std::string text;
  Json value;
};
using Facts = std::vector<Fact>;

// Returns a JSON object with one key per fact.
Json facts_json(const Facts& facts);

// Formats 0 1 2 3 6 8 9 as "0-3, 6, 8-9"; after the first `most` ranges, "..." replaces the others.
std::string ranges_text(const std::vector<size_t>& increasing, size_t most = 8);

// Formats a number with at most five digits, without trailing zeros.
std::string short_number_text(double value);

// Formats 134515008 as "134,515,008".
std::string grouped_text(uint64_t value);

// Returns facts about the architecture of a model with a valid configuration (model_facts.cc).
Facts model_facts(const ModelFile& file, const ModelConfig& config, const std::vector<TensorUse>& uses);

// As model_facts(), but from metadata that was not checked, for a file whose configuration cannot be read.
Facts metadata_facts(const ModelFile& file, const std::vector<TensorUse>& uses);

// Returns kind, heads, and size of a sequence's state for the recurrent layers. REQUIRES: the model has a recurrent
// layer.
Fact recurrent_fact(const ModelConfig& config);

// Returns, for each of the KV types int8, k8v4 and int4, the layers that store keys or values in more bits than the
// type, because they are sensitive to rounding, and the additional bytes (model/weights/kv_precision.h). REQUIRES:
// noise from estimate_kv_noise(); the model has an attention layer.
Facts kv_rows_facts(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise);

// Returns the family and the pre-tokenizer that the file names, and facts about the tokens if the tokenizer was loaded.
// tokenizer: nullptr if it cannot be loaded.
Facts tokenizer_facts(const std::optional<TokenizerKind>& kind, const Tokenizer* tokenizer);

// Returns the abilities of a chat template. Finds them by rendering small conversations and searching the output
// (template_probe.cc). The source itself may mention a name without using it. If the simplest conversation cannot be
// rendered, the only fact is the template's error.
Facts template_facts(const ChatTemplate& chat_template);

}  // namespace ibid
