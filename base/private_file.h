// Files with secrets.
#pragma once

#include <cstddef>
#include <string>

#include "base/result.h"

namespace ibid {

// Returns the content of a regular file that only its owner can access, who is this process's user or root. Errors:
// kNotFound; kIo; kNotRegularFile; kUnsafePath, with a remedy, if others may access the file; kLimitExceeded if it has
// more than max_bytes.
Result<std::string> read_private_file(const std::string& path, size_t max_bytes);

}  // namespace ibid
