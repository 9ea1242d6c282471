// The models that are on this machine: those of ibid, and, read-only, those that other programs have fetched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace ibid {

struct LocalModel {
  std::string name;   // what a person types: "qwen3:0.6b", "Qwen/Qwen3-0.6B"
  std::string path;   // a .gguf file, or a directory with config.json
  std::string store;  // "ibid", "hugging face", "llama.cpp", "ollama", "lm studio"
};

// By stores in this order, within one by name. A store that is not there has none; what in it cannot be read, or is
// not what its program writes, is left out: nothing of a store is executed, changed, or followed out of it.
std::vector<LocalModel> local_models();

// Folders of stores that are there and may not be read by this user.
std::vector<std::string> unreadable_stores();

// The models that a word means: those with this name, in small or capital letters, else those whose name, or the part
// of it behind the owner, begins so. One file is one model, however many stores have it.
std::vector<LocalModel> models_named(std::string_view word, const std::vector<LocalModel>& models);

}  // namespace ibid
