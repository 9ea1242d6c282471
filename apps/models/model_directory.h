// What a directory that a person names as a model holds.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"

namespace ibid {

// A regular file that can be asked about.
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
