// The folders of this user's files. They are below $XDG_DATA_HOME and its like if those are absolute paths, as
// their specification wants it, else below $HOME.
#pragma once

#include <string>

#include "base/result.h"

namespace ibid {

enum class UserFolder {
  kData,    // ~/.local/share/ibid: models
  kState,   // ~/.local/state/ibid: conversations, and what was typed
  kCache,   // ~/.cache/ibid: keys and values
  kConfig,  // ~/.config/ibid: config.toml
};

// The folder's path; it need not exist. kNotFound, with what to set, where the environment names none: nothing is
// ever kept in the working directory or in the root of the file system for want of a home.
Result<std::string> user_folder(UserFolder folder);

}  // namespace ibid
