// Facts of a model for `ibid inspect`: a name, words for people, and the same as JSON for programs.
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
  std::string name;  // "trained context": of the text; the JSON key has _ for blanks
  std::string text;
  Json value;
};
using Facts = std::vector<Fact>;

// An object with a key for each.
Json facts_json(const Facts& facts);

// 0 1 2 3 6 8 9 as "0-3, 6, 8-9"; what is beyond the first `most` ranges is "...".
std::string ranges_text(const std::vector<size_t>& increasing, size_t most = 8);

// Up to five digits of a number, without zeros at the end.
std::string short_number_text(double value);

// 134515008 as "134,515,008".
std::string grouped_text(uint64_t value);

// The architecture of a model whose configuration was read (model_facts.cc).
Facts model_facts(const ModelFile& file, const ModelConfig& config, const std::vector<TensorUse>& uses);

// The same of a file whose configuration cannot be read: its metadata, unchecked.
Facts metadata_facts(const ModelFile& file, const std::vector<TensorUse>& uses);

// A model's recurrent layers: their kind, their heads, and the size of a sequence's state. REQUIRES: some layer is
// recurrent.
Fact recurrent_fact(const ModelConfig& config);

// The exceptions that a model makes to each KV type of less than 16 bits: which layers keep a part in more bits, and
// what that costs (model/weights/kv_precision.h): a fact for each of int8, k8v4 and int4.
// REQUIRES: noise of estimate_kv_noise(); some layer attends.
Facts kv_rows_facts(const ModelConfig& config, const ModelOptions& options, std::span<const KvNoise> noise);

// The family and pre-tokenizer of a tokenizer as the file names them, and, if it was loaded, its tokens. tokenizer:
// nullptr where it cannot be loaded.
Facts tokenizer_facts(const std::optional<TokenizerKind>& kind, const Tokenizer* tokenizer);

// The abilities of a chat template, found by rendering small conversations and looking for what was put in
// (template_probe.cc). Nothing is concluded from its source: a template that names a thing may do nothing with it. A
// template that refuses the simplest conversation gives that fact alone, with its own words.
Facts template_facts(const ChatTemplate& chat_template);

}  // namespace ibid
