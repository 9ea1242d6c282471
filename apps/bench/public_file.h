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

}  // namespace ibid
