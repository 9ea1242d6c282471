// Files that are made to be shown: a page, a table of results. Conversations are private, and what keeps them
// (base/file_ops.h) makes files that their owner alone can read; these have the rights that the user's umask leaves.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace ibid {

// The whole file at once: a reader sees the old one or the new one. One that is there keeps its rights.
// Error: kIo; then nothing has changed.
Status write_public_file(const std::string& path, std::string_view text);

// The same rights for `temporary`, a private file that will be renamed to `path`. The umask is read by setting it: no
// other thread may create files meanwhile. Error: kIo.
Status give_public_rights(const std::string& temporary, const std::string& path);

}  // namespace ibid
