#include "apps/models/local_models.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <system_error>

#include "apps/models/model_catalog.h"
#include "apps/nearest_names.h"
#include "base/file_ops.h"
#include "base/json_limits.h"

namespace ibid {

namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxEntries = 10'000;  // that are looked at in one directory
constexpr uint64_t kMaxManifestBytes = 1u << 20;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == 0) return std::nullopt;
  return std::string(value);
}

std::string below_home(const char* path) {
  const std::optional<std::string> home = variable("HOME");
  return home ? *home + path : "";
}

std::string cache_folder() {
  const std::optional<std::string> cache = variable("XDG_CACHE_HOME");
  return cache ? *cache : below_home("/.cache");
}

// What is in a directory, by name, without what begins with a dot.
std::vector<fs::path> entries(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code error;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error)) {
    if (found.size() == kMaxEntries) break;
    if (!it->path().filename().string().starts_with('.')) found.push_back(it->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// A model in one file, or the first part of one in several. Projectors of images are none.
bool is_gguf_model(const fs::path& path) {
  const std::string name = lower_case(path.filename().string());
  if (!name.ends_with(".gguf") || name.find("mmproj") != std::string::npos || !is_file(path)) return false;
  const size_t of = name.rfind("-of-");
  return of == std::string::npos || of < 6 || name.size() - of != 14 || name.substr(of - 6, 6) == "-00001";
}

bool is_model_directory(const fs::path& path) { return is_file(path / "config.json"); }

std::string without_gguf(const fs::path& path) { return path.stem().string(); }

void add_folder(const fs::path& folder, const char* store, std::vector<LocalModel>& models) {
  for (const fs::path& path : entries(folder)) {
    if (is_gguf_model(path)) models.push_back({without_gguf(path), path.string(), store});
    if (is_model_directory(path)) models.push_back({path.filename().string(), path.string(), store});
  }
}

// --- hub: models--OWNER--NAME/refs/main names a directory in snapshots/

std::string hub_folder() {
  if (const auto cache = variable("HF_HUB_CACHE")) return *cache;
  if (const auto home = variable("HF_HOME")) return *home + "/hub";
  return cache_folder() + "/huggingface/hub";
}

std::optional<fs::path> snapshot_of(const fs::path& repository) {
  const std::string ref = (repository / "refs" / "main").string();
  if (const Result<std::string> text = read_file(system_file_ops(), ref, 256); text.ok()) {
    const std::string commit = text->substr(0, text->find_first_of("\r\n"));
    const bool plain = !commit.empty() && commit.find_first_not_of("0123456789abcdef") == std::string::npos;
    std::error_code error;
    if (plain && fs::is_directory(repository / "snapshots" / commit, error)) return repository / "snapshots" / commit;
  }
  const std::vector<fs::path> snapshots = entries(repository / "snapshots");
  return snapshots.empty() ? std::nullopt : std::optional(snapshots.back());
}

void add_hub(std::vector<LocalModel>& models) {
  constexpr std::string_view kBegin = "models--", kBetween = "--";
  for (const fs::path& repository : entries(hub_folder())) {
    std::string name = repository.filename().string();
    if (!name.starts_with(kBegin)) continue;
    name.erase(0, kBegin.size());
    if (const size_t between = name.find(kBetween); between != std::string::npos) {
      name.replace(between, kBetween.size(), "/");
    }
    const std::optional<fs::path> snapshot = snapshot_of(repository);
    if (!snapshot) continue;
    if (is_model_directory(*snapshot)) models.push_back({name, snapshot->string(), "hugging face"});
    for (const fs::path& path : entries(*snapshot)) {
      if (is_gguf_model(path)) models.push_back({name + ":" + without_gguf(path), path.string(), "hugging face"});
    }
  }
}

// --- Ollama: manifests/HOST/NAMESPACE/MODEL/TAG names a blob by its digest

// "sha256:" and 64 digits, and nothing that could be a path.
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
  const std::string prefix = owner.filename() == "library" ? "" : owner.filename().string() + "/";
  models.push_back({prefix + model.filename().string() + ":" + tag.filename().string(),
                    (store / "blobs" / *blob).string(), "ollama"});
}

void add_ollama(const fs::path& store, std::vector<LocalModel>& models) {
  if (store.empty()) return;
  for (const fs::path& host : entries(store / "manifests")) {
    for (const fs::path& owner : entries(host)) {
      for (const fs::path& model : entries(owner)) {
        for (const fs::path& tag : entries(model)) add_ollama_tag(store, tag, models);
      }
    }
  }
}

// --- LM Studio: PUBLISHER/NAME/FILE.gguf

void add_lm_studio(const fs::path& store, std::vector<LocalModel>& models) {
  for (const fs::path& publisher : entries(store)) {
    for (const fs::path& model : entries(publisher)) {
      const std::string name = publisher.filename().string() + "/" + model.filename().string();
      if (is_model_directory(model)) models.push_back({name, model.string(), "lm studio"});
      for (const fs::path& path : entries(model)) {
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

}  // namespace

std::vector<LocalModel> local_models() {
  std::vector<LocalModel> models;
  if (const Result<std::string> directory = models_directory(); directory.ok()) add_folder(*directory, "ibid", models);
  add_hub(models);
  add_folder(variable("LLAMA_CACHE").value_or(cache_folder() + "/llama.cpp"), "llama.cpp", models);
  const std::optional<std::string> ollama = variable("OLLAMA_MODELS");
  add_ollama(ollama.value_or(below_home("/.ollama/models")), models);
  if (!ollama) add_ollama("/usr/share/ollama/.ollama/models", models);
  add_lm_studio(below_home("/.lmstudio/models"), models);
  add_lm_studio(below_home("/.cache/lm-studio/models"), models);
  return models;
}

std::vector<LocalModel> models_named(std::string_view word, const std::vector<LocalModel>& models) {
  std::string wanted = lower_case(word);
  if (wanted.ends_with(".gguf")) wanted.resize(wanted.size() - 5);
  std::vector<LocalModel> same, begin;
  for (const LocalModel& model : models) {
    const std::string name = lower_case(model.name);
    if (name == wanted) same.push_back(model);
    const bool begins = name.starts_with(wanted) || name.substr(name.find('/') + 1).starts_with(wanted);
    if (!wanted.empty() && begins) begin.push_back(model);
  }
  return one_each(same.empty() ? std::move(begin) : std::move(same));
}

}  // namespace ibid
