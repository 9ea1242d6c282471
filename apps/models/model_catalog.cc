#include "apps/models/model_catalog.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "apps/command_line/command.h"
#include "apps/models/local_models.h"
#include "apps/models/part_file.h"
#include "base/user_folders.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEntries = 10'000;
constexpr size_t kMostNamed = 20;

Status several(const std::string& path, const std::vector<fs::path>& models) {
  std::string what = path + " holds " + std::to_string(models.size()) + " models; name one:";
  for (size_t i = 0; i < std::min(models.size(), kMostNamed); ++i) what += "\n  " + models[i].string();
  if (models.size() > kMostNamed) what += "\n  ...";
  return {ErrorCode::kInvalidArgument, what};
}

// A file whose presence shows that a directory has an unsupported kind of model.
struct Sign {
  const char* file;
  const char* what;
};
constexpr Sign kSigns[] = {
    {"adapter_config.json", "a LoRA adapter: load a model that it was merged into"},
    {"model_index.json", "a model that generates images, not text"},
    {"params.json", "a checkpoint in its maker's own layout: fetch the one with config.json, or a .gguf file"},
};

bool is_pickle(const fs::path& path) {
  const std::string name = lower_case(path.filename().string());
  return name.ends_with(".bin") || name.ends_with(".pt") || name.ends_with(".pth") || name.ends_with(".ckpt");
}

}  // namespace

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

bool is_gguf_model(const fs::path& path) {
  const std::string name = lower_case(path.filename().string());
  if (!name.ends_with(".gguf") || name.find("mmproj") != std::string::npos || !is_file(path)) return false;
  const size_t of = name.rfind("-of-");
  return of == std::string::npos || of < 6 || name.size() - of != 14 || name.substr(of - 6, 6) == "-00001";
}

std::vector<fs::path> directory_entries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (found.size() == kMaxEntries) break;
    if (!it->path().filename().string().starts_with('.')) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<fs::path> gguf_models_in(const fs::path& directory) {
  std::vector<fs::path> models = directory_entries(directory);
  std::erase_if(models, [](const fs::path& path) { return !is_gguf_model(path); });
  return models;
}

Result<std::string> model_in_directory(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error) || is_file(fs::path(path) / "config.json")) return path;
  const std::vector<fs::path> models = gguf_models_in(path);
  if (models.size() == 1) return models.front().string();
  if (models.size() > 1) return several(path, models);
  for (const Sign& sign : kSigns) {
    if (is_file(fs::path(path) / sign.file)) {
      return Status(ErrorCode::kUnsupported, path + ": holds " + sign.file + ", so it is " + sign.what);
    }
  }
  const std::vector<fs::path> entries = directory_entries(path);
  if (const auto pickle = std::ranges::find_if(entries, is_pickle); pickle != entries.end()) {
    return Status(ErrorCode::kUnsupported, path + ": holds " + pickle->filename().string() +
                                               ", a Python pickle, which is never read, and no config.json: fetch the "
                                               "model as safetensors or as a .gguf file");
  }
  return path;
}

