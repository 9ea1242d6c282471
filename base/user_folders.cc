#include "base/user_folders.h"

#include <cstdlib>

namespace ibid {

namespace {

struct Row {
  const char* variable;
  const char* below_home;
  const char* what;
};

constexpr Row row_of(UserFolder folder) {
  switch (folder) {
    case UserFolder::kData: return {"XDG_DATA_HOME", "/.local/share", "models"};
    case UserFolder::kState: return {"XDG_STATE_HOME", "/.local/state", "conversations"};
    case UserFolder::kCache: return {"XDG_CACHE_HOME", "/.cache", "keys and values"};
    case UserFolder::kConfig: return {"XDG_CONFIG_HOME", "/.config", "the config file"};
  }
  return {};
}

bool is_absolute(const char* path) { return path != nullptr && path[0] == '/'; }

}  // namespace

Result<std::string> user_folder(UserFolder folder) {
  const Row row = row_of(folder);
  if (const char* value = std::getenv(row.variable); is_absolute(value)) return std::string(value) + "/ibid";
  if (const char* home = std::getenv("HOME"); is_absolute(home)) return home + std::string(row.below_home) + "/ibid";
  return Status(ErrorCode::kNotFound, std::string("cannot choose a directory for ") + row.what +
                                          ": HOME is not set; set HOME or " + row.variable);
}

}  // namespace ibid
