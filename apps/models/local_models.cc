#include "apps/models/local_models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <system_error>

#include "apps/command_line/command.h"
#include "apps/models/model_catalog.h"
#include "base/file_ops.h"
#include "base/json_limits.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxPathBytes = 4096;
constexpr uint64_t kMaxManifestBytes = 1u << 20;
constexpr const char* kHubStore = "hugging face";
constexpr const char* kOllamaHost = "registry.ollama.ai";  // omitted from Ollama's model names

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return std::string(value);
}

std::string below_home(const std::string& path) {
  const std::optional<std::string> home = variable("HOME");
  return home ? *home + path : "";
}

// Returns a directory from an environment variable, with "~/" expanded as Python programs do.
std::optional<std::string> folder_variable(const char* name) {
  const std::optional<std::string> value = variable(name);
  return value && value->starts_with("~/") ? below_home(value->substr(1)) : value;
}

std::string cache_folder() {
  const std::optional<std::string> cache = variable("XDG_CACHE_HOME");
  return cache ? *cache : below_home("/.cache");
}

bool is_model_directory(const fs::path& path) { return is_file(path / "config.json"); }

std::string without_gguf(const fs::path& path) { return path.stem().string(); }

void add_folder(const fs::path& folder, const char* store, std::vector<LocalModel>& models) {
  for (const fs::path& path : directory_entries(folder)) {
    const std::string name = path.filename().string();
    if (is_gguf_model(path)) models.push_back({without_gguf(path), path.string(), store});
    if (is_model_directory(path)) {
      models.push_back({name, path.string(), store});
      continue;
    }
    for (const fs::path& inner : directory_entries(path)) {
      if (is_gguf_model(inner)) models.push_back({name + "/" + without_gguf(inner), inner.string(), store});
      for (const fs::path& file : gguf_models_in(inner)) {  // repositories may have subdirectories
        models.push_back({name + "/" + inner.filename().string() + "/" + without_gguf(file), file.string(), store});
      }
    }
  }
}

// --- Hugging Face hub: models--OWNER--NAME/refs/main names a directory in snapshots/

std::string hub_folder() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (const auto cache = folder_variable(name)) return *cache;
  }
  if (const auto home = folder_variable("HF_HOME")) return *home + "/hub";
  return cache_folder() + "/huggingface/hub";
}

// Returns the snapshots of a repository: first the snapshot of main, then the others, newest first. A file is only in
// the snapshot that was current when it was downloaded.
std::vector<fs::path> snapshots_of(const fs::path& repository) {
  std::vector<fs::path> snapshots = directory_entries(repository / "snapshots");
  std::error_code error;
  std::stable_sort(snapshots.begin(), snapshots.end(), [&](const fs::path& a, const fs::path& b) {
    return fs::last_write_time(a, error) > fs::last_write_time(b, error);
  });
  const std::string ref = (repository / "refs" / "main").string();
  if (const Result<std::string> text = read_file(system_file_ops(), ref, 256); text.ok()) {
    const std::string commit = text->substr(0, text->find_first_of("\r\n"));
    std::stable_partition(snapshots.begin(), snapshots.end(),
                          [&](const fs::path& snapshot) { return snapshot.filename() == commit; });
  }
  return snapshots;
}

// Adds the model unless its name is already in the list, so that the main revision hides older ones.
void add_once(LocalModel model, std::vector<LocalModel>& models) {
  const auto same = [&](const LocalModel& other) { return other.name == model.name && other.store == model.store; };
  if (std::none_of(models.begin(), models.end(), same)) models.push_back(std::move(model));
}

void add_repository(const fs::path& repository, const std::string& name, std::vector<LocalModel>& models) {
  std::vector<LocalModel> found;
  for (const fs::path& snapshot : snapshots_of(repository)) {
    if (is_model_directory(snapshot)) add_once({name, snapshot.string(), kHubStore}, found);
    for (const fs::path& path : directory_entries(snapshot)) {
      if (is_gguf_model(path)) add_once({name + ":" + without_gguf(path), path.string(), kHubStore}, found);
      for (const fs::path& inner : gguf_models_in(path)) {  // large models have a directory for each type
        add_once({name + ":" + without_gguf(inner), inner.string(), kHubStore}, found);
      }
    }
  }
  for (LocalModel& model : found) models.push_back(std::move(model));
}

void add_hub(std::vector<LocalModel>& models) {
  constexpr std::string_view kBegin = "models--", kBetween = "--";
  for (const fs::path& repository : directory_entries(hub_folder())) {
    std::string name = repository.filename().string();
    if (!name.starts_with(kBegin)) continue;
    name.erase(0, kBegin.size());
    if (const size_t between = name.find(kBetween); between != std::string::npos) {
      name.replace(between, kBetween.size(), "/");
    }
    add_repository(repository, name, models);
  }
}

// --- Ollama: manifests/HOST/NAMESPACE/MODEL/TAG names a blob by its digest

// Returns the blob's digest, "sha256:" and 64 hexadecimal digits; rejects any other text, which could be a path.
std::optional<std::string> blob_name(const Json& manifest) {
  const auto layers = manifest.find("layers");
  if (layers == manifest.end() || !layers->is_array()) return std::nullopt;
  for (const Json& layer : *layers) {
    if (!layer.is_object() || layer.value("mediaType", Json()) != "application/vnd.ollama.image.model") continue;
    const Json digest = layer.value("digest", Json());
    if (!digest.is_string()) return std::nullopt;
    const std::string text = digest.get<std::string>();
    const std::string hex = text.substr(std::min<size_t>(text.size(), 7));
    const bool sound = text.starts_with("sha256:") && hex.size() == 64 &&
                       hex.find_first_not_of("0123456789abcdef") == std::string::npos;
    if (!sound) return std::nullopt;
    return "sha256-" + hex;
  }
  return std::nullopt;
}

