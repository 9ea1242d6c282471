// The folders for the user's files: below $XDG_DATA_HOME and similar variables if these are absolute paths, as the XDG
// specification requires, else below $HOME.
#pragma once

#include <string>

#include "base/result.h"

namespace ibid {

enum class UserFolder {
  kData,    // ~/.local/share/ibid: models
  kState,   // ~/.local/state/ibid: conversations, input history
  kCache,   // ~/.cache/ibid: keys and values
  kConfig,  // ~/.config/ibid: config.toml
};

// Returns the folder's path; the folder need not exist. Error: kNotFound, naming the variable to set, if the
// environment defines neither. No file is ever created in the working directory or the root directory instead.
Result<std::string> user_folder(UserFolder folder);

}  // namespace ibid
