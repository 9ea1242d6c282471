// The folders for files of the user: below $XDG_DATA_HOME and its like if those are absolute paths, as the XDG
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

// Returns the folder's path; it need not exist. Error: kNotFound, with the variable to set, if the environment defines
// none: no file is ever put into the working directory or the root of the file system instead.
Result<std::string> user_folder(UserFolder folder);

}  // namespace ibid