void add_ollama_tag(const fs::path& store, const fs::path& tag, std::vector<LocalModel>& models) {
  const Result<std::string> text = read_file(system_file_ops(), tag.string(), kMaxManifestBytes);
  if (!text.ok()) return;
  const Result<Json> manifest = parse_json(*text, tag.string());
  if (!manifest.ok() || !manifest->is_object()) return;
  const std::optional<std::string> blob = blob_name(*manifest);
  if (!blob || !is_file(store / "blobs" / *blob)) return;
  const fs::path model = tag.parent_path(), owner = model.parent_path();
  const std::string host = owner.parent_path().filename().string();
  std::string prefix = host == kOllamaHost ? "" : host + "/";
  if (owner.filename() != "library") prefix += owner.filename().string() + "/";
  models.push_back({prefix + model.filename().string() + ":" + tag.filename().string(),
                    (store / "blobs" / *blob).string(), "ollama"});
}

void add_ollama(const fs::path& store, std::vector<LocalModel>& models) {
  if (store.empty()) return;
  for (const fs::path& host : directory_entries(store / "manifests")) {
    for (const fs::path& owner : directory_entries(host)) {
      for (const fs::path& model : directory_entries(owner)) {
        for (const fs::path& tag : directory_entries(model)) add_ollama_tag(store, tag, models);
      }
    }
  }
}

// --- LM Studio: PUBLISHER/NAME/FILE.gguf

void add_lm_studio(const fs::path& store, std::vector<LocalModel>& models) {
  for (const fs::path& publisher : directory_entries(store)) {
    for (const fs::path& model : directory_entries(publisher)) {
      const std::string name = publisher.filename().string() + "/" + model.filename().string();
      if (is_model_directory(model)) models.push_back({name, model.string(), "lm studio"});
      for (const fs::path& path : directory_entries(model)) {
        if (is_gguf_model(path)) models.push_back({name + ":" + without_gguf(path), path.string(), "lm studio"});
      }
    }
  }
}

std::vector<LocalModel> one_each(std::vector<LocalModel> models) {
  std::set<std::string> seen;
  std::vector<LocalModel> kept;
  for (LocalModel& model : models) {
    std::error_code error;
    const fs::path real = fs::canonical(model.path, error);
    if (seen.insert(error ? model.path : real.string()).second) kept.push_back(std::move(model));
  }
  return kept;
}

// LM Studio stores the path of a relocated directory in a file.
std::vector<std::string> lm_studio_folders() {
  const Result<std::string> pointer =
      read_file(system_file_ops(), below_home("/.lmstudio-home-pointer"), kMaxPathBytes);
  if (pointer.ok() && pointer->starts_with('/')) {
    return {pointer->substr(0, pointer->find_first_of("\r\n")) + "/models"};
  }
  return {below_home("/.lmstudio/models"), below_home("/.cache/lm-studio/models")};
}

std::string llama_cpp_folder() {
  const std::optional<std::string> named = folder_variable("LLAMA_CACHE");
  return named ? *named : cache_folder() + "/llama.cpp";
}

std::vector<std::string> ollama_folders() {
  if (const auto named = folder_variable("OLLAMA_MODELS")) return {*named};
  return {below_home("/.ollama/models"), "/usr/share/ollama/.ollama/models"};
}

}  // namespace

std::vector<LocalModel> local_models() {
  std::vector<LocalModel> models;
  if (const Result<std::string> directory = models_directory(); directory.ok()) add_folder(*directory, "ibid", models);
  add_hub(models);
  add_folder(llama_cpp_folder(), "llama.cpp", models);
  for (const std::string& folder : ollama_folders()) add_ollama(folder, models);
  for (const std::string& folder : lm_studio_folders()) add_lm_studio(folder, models);
  return models;
}

std::vector<std::string> unreadable_stores() {
  std::vector<std::string> folders = {hub_folder(), llama_cpp_folder()};
  if (const Result<std::string> own = models_directory(); own.ok()) folders.push_back(*own);
  for (const std::string& folder : ollama_folders()) folders.push_back(folder + "/manifests");
  for (const std::string& folder : lm_studio_folders()) folders.push_back(folder);
  std::erase_if(folders, [](const std::string& folder) {
    std::error_code error;
    (void)fs::directory_iterator(folder, error);
    return error != std::errc::permission_denied;
  });
  return folders;
}

std::vector<LocalModel> models_named(std::string_view word, const std::vector<LocalModel>& models) {
  std::string wanted = lower_case(word);
  if (wanted.ends_with(".gguf")) wanted.resize(wanted.size() - 5);
  std::vector<LocalModel> same, begin;
  for (const LocalModel& model : models) {
    const std::string name = lower_case(model.name);
    if (name == wanted || name == wanted + ":latest") same.push_back(model);
    const bool begins = name.starts_with(wanted) || name.substr(name.find('/') + 1).starts_with(wanted);
    if (!wanted.empty() && begins) begin.push_back(model);
  }
  return one_each(same.empty() ? std::move(begin) : std::move(same));
}

}  // namespace ibid
