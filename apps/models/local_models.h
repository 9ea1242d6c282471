// Models on this machine: those of ibid and, read-only, those downloaded by other programs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct LocalModel {
  std::string name;   // as users type it: "qwen3:0.6b", "Qwen/Qwen3-0.6B"
  std::string path;   // a .gguf file, or a directory with config.json
  std::string store;  // "ibid", "hugging face", "llama.cpp", "ollama", "lm studio"
};

// Returns models by store in this order, then by name. Unreadable or malformed entries are skipped; nothing in a store
// is executed or changed, and no path leads out of it.
std::vector<LocalModel> local_models();

// Returns existing store directories that this user may not read.
std::vector<std::string> unreadable_stores();

// Returns the models that match a word: those with this name, ignoring case, else those whose name, with or without the
// owner, begins with it. A file in several stores counts once.
std::vector<LocalModel> models_named(std::string_view word, const std::vector<LocalModel>& models);

}  // namespace ibid
