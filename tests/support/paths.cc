#include "tests/support/paths.h"

#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace ibid {

namespace {

constexpr std::string_view kDefaultModelFile = "SmolLM2-135M-Instruct.Q4_1.gguf";

// Returns an environment variable if it is set and not empty.
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return value;
}

std::optional<std::filesystem::path> models_dir() {
  if (const auto dir = environment("IBID_MODELS")) return *dir;
  if (const auto data = environment("XDG_DATA_HOME")) return std::filesystem::path(*data) / "ibid/models";
  if (const auto home = environment("HOME")) {
    return std::filesystem::path(*home) / ".local/share/ibid/models";
  }
  return std::nullopt;
}

}  // namespace

std::string golden_dir() { return IBID_SOURCE_DIR "/tests/golden"; }

std::optional<std::string> shared_dir() {
  std::error_code error;
  const auto given = environment("IBID_SHARED");
  const std::filesystem::path dir = given ? *given : IBID_SOURCE_DIR "/../shared";
  if (!std::filesystem::is_directory(dir, error)) return std::nullopt;
  return dir.string();
}

std::optional<std::string> real_model_path() {
  std::error_code error;
  const auto dir = models_dir();
  if (!dir) return std::nullopt;
  const std::filesystem::path path = *dir / kDefaultModelFile;
  if (!std::filesystem::is_regular_file(path, error)) return std::nullopt;
  return path.string();
}

bool running_in_ci() { return environment("CI") == "true"; }

}  // namespace ibid