namespace {

constexpr RecommendedOption kSmolLm2Sampling[] = {{"temperature", "0.2"}, {"top-p", "0.9"}};

constexpr std::array kModels = {
    KnownModel{"smollm2", "SmolLM2 135M Instruct, Q4_1: small and quick, for trying things out", "Apache-2.0",
               "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
               "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", kSmolLm2Sampling},
};

constexpr std::array kHubModels = {
    HubModel{"qwen3:0.6b", "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0", "Qwen3-0.6B-Q8_0.gguf", "Apache-2.0"},
    HubModel{"qwen3:1.7b", "hf:Qwen/Qwen3-1.7B-GGUF:Q8_0", "Qwen3-1.7B-Q8_0.gguf", "Apache-2.0"},
    HubModel{"qwen3:4b", "hf:Qwen/Qwen3-4B-GGUF:Q4_K_M", "Qwen3-4B-Q4_K_M.gguf", "Apache-2.0"},
    HubModel{"smollm2:360m", "hf:HuggingFaceTB/SmolLM2-360M-Instruct-GGUF:Q8_0", "smollm2-360m-instruct-q8_0.gguf",
             "Apache-2.0"},
    HubModel{"smollm2:1.7b", "hf:HuggingFaceTB/SmolLM2-1.7B-Instruct-GGUF:Q4_K_M", "smollm2-1.7b-instruct-q4_k_m.gguf",
             "Apache-2.0"},
    HubModel{"gemma3:1b", "hf:ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "gemma-3-1b-it-Q4_K_M.gguf", "Gemma"},
    HubModel{"llama3.2:1b", "hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", "Llama-3.2-1B-Instruct-Q4_K_M.gguf",
             "Llama 3.2 Community"},
};

namespace fs = std::filesystem;

bool exists(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

std::vector<std::string> names_here(const std::vector<LocalModel>& models) {
  std::vector<std::string> names;
  for (const KnownModel& model : kModels) names.push_back(model.name);
  for (const LocalModel& model : models) names.push_back(model.name);
  for (const HubModel& model : kHubModels) names.push_back(model.name);
  return names;
}

// True for a URL, or OWNER/NAME as on model hubs.
bool looks_like_a_remote_name(const std::string& argument) {
  const std::string name = lower_case(argument);
  for (const char* beginning : {"http://", "https://", "hf.co/", "huggingface.co/", "hf:", "ollama:"}) {
    if (name.starts_with(beginning)) return true;
  }
  const bool is_path = name.find_first_of("/.~") == 0 || name.ends_with(".gguf");
  return !is_path && std::count(name.begin(), name.end(), '/') == 1 && !name.ends_with('/');
}

Status not_pulled(const std::string& name, const std::string& directory) {
  std::string what = "the model '" + name + "' is not in " + directory;
  if (!exists(directory)) what += " (the directory does not exist)";
  return {ErrorCode::kNotFound, what + ": " + own_command("pull " + name) + " fetches it"};
}

Status may_mean(const std::string& argument, const std::vector<LocalModel>& models) {
  std::string what = "'" + argument + "' may mean several models:";
  for (size_t i = 0; i < std::min(models.size(), kMostNamed); ++i) {
    what += "\n  " + models[i].name + "  (" + models[i].store + ")";
  }
  if (models.size() > kMostNamed) what += "\n  and " + std::to_string(models.size() - kMostNamed) + " more";
  return {ErrorCode::kInvalidArgument, what};
}

Status no_such_model(const std::string& argument, const std::vector<LocalModel>& models) {
  std::string what = argument + ": no such file, and no model is known by that name";
  const std::vector<std::string> near = nearest_names(argument, names_here(models));
  if (!near.empty()) what += "; did you mean " + near.front() + "?";
  if (looks_like_a_remote_name(argument)) {
    what += (near.empty() ? ". " : " ") + std::string("To run a model of a hub, fetch it first: ") +
            own_command("pull hf:OWNER/NAME") + ".";
  } else if (near.empty()) {
    what += ".";
  }
  std::string known;
  for (const KnownModel& model : kModels) known += (known.empty() ? "" : ", ") + std::string(model.name);
  return {ErrorCode::kNotFound, what +
                                    " MODEL is a .gguf file, a directory with safetensors and config.json, a known "
                                    "name (" +
                                    known + "), or one that " + own_command("models") + " lists"};
}

}  // namespace

std::span<const HubModel> hub_models() { return kHubModels; }

const HubModel* find_hub_model(std::string_view name) {
  for (const HubModel& model : kHubModels) {
    if (lower_case(name) == model.name) return &model;
  }
  return nullptr;
}

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
  if (!argument.empty() && exists(argument)) return model_in_directory(argument);
  if (known != nullptr) {
    TRY_ASSIGN(const std::string path, path_in_models(*known));
    if (exists(path)) return path;
    return not_pulled(known->name, *models_directory());
  }
  const Result<std::string> directory = models_directory();
  if (directory.ok() && exists(*directory + "/" + argument)) return model_in_directory(*directory + "/" + argument);
  const std::vector<LocalModel> models = local_models();
  const HubModel* hub = find_hub_model(argument);
  if (hub != nullptr && directory.ok()) {
    // Look in both directories, because earlier versions stored the file in the models directory itself.
    for (const std::string& folder : {"/" + repository_folder(*parse_hub_name(hub->hub_name)), std::string()}) {
      const std::string path = *directory + folder + "/" + hub->file;
      if (exists(path)) return path;
    }
  }
  const std::vector<LocalModel> meant = models_named(argument, models);
  if (meant.size() == 1) return meant.front().path;
  if (meant.size() > 1) return may_mean(argument, meant);
  if (hub != nullptr && directory.ok()) return not_pulled(hub->name, *directory);
  return no_such_model(argument, models);
}

bool names_a_model(const std::string& word) {
  if (word.empty()) return false;
  if (find_known_model(word) != nullptr || find_hub_model(word) != nullptr || lower_case(word).ends_with(".gguf")) {
    return true;
  }
  const Result<std::string> directory = models_directory();
  const bool is_plain = word.find('/') == std::string::npos && word != "." && word != "..";
  if (is_plain && directory.ok() && exists(*directory + "/" + word)) return true;
  for (const LocalModel& model : local_models()) {
    const std::string name = lower_case(model.name), wanted = lower_case(word);
    if (name == wanted || (model.store == "ibid" && name.substr(name.find('/') + 1) == wanted)) return true;
  }
  std::error_code error;
  if (fs::is_directory(word, error)) return exists(word + "/config.json");
  if (!fs::is_regular_file(word, error)) return false;
  char magic[4] = {};
  return lower_case(word).ends_with(".safetensors") ||
         (std::ifstream(word, std::ios::binary).read(magic, 4) && std::string_view(magic, 4) == "GGUF");
}

}  // namespace ibid
