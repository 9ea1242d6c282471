#include "apps/models/model_directory.h"

#include <algorithm>
#include <system_error>

#include "apps/command_line/nearest_names.h"

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

// A file by which a directory of another kind is known.
struct Sign {
  const char* file;
  const char* what;
};
constexpr Sign kSigns[] = {
    {"adapter_config.json", "an adapter (LoRA), which changes another model: name a model that it was merged into"},
    {"model_index.json", "a model that makes images, and not text"},
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

}  // namespace ibid
