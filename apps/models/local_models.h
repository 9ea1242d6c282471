// Models on this machine: those of ibid, and (only for reading) those that other programs downloaded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct LocalModel {
  std::string name;   // name as users type it: "qwen3:0.6b", "Qwen/Qwen3-0.6B"
  std::string path;   // a .gguf file, or a directory with config.json
  std::string store;  // "ibid", "hugging face", "llama.cpp", "ollama", "lm studio"
};

// Returns the models, ordered by store, in the order of LocalModel::store, then by name. Unreadable or malformed
// entries are skipped; nothing in a store is executed or changed, and no path leads out of it.
std::vector<LocalModel> local_models();

// Returns the directories of stores that exist but that this user may not read.
std::vector<std::string> unreadable_stores();

// Returns the models with this name, ignoring case, or else the models whose name begins with the word, with or without
// the owner. A file in several stores counts once.
std::vector<LocalModel> models_named(std::string_view word, const std::vector<LocalModel>& models);

}  // namespace ibid
